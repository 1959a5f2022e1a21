package arch

import "slices"

// qwen3 describes Qwen 3: llama with halves that are rotated, and a norm of every head of q and k.
func qwen3() Family {
	f := llama()
	f.Name, f.HuggingFace = "qwen3", []string{"Qwen3ForCausalLM"}
	f.Rotation, f.Original, f.Block = HalvesApart, "", llamaBlock(Same)
	i := slices.IndexFunc(f.Block, func(t Tensor) bool { return t.Name == "attn_output.weight" })
	f.Block = slices.Insert(f.Block, i,
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.q_norm.weight"},
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_norm.weight"})
	return f
}
