package lineage

// mellum describes Mellum 2: Qwen 3's models with experts, and a sliding window in three of four layers, which do not
// scale RoPE for long contexts.
func mellum() Family {
	f := qwen3MoE()
	f.Name, f.HuggingFace = "mellum", []string{"MellumForCausalLM"}
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.Window, f.FullEvery = true, 4
	f.Read = func(c *Config) error {
		c.ropeByKind()
		if !or(c.UseWindow, true) {
			c.Window = 0
		}
		c.mixture(c.ExpertWidth)
		return readLlama(c)
	}
	return f
}
