package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestMissingByteTokens: words are cut where no merge reaches across. This also holds if a byte's token is missing that
// no character needs, like the first Gemma's <0x09> next to its tab: the ids are those of whole words. If a character
// may need the missing byte, words stay whole.
func TestMissingByteTokens(t *testing.T) {
	vocab := func(missing int) *Tokenizer {
		v := Vocab{Model: "gpt2", BOS: -1, EOS: -1, EOT: -1, PAD: -1, Tokens: []string{"<unk>", "a", "b", "▁", "\t", "ab", "▁a", "▁ab", "bb"}}
		for i := range 256 {
			if i != missing {
				v.Tokens = append(v.Tokens, fmt.Sprintf("<0x%02X>", i))
			}
		}
		for range v.Tokens {
			v.Types = append(v.Types, Normal)
		}
		v.Merges = []string{"a b", "▁ a", "▁ ab", "b b"}
		d, err := ParseDefinition(`{"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true}}`)
		if err != nil {
			t.Fatal(err)
		}
		v.Definition = d
		return mustNew(t, v)
	}
	for missing, cut := range map[int]bool{-1: true, '\t': true, '\n': false, 0xc3: false} {
		tok, whole := vocab(missing), vocab(missing)
		if got := tok.model.(*bpe).pairs != nil; got != cut {
			t.Errorf("without a token of byte %d words are cut: %v", missing, got)
		}
		whole.model.(*bpe).pairs = nil
		rng := testenv.Rand(t)
		for range 200 {
			var b strings.Builder
			for range 1 + rng.IntN(60) {
				b.WriteString([]string{"a", "b", " ", "\t", "\n", "é", "c", "日"}[rng.IntN(8)])
			}
			if got, want := tok.Encode(b.String(), false, false), whole.Encode(b.String(), false, false); !slices.Equal(got, want) {
				t.Fatalf("without a token of byte %d: %q is %v, as a whole %v", missing, b.String(), got, want)
			}
		}
	}
}
