package lineage

// olmo describes OLMo 1: llama with LayerNorms that have neither weights nor biases.
func olmo() Family {
	f := llama()
	f.Name, f.HuggingFace = "olmo", []string{"OlmoForCausalLM"}
	f.LayerNorm, f.BareNorms, f.Clamped = true, true, true
	f.Outer, f.Block = without(f.Outer, "*_norm.*"), without(f.Block, "*_norm.*", "attn_output.bias")
	f.Read = func(c *Config) error {
		c.epsilon("layer_norm_eps", 0, 1e-5) // which configurations do not tell
		c.nonlinearity("hidden_act", c.Act, "silu")
		c.Clamp = or(c.ClipQKV, 0)
		c.TiedHead = or(c.Tied, false)
		return nil
	}
	return f
}
