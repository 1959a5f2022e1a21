package lineage

// graniteMoE describes Granite 3's models with experts, with or without a shared one.
func graniteMoE() Family {
	f := granite()
	f.Name, f.HuggingFace = "granitemoe", []string{"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"}
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.Block = append(withExperts(f.Block, "block_sparse_moe.router.layer.weight", "", "", "")[:len(f.Block)+1],
		Tensor{Name: "ffn_gate_exps.weight", Source: "block_sparse_moe.input_linear.weight", Change: FirstHalf},
		Tensor{Name: "ffn_up_exps.weight", Source: "block_sparse_moe.input_linear.weight", Change: SecondHalf},
		Tensor{Name: "ffn_down_exps.weight", Source: "block_sparse_moe.output_linear.weight"},
		Tensor{Name: "ffn_gate_shexp.weight", Source: "shared_mlp.input_linear.weight", Optional: true, Change: FirstHalf},
		Tensor{Name: "ffn_up_shexp.weight", Source: "shared_mlp.input_linear.weight", Optional: true, Change: SecondHalf},
		Tensor{Name: "ffn_down_shexp.weight", Source: "shared_mlp.output_linear.weight", Optional: true})
	read := f.Read
	f.Read = func(c *Config) error {
		c.mixture(c.FF)
		c.Mixture.Shared = c.SharedMLP
		return read(c)
	}
	return f
}
