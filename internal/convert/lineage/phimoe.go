package lineage

import "cmp"

// phiMoE describes Phi-3.5 MoE: experts, biases of norms, of attention's products and of the head; long contexts divide
// frequencies by factors of their own. GGUF files mean RMSNorms, as llama.cpp computes; the published model has
// LayerNorms.
func phiMoE() Family {
	f := llama()
	f.Name, f.HuggingFace = "phimoe", []string{"PhiMoEForCausalLM", "PhimoeForCausalLM"}
	f.Rotation = HalvesApart
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.Outer = append(phi3().Outer, Tensor{Name: "output_norm.bias", Source: "norm.bias"}, Tensor{Name: "output.bias", Source: "lm_head.bias", Rootless: true})
	f.Block = required(mixtralExperts(without(normBiases(llamaBlock(Same), Same), insteadOfExperts...)), "*")
	f.Read = func(c *Config) error {
		if s := c.RopeScale; s != nil && s.LongM != 0 {
			if s.ShortM != s.LongM {
				return c.Errorf("rope_scaling", "short_mscale %g other than long_mscale %g is not supported", s.ShortM, s.LongM)
			}
			s.Attention = s.LongM
		}
		c.mixture(c.FF)
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		return readPhi3(c)
	}
	return f
}
