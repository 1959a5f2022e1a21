package lineage

// deepseek describes DeepSeek's first models with experts: shared experts, and others that a softmax chooses. The first
// layers have no experts.
func deepseek() Family {
	f := llama()
	f.Name, f.HuggingFace = "deepseek", []string{"DeepseekForCausalLM"}
	f.Experts = &Experts{MinSum: leastSum, Counted: true}
	f.Block = sharedExpert(mlpExperts(f.Block), "mlp.shared_experts")
	f.Read = func(c *Config) error {
		if err := c.routed(); err != nil {
			return err
		}
		c.refuse(c.Scoring != "" && c.Scoring != "softmax", "scoring_func", "%q is not supported in DeepSeek's first models; softmax is", c.Scoring)
		return readLlama(c)
	}
	return f
}

// deepseekOCR describes the text part of DeepSeek-OCR: DeepSeek's first models with halves of pairs apart.
func deepseekOCR() Family {
	f := deepseek()
	f.Name, f.HuggingFace, f.Rotation = "deepseek2-ocr", []string{"DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM", "UnlimitedOCRForCausalLM"}, HalvesApart
	f.Block = sharedExpert(mlpExperts(llamaBlock(Same)), "mlp.shared_experts")
	return f
}
