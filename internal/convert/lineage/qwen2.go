package lineage

// qwen2 describes Qwen 2 and 2.5: llama with biases of q, k and v, and halves that are rotated.
func qwen2() Family {
	f := llama()
	f.Name, f.HuggingFace = "qwen2", []string{"Qwen2ForCausalLM", "Qwen2Model"}
	f.Rotation, f.Block = HalvesApart, required(llamaBlock(Same), "attn_[qkv].bias")
	return f
}
