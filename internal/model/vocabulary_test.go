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
		t.Fatal("no vocabulary in ../shared/vocab")
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

// TestGemma4Begins: a text for Gemma 4 begins with BOS whatever the file says, as in llama.cpp; other files are believed.
func TestGemma4Begins(t *testing.T) {
	for _, c := range []struct {
		model, pre string
		want       bool
	}{{"gemma4", "", true}, {"gpt2", "gemma4", true}, {"gpt2", "gpt-2", false}} {
		f := gguf.Describe("m.gguf", "GGUF", []gguf.KV{
			{Key: "tokenizer.ggml.model", Value: c.model},
			{Key: "tokenizer.ggml.pre", Value: c.pre},
			{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "ab", "<bos>"}},
			{Key: "tokenizer.ggml.token_type", Value: []int32{1, 1, 1, 3}},
			{Key: "tokenizer.ggml.merges", Value: []string{"a b"}},
			{Key: "tokenizer.ggml.bos_token_id", Value: uint32(3)},
			{Key: "tokenizer.ggml.add_bos_token", Value: false},
		}, nil)
		tok, err := Tokenizer(f)
		if err != nil {
			t.Fatal(err)
		}
		want := []int32{2}
		if c.want {
			want = []int32{3, 2}
		}
		if got := tok.Encode("ab", true, false); !slices.Equal(got, want) {
			t.Errorf("%s, %s: %v instead of %v", c.model, c.pre, got, want)
		}
	}
}
