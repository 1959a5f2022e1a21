package arch

// xverse describes XVERSE: llama, with files of its own name.
func xverse() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "xverse", []string{"XverseForCausalLM"}, ""
	return f
}
