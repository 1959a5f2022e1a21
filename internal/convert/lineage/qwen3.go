package lineage

// qwen3 describes Qwen 3: llama with rotated halves, and a norm of every head of q and k. Its embeddings are models of
// the same form, with folders that may lack the prefix and the head; its rerankers answer yes or no.
func qwen3() Family {
	f := llama()
	f.Name, f.HuggingFace = "qwen3", []string{"Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification"}
	f.Rotation, f.Block = HalvesApart, headNorms(llamaBlock(Same))
	return f
}
