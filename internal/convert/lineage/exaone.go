package lineage

import "cmp"

// exaone describes EXAONE 3 and 3.5: llama with rotated halves and other names.
func exaone() Family {
	f := llama()
	f.Name, f.HuggingFace = "exaone", []string{"ExaoneForCausalLM"}
	f.Rotation, f.MaxContext = HalvesApart, 32768
	f.Root, f.Layer, f.Buffers = []string{"transformer."}, "h.%d.", []string{".rotary.inv_freq"}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "wte.weight"},
		{Name: "output_norm.weight", Source: "ln_f.weight"},
		{Name: "rope_freqs.weight", Optional: true, Change: Computed},
	}
	const attention = "attn.attention."
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "ln_1.weight"},
		{Name: "attn_q.weight", Source: attention + "q_proj.weight"},
		{Name: "attn_k.weight", Source: attention + "k_proj.weight"},
		{Name: "attn_v.weight", Source: attention + "v_proj.weight"},
		{Name: "attn_output.weight", Source: attention + "out_proj.weight"},
		{Name: "ffn_norm.weight", Source: "ln_2.weight"},
		{Name: "ffn_gate.weight", Source: "mlp.c_fc_0.weight"},
		{Name: "ffn_up.weight", Source: "mlp.c_fc_1.weight"},
		{Name: "ffn_down.weight", Source: "mlp.c_proj.weight"},
	}
	f.Read = func(c *Config) error {
		c.Layers = cmp.Or(c.NumLayers, c.Layers)
		c.epsilon("layer_norm_epsilon", c.LayerNormEps, 1e-5)
		c.nonlinearity("activation_function", c.OPTAct, "silu")
		c.TiedHead = or(c.Tied, false)
		return nil
	}
	return f
}
