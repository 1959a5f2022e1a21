package model

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
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

// TestEndsOfFile: the keys of end tokens may be numbers or lists, and a token outside the vocabulary means none.
func TestEndsOfFile(t *testing.T) {
	f := openSynth(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 32, FF: 32, Heads: 1, Type: quant.F16, Seed: 1})
	for key, v := range map[string]any{
		"eos_token_id": []uint32{7, 8}, "eos_token_ids": []int32{9, -1, 1 << 30}, "eot_token_id": int64(10), "eom_token_id": float32(11), "eom_token_ids": uint8(12),
		"padding_token_id": int32(-1), "fim_pad_token_id": uint32(math.MaxUint32), "unknown_token_id": uint64(1 << 40),
	} {
		f.Set("tokenizer.ggml."+key, v)
	}
	tok, err := Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	for id := range int32(20) {
		if want := id >= 7 && id <= 12 || id == 2; tok.IsEOG(id) != want {
			t.Errorf("%d %q ends a text: %v", id, tok.Text(id), !want)
		}
	}
	if note := tok.Note(); !strings.Contains(note, "eos_token_ids, tokenizer.ggml.unknown_token_id: ") && !strings.Contains(note, "unknown_token_id, tokenizer.ggml.eos_token_ids: ") || strings.Contains(note, "padding") {
		t.Errorf("note %q", note)
	}
	if tok.EOS() != 7 || tok.EOT() != 10 || tok.PAD() != -1 {
		t.Errorf("EOS %d, EOT %d, PAD %d", tok.EOS(), tok.EOT(), tok.PAD())
	}
}

// TestScoresOfAnyType: scores may be integers, or missing; missing scores are all equal.
func TestScoresOfAnyType(t *testing.T) {
	ids := func(scores any) []int32 {
		f := openSynth(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 32, FF: 32, Heads: 1, Type: quant.F16, Seed: 1})
		f.Set("tokenizer.ggml.scores", scores)
		tok, err := Tokenizer(f)
		if err != nil {
			t.Fatal(err)
		}
		return tok.Encode("the cat and the dog", true, false)
	}
	n := len(ids([]float32{}))
	floats, whole, doubles := make([]float32, 512), make([]int32, 600), make([]float64, 512)
	for i := range floats {
		floats[i], whole[i], doubles[i] = float32(-i%7), int32(-i%7), float64(-i%7)
	}
	want := ids(floats)
	f := openSynth(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 32, FF: 32, Heads: 1, Type: quant.F16, Seed: 1})
	f.Set("tokenizer.ggml.token_type", make([]uint8, 512)) // all undefined
	if _, err := Tokenizer(f); err != nil {
		t.Error(err)
	}
	if got := ids(whole); !slices.Equal(got, want) {
		t.Errorf("%v of whole scores, not %v", got, want)
	}
	if got := ids(doubles); !slices.Equal(got, want) {
		t.Errorf("%v of doubles, not %v", got, want)
	}
	if got := ids(make([]float32, 512)); n != len(got) {
		t.Errorf("%d tokens without scores, %d of equal ones", n, len(got))
	}
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
