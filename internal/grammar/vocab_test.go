package grammar_test

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// sharedTokens returns the tokens and ends of one of the shared vocabularies.
func sharedTokens(t testing.TB, name string) (tokens [][]byte, ends []int32) {
	t.Helper()
	f, err := gguf.Open(filepath.Join(testenv.Shared(t, "vocab"), "ggml-vocab-"+name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := model.Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	for id := range int32(tok.Size()) {
		tokens = append(tokens, tok.Piece(id, false))
		if tok.IsEOG(id) {
			ends = append(ends, id)
		}
	}
	return tokens, ends
}

func vocabulary(t testing.TB, tokens [][]byte, ends []int32) *grammar.Vocabulary {
	t.Helper()
	v, err := grammar.NewVocabulary(tokens, ends, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// largeVocabulary has 128k tokens, as Llama 3.
func largeVocabulary(t testing.TB) *grammar.Vocabulary {
	t.Helper()
	tokens, ends := enlarged(t, 128*1024)
	return vocabulary(t, tokens, ends)
}

// enlarged returns size tokens, as many as in today's models: Falcon's 65k, and pairs of its frequent ones, which is
// how byte-pair encoding makes new ones.
func enlarged(t testing.TB, size int) (tokens [][]byte, ends []int32) {
	t.Helper()
	tokens, ends = sharedTokens(t, "falcon")
	seen := map[string]bool{}
	for _, p := range tokens {
		seen[string(p)] = true
	}
	n := len(tokens)
	for i := 0; len(tokens) < size; i++ {
		pair := string(tokens[300+i*7919%20000]) + string(tokens[300+i*104729%n/2])
		if !seen[pair] {
			seen[pair] = true
			tokens = append(tokens, []byte(pair))
		}
	}
	return tokens, ends
}
