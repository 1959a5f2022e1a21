package model

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestVectors tokenises llama.cpp's published test texts with its published vocabularies.
func TestVectors(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(testenv.Shared(t, "vocab"), "*.gguf"))
	if len(files) == 0 {
		t.Fatal("no vocabulary")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tok, err := Tokenizer(f)
			if err != nil {
				t.Fatal(err)
			}
			texts := strings.Split(read(t, path+".inp"), "\n__ggml_vocab_test__\n")
			lines := strings.Split(strings.TrimSuffix(read(t, path+".out"), "\n"), "\n")
			for i, line := range lines {
				var want []int32
				for _, w := range strings.Fields(line) {
					id, err := strconv.Atoi(w)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(id))
				}
				if got := tok.Encode(texts[i], false, false); !slices.Equal(got, want) {
					t.Errorf("text %d %q:\n got %v\nwant %v", i, texts[i], got, want)
				}
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
