package arch

import "cmp"

// stablelm describes StableLM 3B, 2 1.6B and Zephyr: llama with LayerNorms, of whose heads a quarter is rotated.
func stablelm() Family {
	f := llama()
	f.Name, f.HuggingFace = "stablelm", []string{"StableLmForCausalLM", "StableLMEpochForCausalLM"}
	f.Rotation, f.PartialRotary, f.LayerNorm, f.Original = HalvesApart, true, true, ""
	f.Outer = append(f.Outer, Tensor{Name: "output_norm.bias", Source: "norm.bias"})
	f.Block = normBiases(llamaBlock(Same), Same)
	f.Read = readStableLM
	return f
}

func readStableLM(c *Config) error {
	switch {
	case c.HeadNorm:
		return c.Errorf("qk_layernorm", "norms with weights of their own for each head, as StableLM 2 12B has them, are not supported")
	case or(c.ParallelParts, false):
		return c.Errorf("use_parallel_residual", "attention beside the feed-forward layer, as StableLM 2 12B has it, is not supported")
	}
	c.epsilon("layer_norm_eps", cmp.Or(c.OldLayerNormEps, c.NormEps), 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, false)
	if c.Rope == nil || c.Rope.Partial == 0 {
		c.Rotary = cmp.Or(c.Rotary, c.OldRotary, 0.25)
	}
	return nil
}
