package convert

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// tiktokenFile is a vocabulary as tiktoken has it: a token in base64 and its number a line. Pieces of a text are merged
// so that the token of the least number comes first.
const tiktokenFile = "tiktoken.model"

// readTiktoken reads the vocabulary of Kimi's models in this form. The tokenizer's class determines the pre-tokenizer.
// Numbers beyond the vocabulary are control tokens.
func readTiktoken(path string, size int, tok *tokenizerConfig, notes func(string)) (*vocabulary, error) {
	if tok.Class != "TikTokenTokenizer" {
		return nil, fmt.Errorf("%s: key %q: %q is not supported with %s; TikTokenTokenizer is: put the model's tokenizer.json into the folder", tok.path, "tokenizer_class", tok.Class, tiktokenFile)
	}
	data, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tokens []string
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		text, number, _ := bytes.Cut(line, []byte(" "))
		token, err := base64.StdEncoding.DecodeString(string(text))
		if id, other := strconv.Atoi(string(number)); err != nil || other != nil || id != len(tokens) || len(token) == 0 {
			return nil, fmt.Errorf("%s: line %d is no token in base64 with the number %d", path, len(tokens)+1, len(tokens))
		}
		tokens = append(tokens, string(token))
	}
	v := &vocabulary{path: path, model: "gpt2", pre: "kimi-k2"}
	if err := v.enterRanks(tokens, size); err != nil {
		return nil, err
	}
	for id := len(tokens); id < size; id++ {
		v.tokens, v.types = append(v.tokens, fmt.Sprintf("<|reserved_token_%d|>", id)), append(v.types, tokenControl)
	}
	added, err := tok.added("")
	if err != nil {
		return nil, err
	}
	for i := range added {
		added[i].Special = true
	}
	return v, v.addTokens(added, size, notes)
}

// enterRanks enters tokens in the order of their ranks, and the merges that make them.
func (v *vocabulary) enterRanks(tokens []string, size int) error {
	if len(v.tokens)+len(tokens) > size {
		return fmt.Errorf("%s: %d tokens for %d rows of the embedding (config.json: vocab_size)", v.path, len(v.tokens)+len(tokens), size)
	}
	ranks := make(map[string]int, len(tokens))
	for rank, token := range tokens {
		if other, ok := ranks[token]; ok {
			return fmt.Errorf("%s: tokens %d and %d are the same", v.path, other, rank)
		}
		ranks[token] = rank
		v.tokens, v.types = append(v.tokens, tokenizer.Visible(token)), append(v.types, tokenNormal)
	}
	for rank, token := range tokens {
		if at, ok := lastMerge(token, rank, ranks); ok {
			v.merges = append(v.merges, tokenizer.Visible(token[:at])+" "+tokenizer.Visible(token[at:]))
		}
	}
	return nil
}

// maxToken bounds the bytes of tokens for which merges are found.
const maxToken = 1 << 10

// lastMerge merges a token's bytes by tokens of lower rank, and returns the boundary between the last two parts. ok is
// false if there are more parts or fewer.
func lastMerge(token string, rank int, ranks map[string]int) (at int, ok bool) {
	if len(token) < 2 || len(token) > maxToken {
		return 0, false
	}
	ends := make([]int, len(token)) // ends of the parts
	for i := range ends {
		ends[i] = i + 1
	}
	for len(ends) > 2 {
		best, least, from := -1, rank, 0
		for i := range len(ends) - 1 {
			if r, known := ranks[token[from:ends[i+1]]]; known && r < least {
				best, least = i, r
			}
			from = ends[i]
		}
		if best < 0 {
			return 0, false
		}
		ends = append(ends[:best], ends[best+1:]...)
	}
	return ends[0], true
}
