package gguf

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestVocabularies opens the published vocabulary-only files, which have no tensors.
func TestVocabularies(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(testenv.Shared(t, "vocab"), "*.gguf"))
	if len(files) == 0 {
		t.Fatal("no vocabulary")
	}
	for _, path := range files {
		f, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if tokens, ok, err := f.Strings("tokenizer.ggml.tokens"); !ok || err != nil || len(tokens) < 30000 {
			t.Errorf("%s: %d tokens, %v", path, len(tokens), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
