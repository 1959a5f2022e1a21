package arch

// nanbeige describes Nanbeige 4.2: Llama, through whose layers tokens go several times.
func nanbeige() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "nanbeige", nil, ""
	return f
}
