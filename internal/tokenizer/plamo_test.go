package tokenizer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// plamoVocab is a small vocabulary of PLaMo 2's kind: special tokens, bytes, then pieces with scores, among them equal
// ones, one that is never used, and one that nothing but bytes leads to.
func plamoVocab() Vocab {
	v := Vocab{Model: "plamo2", BOS: 1, EOS: 2, UNK: 0, EOT: -1, PAD: 3, SEP: -1}
	add := func(text string, score float32, kind int32) {
		v.Tokens, v.Scores, v.Types = append(v.Tokens, text), append(v.Scores, score), append(v.Types, kind)
	}
	add("<|plamo:unk|>", 0, Unknown)
	add("<|plamo:bos|>", 0, Control)
	add("<|plamo:eos|>", 0, Control)
	add("<|plamo:pad|>", 0, Control)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 0, Byte)
	}
	for text, score := range plamoPieces() {
		add(text, score, Normal)
	}
	return v
}

// plamoPieces yields the pieces in a fixed order.
func plamoPieces() func(yield func(string, float32) bool) {
	list := []struct {
		text  string
		score float32
	}{
		{"a", -2},
		{"b", -2},
		{"ab", -4},
		{"ba", -3.5},
		{"aba", -5.99},
		{"c", -1},
		{"abc", -3},
		{" ", -1.5},
		{" a", -3.50004},
		{"the", -2.25},
		{" the", -3.75},
		{"t", -6},
		{"h", -6},
		{"e", -6},
		{"he", -7.5},
		{"日", -3},
		{"日本", -4},
		{"本", -3.1},
		{"語", -5},
		{"本語", -4.05},
		{"日本語", -8.1},
		{"never", -2500},
		{"\n", -1},
		{"\n\n", -2},
		{"🙂", -9},
		{"é", -4},
		{"ab ab", -7.2},
	}
	return func(yield func(string, float32) bool) {
		for _, p := range list {
			if !yield(p.text, p.score) {
				return
			}
		}
	}
}

// bestByRecursion is the definition: of all ways to cut text, the one with the greatest sum, and among equals the one
// with the longer first token.
func bestByRecursion(v *Vocab, text string, known map[string]int64) ([]int32, int64) {
	if text == "" {
		return nil, 0
	}
	var best []int32
	sum := int64(-1) << 60
	for size := len(text); size > 0; size-- {
		score, ok := known[text[:size]]
		if !ok {
			continue
		}
		rest, more := bestByRecursion(v, text[size:], known)
		if score+more > sum {
			best, sum = append([]int32{int32(slices.Index(v.Tokens, text[:size]))}, rest...), score+more
		}
	}
	_, n := utf8.DecodeRuneInString(text)
	if rest, more := bestByRecursion(v, text[n:], known); plamoUnknown+more > sum {
		best, sum = nil, plamoUnknown+more
		for _, b := range []byte(text[:n]) {
			best = append(best, 4+int32(b))
		}
		best = append(best, rest...)
	}
	return best, sum
}

func TestPlamo(t *testing.T) {
	v := plamoVocab()
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]int64{}
	for text, score := range plamoPieces() {
		if score > -2000 {
			known[text] = int64(math.Round(float64(score) * 10_000))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "c", " ", "the", "日", "本", "語", "x", "é", "🙂", "\n", "ß", "never", "h"}
	for range 400 {
		var text strings.Builder
		for range random.IntN(10) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		want, _ := bestByRecursion(&v, text.String(), known)
		if got := tok.Encode(text.String(), false, false); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", text.String(), got, want)
		}
		if got := tok.Decode(want, false); got != text.String() {
			t.Fatalf("%q is decoded as %q", text.String(), got)
		}
	}
	for _, c := range llamaPlamo() {
		if got := tok.Encode(c.text, false, false); !slices.Equal(got, c.ids) {
			t.Errorf("%q: %v, and llama-tokenize gives %v", c.text, got, c.ids)
		}
	}
	begin := testenv.ProcessorTime(t)
	if n := len(tok.Encode(strings.Repeat("a", 1<<20), false, false)); n != 1<<20 {
		t.Errorf("a megabyte of one character has %d tokens", n)
	}
	const slow = 5 * time.Second // it takes 0.05 s; a quadratic search would take hours
	if took := testenv.ProcessorTime(t) - begin; took > slow {
		t.Errorf("a megabyte of one character took %s", took)
	}
}

// llamaPlamo holds what llama.cpp's llama-tokenize (3f545becc) makes of texts with plamoVocab in a GGUF file.
func llamaPlamo() []struct {
	text string
	ids  []int32
} {
	return []struct {
		text string
		ids  []int32
	}{
		{"abcabab ab aba", []int32{266, 262, 286, 268, 263}},
		{"the thé the\n \n\n\nnever mind: 日本語の日本 🙂🙃 x", []int32{
			269, 267, 271, 272, 285, 270, 282, 267, 283, 282, 114, 273, 122, 273, 118, 267, 113, 109, 114, 104, 62, 267, 275, 279, 231, 133, 178, 276, 267, 284,
			244, 163, 157, 135, 267, 124,
		}},
		{"ababab a a ab abc", []int32{260, 263, 263, 261, 268, 268, 267, 286, 265}},
		{"日本語本語語日", []int32{275, 279, 279, 278, 275}},
		{"héthe", []int32{272, 285, 269}},
	}
}
