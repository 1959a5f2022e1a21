package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// dots1 describes dots.llm1: experts scored by a sigmoid, with a bias that counts for the choice only, and shared ones;
// the first layers have none. Queries and keys are normed.
func dots1() Family {
	f := llama()
	f.Name, f.HuggingFace = "dots1", []string{"Dots1ForCausalLM"}
	f.Rotation, f.OwnHeads = HalvesApart, true
	f.Experts = &Experts{Score: compute.Sigmoid, MinSum: leastSum, Counted: true}
	f.Block = append(sharedExpert(mlpExperts(headNorms(llamaBlock(Same))), "mlp.shared_experts"),
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.e_score_correction_bias", Optional: true})
	f.Read = func(c *Config) error {
		if c.KVHeads != 0 && c.KVHeads != c.Heads {
			return c.Errorf("num_key_value_heads", "%d of %d heads have keys and values of their own, and in this family all have", c.KVHeads, c.Heads)
		}
		if err := c.routed(); err != nil {
			return err
		}
		return readLlama(c)
	}
	return f
}
