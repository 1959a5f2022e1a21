package lineage

// orion describes Orion: llama with LayerNorms. Its configuration calls their epsilon an RMSNorm's.
func orion() Family {
	f := llama()
	f.Name, f.HuggingFace = "orion", []string{"OrionForCausalLM"}
	f.Rotation, f.LayerNorm = HalvesApart, true
	f.Outer = append(f.Outer, Tensor{Name: "output_norm.bias", Source: "norm.bias"})
	f.Block = without(normBiases(llamaBlock(Same), Same), "attn_output.bias")
	f.Read = func(c *Config) error {
		c.epsilon("rms_norm_eps", c.RMSEps, 1e-5)
		c.nonlinearity("hidden_act", c.Act, "silu")
		c.TiedHead = or(c.Tied, false)
		return nil
	}
	return f
}
