package server

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// TestGrammarsAreKept: a grammar is compiled once for the same content, and the oldest are dropped when all take too
// much memory.
func TestGrammarsAreKept(t *testing.T) {
	v, err := grammar.NewVocabulary([][]byte{[]byte("a"), []byte("b"), {}}, []int32{2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var g grammars
	made := 0
	find := func(text string) *held {
		h, err := g.find(t.Context(), "a", key("gbnf", text), func() (*held, error) {
			made++
			parsed, err := grammar.ParseGBNF(t.Context(), text)
			if err != nil {
				return nil, err
			}
			c, err := parsed.Compile(v)
			return &held{compiled: c}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := find(`root ::= "a"`)
	if find(`root ::= "b"`) == first || find(`root ::= "a"`) != first || made != 2 {
		t.Errorf("%d compilations of two grammars", made)
	}
	if key("gbnf", "a", "b") == key("gbnf", "ab") || key("gbnf", "a") == key("schema", "a") {
		t.Error("different contents have the same key")
	}
	if n := first.compiled.Bytes(); n <= 0 {
		t.Errorf("a grammar takes %d bytes", n)
	}
}
