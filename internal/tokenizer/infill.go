package tokenizer

// Infill holds the tokens that ask a model of code for the text between two texts.
type Infill struct {
	Prefix, Suffix, Middle int32
	Repository, File       int32 // before a repository's name and each file of it; -1: the model has none
	Pad                    int32 // fills up the shorter one; -1: there is none
}

// infillTexts are the texts of such tokens in models with files that do not name them, from llama.cpp.
var infillTexts = struct{ prefix, suffix, middle, repository, file []string }{
	prefix:     []string{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"},
	suffix:     []string{"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"},
	middle:     []string{"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"},
	repository: []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
	file:       []string{"<|file_sep|>"},
}

// Infill returns the tokens for infilling, and whether the model has the required ones.
func (t *Tokenizer) Infill() (Infill, bool) {
	of := func(named int32, texts []string) int32 {
		if named >= 0 {
			return named
		}
		for _, text := range texts {
			if id, ok := t.ids[text]; ok {
				return id
			}
		}
		return -1
	}
	v, s := &t.v.Infill, &infillTexts
	if t.v.Infill == (Infill{}) { // not said
		v = &Infill{-1, -1, -1, -1, -1, -1}
	}
	f := Infill{of(v.Prefix, s.prefix), of(v.Suffix, s.suffix), of(v.Middle, s.middle), of(v.Repository, s.repository), of(v.File, s.file), of(v.Pad, infillPads)}
	return f, f.Prefix >= 0 && f.Suffix >= 0 && f.Middle >= 0
}
