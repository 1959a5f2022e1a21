package lineage

// qwen2 describes Qwen 2 and 2.5: llama with biases of q, k and v, and halves that are rotated.
func qwen2() Family {
	f := llama()
	f.Name, f.HuggingFace = "qwen2", []string{"Qwen2ForCausalLM", "Qwen2Model"}
	f.Rotation, f.Block = HalvesApart, llamaBlock(Same)
	for i := range f.Block {
		switch f.Block[i].Name {
		case "attn_q.bias", "attn_k.bias", "attn_v.bias":
			f.Block[i].Optional = false
		}
	}
	return f
}
