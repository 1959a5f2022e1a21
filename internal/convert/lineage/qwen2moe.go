package lineage

// qwen2MoE describes Qwen 1.5's and 2's models with experts, and a shared expert that a sigmoid weighs.
func qwen2MoE() Family {
	f := qwen2()
	f.Name, f.HuggingFace = "qwen2moe", []string{"Qwen2MoeForCausalLM"}
	f.Experts = &Experts{MinSum: leastSum, Divided: true, Shared: true}
	f.Block = append(required(sharedExpert(mlpExperts(f.Block), "mlp.shared_expert"), "*_shexp.*"), Tensor{Name: "ffn_gate_inp_shexp.weight", Source: "mlp.shared_expert_gate.weight"})
	f.Read = func(c *Config) error {
		c.mixture(c.ExpertWidth)
		return readLlama(c)
	}
	return f
}
