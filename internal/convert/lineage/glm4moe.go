package lineage

import (
	"cmp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// glm4MoE describes GLM 4.5 and its kin: experts scored by a sigmoid, with a bias that counts for the choice only, and
// shared ones; the first layers have none. A part of each head is rotated, and the larger models norm queries and keys.
func glm4MoE() Family {
	f := llama()
	f.Name, f.HuggingFace = "glm4moe", []string{"Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration", solarOpen}
	f.Rotation, f.PartialRotary, f.FFNNorm = HalvesApart, true, "post_attention_norm"
	f.MaySection, f.Root = true, textRoots() // GLM 4.5V
	f.Experts = &Experts{Score: compute.Sigmoid, MinSum: leastSum, Counted: true}
	block := replaced(llamaBlock(Same), "ffn_norm.weight", Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"})
	f.Block = append(sharedExpert(mlpExperts(block), "mlp.shared_experts"),
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.q_norm.weight", Optional: true},
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_norm.weight", Optional: true},
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.e_score_correction_bias"})
	f.Read, f.Further = readGLM4MoE, true
	return f
}

// solarOpen is the Hugging Face architecture of Solar Open. It rotates whole heads and has experts in all layers.
const solarOpen = "SolarOpenForCausalLM"

func readGLM4MoE(c *Config) error {
	c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
	share := 0.5
	if slices.Contains(c.Architectures, solarOpen) {
		c.FF, c.FirstDense, share = cmp.Or(c.FF, c.ExpertWidth), 0, 1
	}
	c.rotates(share)
	if err := c.routed(); err != nil {
		return err
	}
	c.Mixture.Normalised = new(or(c.NormTopK, true))
	return readLlama(c)
}
