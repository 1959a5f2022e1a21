package lineage

import "cmp"

// glm4 describes GLM 4 of 2025: norms before and after attention and the feed-forward layer, half of each head rotated,
// and gates and ups in one tensor.
func glm4() Family {
	f := llama()
	f.Name, f.HuggingFace = "glm4", []string{"Glm4ForCausalLM", "Glm4vForConditionalGeneration", "GlmOcrForConditionalGeneration"}
	f.MaySection, f.Further = true, true // GLM 4.1V and GLM-OCR
	f.PartialRotary, f.FusedGate, f.Root = true, true, textRoots()
	f.Block = replaced(llamaBlock(Same), "ffn_norm.weight", // q and k are stored as neighbours already
		Tensor{Name: "post_attention_norm.weight", Source: "post_self_attn_layernorm.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"})
	f.Block = with(without(f.Block, "ffn_gate.weight"),
		Tensor{Name: "ffn_up.weight", Source: "mlp.gate_up_proj.weight"},
		Tensor{Name: "post_ffw_norm.weight", Source: "post_mlp_layernorm.weight"})
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1.5625e-07)
		c.HeadDim = cmp.Or(c.HeadDim, 128)
		c.rotates(0.5)
		return readLlama(c)
	}
	return f
}
