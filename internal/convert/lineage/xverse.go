package lineage

// xverse describes XVERSE: llama, with files of its own name.
func xverse() Family {
	f := llama()
	f.Name, f.HuggingFace = "xverse", []string{"XverseForCausalLM"}
	return f
}
