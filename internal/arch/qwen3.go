package arch

// qwen3 describes Qwen 3: llama with halves that are rotated, and a norm of every head of q and k.
func qwen3() Family {
	f := llama()
	f.Name, f.HuggingFace = "qwen3", []string{"Qwen3ForCausalLM"}
	f.Rotation, f.Original, f.Block = HalvesApart, "", headNorms(llamaBlock(Same))
	return f
}
