package lineage

// pangu describes openPangu Embedded: llama with biases of q, k, v and o.
func pangu() Family {
	f := llama()
	f.Name, f.HuggingFace = "pangu-embedded", []string{"PanguEmbeddedForCausalLM"}
	f.Rotation, f.Block = HalvesApart, llamaBlock(Same)
	return f
}
