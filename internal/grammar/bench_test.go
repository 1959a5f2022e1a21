package grammar_test

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

const jsonGrammar = `
root   ::= value
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( member ("," ws member)* )? "}" ws
member ::= string ws ":" ws value ws
array  ::= "[" ws ( value ws ("," ws value ws)* )? "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \t\n]{0,20}
`

// BenchmarkFirstMask is a mask in a state and position that was never seen before: within a string, the largest there
// is.
func BenchmarkFirstMask(b *testing.B) {
	v := largeVocabulary(b)
	g, err := grammar.ParseGBNF(b.Context(), jsonGrammar)
	if err != nil {
		b.Fatal(err)
	}
	logits := make([]float32, v.Size())
	for b.Loop() {
		b.StopTimer()
		c, err := g.Compile(v)
		if err != nil {
			b.Fatal(err)
		}
		s := c.NewState(b.Context())
		for _, id := range []int32{v.Find(`{"`)} {
			if err := s.Accept(id); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := s.Apply(logits); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSecondMask is a mask in a state seen before, and its application to the logits.
func BenchmarkSecondMask(b *testing.B) {
	v := largeVocabulary(b)
	g, err := grammar.ParseGBNF(b.Context(), jsonGrammar)
	if err != nil {
		b.Fatal(err)
	}
	c, err := g.Compile(v)
	if err != nil {
		b.Fatal(err)
	}
	logits := make([]float32, v.Size())
	begin := c.NewState(b.Context())
	if err := begin.Accept(v.Find(`{"`)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := begin.Clone().Apply(logits); err != nil {
			b.Fatal(err)
		}
	}
}
