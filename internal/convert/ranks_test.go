package convert

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// kimiWords are tokens after the single bytes, in the order of their ranks.
var kimiWords = []string{"he", "ll", "hell", "hello", " w", "or", " wor", "ld", " world", "中", "文", "中文", "12", "123"}

// tiktokenModel returns a vocabulary in tiktoken's form, of all bytes and then kimiWords.
func tiktokenModel() ([]byte, []string) {
	var tokens []string
	for b := range 256 {
		tokens = append(tokens, string([]byte{byte(b)}))
	}
	for _, w := range kimiWords {
		if r := []rune(w); len(r) == 1 && len(w) == 3 { // two bytes of it come first
			tokens = append(tokens, w[:2])
		}
		tokens = append(tokens, w)
	}
	var out bytes.Buffer
	for i, t := range tokens {
		fmt.Fprintf(&out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(t)), i)
	}
	return out.Bytes(), tokens
}

// encodeRanks encodes one piece as tiktoken does: the whole piece if it is a token, else neighbours are merged, those
// with the least rank of their union first.
func encodeRanks(piece string, tokens []string) (ids []int32) {
	rank := func(s string) int { return slices.Index(tokens, s) }
	if r := rank(piece); r >= 0 {
		return []int32{int32(r)}
	}
	var parts []string
	for i := range len(piece) {
		parts = append(parts, piece[i:i+1])
	}
	for {
		best, least := -1, len(tokens)
		for i := range len(parts) - 1 {
			if r := rank(parts[i] + parts[i+1]); r >= 0 && r < least {
				best, least = i, r
			}
		}
		if best < 0 {
			break
		}
		parts = slices.Replace(parts, best, best+2, parts[best]+parts[best+1])
	}
	for _, p := range parts {
		ids = append(ids, int32(rank(p)))
	}
	return ids
}

// TestTiktoken: a vocabulary in tiktoken's form encodes as tiktoken does, and its control tokens have their names.
func TestTiktoken(t *testing.T) {
	data, tokens := tiktokenModel()
	path := filepath.Join(t.TempDir(), tiktokenFile)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	n := len(tokens)
	tok := &tokenizerConfig{Class: "TikTokenTokenizer", Decoder: map[string]tokenizer.AddedToken{
		fmt.Sprint(n): {Content: "[BOS]", Special: true}, fmt.Sprint(n + 2): {Content: "<|im_end|>"},
	}}
	v, err := readTiktoken(path, n+4, tok, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := v.tokens[n:], []string{"[BOS]", fmt.Sprintf("<|reserved_token_%d|>", n+1), "<|im_end|>", fmt.Sprintf("<|reserved_token_%d|>", n+3)}; !slices.Equal(got, want) {
		t.Errorf("control tokens %q, want %q", got, want)
	}
	enc, err := tokenizer.New(tokenizer.Vocab{Model: v.model, Pre: v.pre, Tokens: v.tokens, Types: v.types, Merges: v.merges, BOS: -1, EOS: -1, UNK: -1, EOT: -1, PAD: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, pieces := range [][]string{{"hello", " world"}, {"hell", " worldor"}, {"中文文"}, {"123", "12"}, {"helld"}, {"llhe", " wwor"}} {
		var want []int32
		for _, p := range pieces {
			want = append(want, encodeRanks(p, tokens)...)
		}
		if got := enc.Encode(strings.Join(pieces, ""), false, false); !slices.Equal(got, want) {
			t.Errorf("%q: %v, tiktoken has %v", pieces, got, want)
		}
	}
	for _, damaged := range []string{"IQ== 1\n", "IQ 0\n", "IQ== 0\nIQ== 1\n", " 0\n"} {
		if err := os.WriteFile(path, []byte(damaged), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readTiktoken(path, 9, tok, func(string) {}); err == nil {
			t.Errorf("%q: no error", damaged)
		}
	}
}
