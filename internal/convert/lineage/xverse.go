package lineage

// xverse describes XVERSE: llama under another name.
func xverse() Family {
	f := llama()
	f.Name, f.HuggingFace = "xverse", []string{"XverseForCausalLM"}
	return f
}
