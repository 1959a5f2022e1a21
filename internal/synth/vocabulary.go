package synth

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Sizes of the vocabulary: the three special tokens and all bytes at least; pieces of up to four letters at most.
const (
	leastVocab = 3 + 256
	mostVocab  = leastVocab + 96 + 26 + 26*26 + 26*26*26 + 26*26*26*26
)

// letters by frequency in English, so that a small vocabulary has the common pairs.
const letters = "etaoinshrdlcumwfgypbvkjxqz"

// vocabulary makes a SentencePiece vocabulary of n tokens that can write any text: <unk>, <s>, </s>, the bytes, then
// characters, word beginnings and groups of letters. Earlier pieces merge first.
func vocabulary(n int) []gguf.KV {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{tokenizer.Unknown, tokenizer.Control, tokenizer.Control}
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
		types = append(types, tokenizer.Byte)
	}
	tokens = append(tokens, "▁")
	for c := '!'; c <= '~'; c++ {
		tokens = append(tokens, string(c))
	}
	tokens = append(tokens, "é") // a character of two bytes
	for _, c := range letters {
		tokens = append(tokens, "▁"+string(c))
	}
	shorter := []string{""}
	for _, c := range letters {
		shorter = append(shorter, string(c))
	}
	for group := shorter[1:]; len(tokens) < n; {
		group = longer(group, n-len(tokens))
		tokens = append(tokens, group...)
	}
	tokens = tokens[:n]
	scores := make([]float32, n)
	for i := range tokens[leastVocab:] {
		scores[leastVocab+i] = -float32(i)
		types = append(types, tokenizer.Normal)
	}
	return []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.token_type", Value: types[:n]},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(0)},
		{Key: "tokenizer.ggml.add_bos_token", Value: true},
	}
}

// longer appends a letter to every piece of group, pieces and letters that come early first, up to limit pieces.
func longer(group []string, limit int) []string {
	var out []string
	for sum := 0; sum < len(group)+len(letters)-1; sum++ {
		for i := max(0, sum-len(letters)+1); i <= min(sum, len(group)-1); i++ {
			if len(out) == limit {
				return out
			}
			out = append(out, group[i]+letters[sum-i:][:1])
		}
	}
	return out
}
