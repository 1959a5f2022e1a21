package tokenizer

import (
	"testing"
	"unicode"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/text/unicode/norm"
)

// TestNormalForm compares with golang.org/x/text where runs of marks are short, which there are not cut in two: every
// character between two that compose, and random texts of characters with a property.
func TestNormalForm(t *testing.T) {
	rng := testenv.Rand(t)
	var special []rune
	for r := rune(0x80); r < 0x30000; r++ {
		if unicode.IsMark(r) || norm.NFKD.PropertiesString(string(r)).Decomposition() != nil {
			if !inRanges(laterComposed, r) && !inRanges(laterMarks, r) {
				special = append(special, r)
			}
		}
	}
	var texts []string
	for _, r := range special {
		texts = append(texts, "e"+string(r)+"\u0301")
	}
	for range 20000 {
		text := []rune("a\u1100")
		for range rng.IntN(12) {
			text = append(text, special[rng.IntN(len(special))])
		}
		texts = append(texts, string(text))
	}
	for _, f := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
		normalize := normalForm(f)
		for _, text := range texts {
			if got, want := normalize(text), f.String(text); got != want {
				t.Fatalf("form %d of %+q: %+q, want %+q", f, text, got, want)
			}
		}
	}
}

// TestLaterMarks: marks that Hugging Face's library does not know stay in place, and nothing moves past them. Results
// are from npm's tokenizers 0.23.2.
func TestLaterMarks(t *testing.T) {
	for text, want := range map[string]string{
		"e\u08e6\u08e0\u08d3":     "e\u08e6\u08e0\u08d3",
		"x\u0300\u08d3y":          "x\u0300\u08d3y",
		"x\u0300\u0316y":          "x\u0316\u0300y",
		"x\u0345\u1df6\u0334y":    "x\u0345\u1df6\u0334y",
		"x\u0345\U0001e4ec\u0334": "x\u0345\U0001e4ec\u0334",
		"e\u08d3\u0301":           "e\u08d3\u0301",
	} {
		if got := normalForm(norm.NFC)(text); got != want {
			t.Errorf("%+q: %+q, want %+q", text, got, want)
		}
	}
}
