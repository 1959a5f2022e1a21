package arch

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// minimaxM2 describes MiniMax M2: experts scored by a sigmoid, with a bias that counts for the choice only, norms of q
// and k over all heads together, and heads of which a part is rotated.
func minimaxM2() Family {
	f := llama()
	f.Name, f.HuggingFace = "minimax-m2", []string{"MiniMaxM2ForCausalLM"}
	f.Rotation, f.WideNorm, f.PartialRotary, f.Original = HalvesApart, true, true, ""
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum}
	const experts = "block_sparse_moe.experts.%d."
	f.Block = append(withExperts(headNorms(llamaBlock(Same)), "block_sparse_moe.gate.weight", experts+"w1.weight", experts+"w3.weight", experts+"w2.weight"),
		Tensor{Name: "exp_probs_b.bias", Source: "block_sparse_moe.e_score_correction_bias"})
	f.Read = func(c *Config) error {
		if c.Scoring != "" && c.Scoring != "sigmoid" {
			return c.Errorf("scoring_func", "%q is not supported in MiniMax M2; sigmoid is", c.Scoring)
		}
		c.mixture(c.FF)
		if c.RotaryDim > 0 && c.HeadDim > 0 {
			c.Rotary = cmp.Or(c.Rotary, float64(c.RotaryDim)/float64(c.HeadDim))
		}
		return readLlama(c)
	}
	return f
}
