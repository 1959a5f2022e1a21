package tokenizer

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestShortKey: words of the same bytes in other lengths, also with NUL bytes at their ends, have different keys.
func TestShortKey(t *testing.T) {
	rng := testenv.Rand(t)
	type key struct{ a, b uint64 }
	words := map[key]string{}
	for range 20000 {
		w := make([]byte, rng.IntN(shortest+1))
		for i := range w {
			w[i] = byte(rng.IntN(3)) // few, so that words differ little
		}
		a, b := shortKey(string(w))
		if before, ok := words[key{a, b}]; ok && before != string(w) {
			t.Fatalf("%q and %q have the same key", before, w)
		}
		words[key{a, b}] = string(w)
	}
}

// TestFusedUnknown: without byte tokens, adjacent unknown characters are one unknown token, as in SentencePiece 0.1.97
// and Hugging Face's library, and cached words are still found.
func TestFusedUnknown(t *testing.T) {
	tok, err := New(Vocab{
		Model: "llama", Tokens: []string{"<unk>", "<s>", "</s>", "▁", "a", "▁a", "b"}, Scores: []float32{0, 0, 0, -3, -2, -1, -4},
		Types: []int32{Unknown, Control, Control, Normal, Normal, Normal, Normal}, BOS: 1, EOS: 2, UNK: 0, EOT: -1, PAD: -1, AddSpacePrefix: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{
		"a漢字a ?b a漢字":         {5, 0, 4, 3, 0, 6, 5, 0},
		"漢字</s>漢字 a</s>漢 a漢字": {3, 0, 2, 3, 0, 5, 2, 3, 0, 5, 0},
	} {
		if got := tok.Encode(text, false, true); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestDetokenizeUnigram: the space that is put before a text is removed again.
func TestDetokenizeUnigram(t *testing.T) {
	tok, err := New(Vocab{
		Model: "t5", Tokens: []string{"<unk>", "<s>", "</s>", "▁", "a", "▁a"}, Scores: []float32{0, 0, 0, -3, -2, -1},
		Types: []int32{Unknown, Control, Control, Normal, Normal, Normal}, BOS: 1, EOS: 2, UNK: 0, EOT: -1, PAD: -1, AddSpacePrefix: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Detokenize(tok.Encode("a  aa", false, false), false); got != "a  aa" {
		t.Errorf("%q", got)
	}
}
