package tokenizer

import "testing"

// TestInfill: tokens are found by the file's ids, else by the texts that known models use.
func TestInfill(t *testing.T) {
	v := Vocab{
		Model: "llama", Tokens: []string{"<unk>", "<s>", "</s>", "a", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "b"},
		Types: []int32{Unknown, Control, Control, Normal, Control, Control, Control, Control, Normal}, Scores: make([]float32, 9),
		BOS: 1, EOS: 2, EOT: -1, PAD: -1,
	}
	check := func(want Infill, ok bool) {
		t.Helper()
		tok, err := New(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, has := tok.Infill(); got != want || has != ok {
			t.Errorf("%+v %v, want %+v %v", got, has, want, ok)
		}
	}
	check(Infill{4, 5, 6, 7, -1, -1}, true)
	v.Infill = Infill{Prefix: 6, Suffix: -1, Middle: 4, Repository: -1, File: 8, Pad: -1}
	check(Infill{6, 5, 4, 7, 8, -1}, true)
	v.Tokens[5] = "c"
	check(Infill{6, -1, 4, 7, 8, -1}, false)
	v.Infill.File = 9
	if _, err := New(v); err == nil {
		t.Error("a token outside the vocabulary is taken")
	}
}
