package lineage

// dots3Note describes dots.3 Note: latent attention of two shapes, which layers have by whether they have a window, a
// norm of the part of keys that heads share, gates of heads, and indexers in layers without windows. Its folders are not
// converted yet.
func dots3Note() Family {
	f := deepseek32()
	f.Name, f.HuggingFace, f.Window, f.YarnScores, f.Further, f.HeadGate = "dots3note", nil, true, false, false, true
	f.Block = before(f.Block, "attn_output.weight",
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_rope_layernorm.weight"},
		Tensor{Name: "attn_gate.weight", Source: "self_attn.gate_proj.weight"})
	return f
}
