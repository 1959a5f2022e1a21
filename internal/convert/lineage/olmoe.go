package lineage

import "cmp"

// olmoe describes OLMoE: experts without normalised weights, and norms of q and k over all heads together.
func olmoe() Family {
	f := llama()
	f.Name, f.HuggingFace = "olmoe", []string{"OlmoeForCausalLM"}
	f.Rotation, f.Clamped = HalvesApart, true
	f.Experts = &Experts{MinSum: leastSum}
	f.Block = mlpExperts(headNorms(llamaBlock(Same)))
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		c.mixture(c.FF)
		c.Clamp = or(c.ClipQKV, 0)
		return readLlama(c)
	}
	return f
}
