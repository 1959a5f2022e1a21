package lineage

// qwen3MoE describes Qwen 3's models with experts: Qwen 3 with a router instead of one feed-forward layer.
func qwen3MoE() Family {
	f := qwen3()
	f.Name, f.HuggingFace = "qwen3moe", []string{"Qwen3MoeForCausalLM"}
	f.Experts = &Experts{Normalised: true, MinSum: leastSum, Divided: true}
	f.Block = mlpExperts(f.Block)
	f.Read = func(c *Config) error {
		c.mixture(c.ExpertWidth)
		return readLlama(c)
	}
	return f
}
