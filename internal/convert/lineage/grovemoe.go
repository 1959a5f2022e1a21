package lineage

import (
	"cmp"
	"slices"
)

// groveMoE describes GroveMoE: Qwen 3 with experts. Neighbouring experts share a small one.
func groveMoE() Family {
	f := qwen3MoE()
	f.Name, f.HuggingFace, f.Buffers = "grovemoe", []string{"GroveMoeForCausalLM"}, []string{".expert_bias"}
	f.Block = slices.Clone(f.Block)
	for _, part := range []string{"gate", "up", "down"} {
		f.Block = append(f.Block, Tensor{Name: "ffn_" + part + "_chexps.weight", Source: "mlp.chunk_experts.%d." + part + "_proj.weight", Change: Stacked})
	}
	f.Read = func(c *Config) error {
		c.mixture(c.ExpertWidth)
		// The published code's numbers, for models with heads of 128 elements.
		c.Mixture.Grove = &Grove{Width: cmp.Or(c.HeadDim, 128), Sharing: 2, Scale: 0.05}
		return readLlama(c)
	}
	return f
}

// Grove describes the small experts that others share.
type Grove struct {
	Width   int     // neurons of one
	Sharing int     // neighbours that share one
	Scale   float32 // factor of the small experts' output
}
