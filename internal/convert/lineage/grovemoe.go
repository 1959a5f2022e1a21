package lineage

import "slices"

// groveMoE describes GroveMoE's files: Qwen 3 with experts. Neighbouring experts share a small one.
func groveMoE() Family {
	f := qwen3MoE()
	f.Name, f.HuggingFace = "grovemoe", nil
	f.Block = slices.Clone(f.Block)
	for _, part := range []string{"gate", "up", "down"} {
		f.Block = append(f.Block, Tensor{Name: "ffn_" + part + "_chexps.weight", Source: "mlp.chunk_experts.%d." + part + "_proj.weight", Change: Stacked})
	}
	return f
}
