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

// BenchmarkFirstMask is a mask in a state and position that was never seen before: within a string, the largest there is.
func BenchmarkFirstMask(b *testing.B) {
	v := largeVocabulary(b)
	g, err := grammar.ParseGBNF(jsonGrammar)
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
		s := c.NewState()
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
	g, err := grammar.ParseGBNF(jsonGrammar)
	if err != nil {
		b.Fatal(err)
	}
	c, err := g.Compile(v)
	if err != nil {
		b.Fatal(err)
	}
	logits := make([]float32, v.Size())
	begin := c.NewState()
	if err := begin.Accept(v.Find(`{"`)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := begin.Clone().Apply(logits); err != nil {
			b.Fatal(err)
		}
	}
}

// document is a JSON text that fits personSchema.
const (
	personSchema = `{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":100},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string"},"tags":{"type":"array","items":{"enum":["friend","family","work"]}}},"required":["name","age"]}}`
	document     = `[{"name":"Ada Lovelace, who wrote the first program","age":36,"email":"ada@example.org","tags":["friend","work"]},{"name":"Grace Hopper","age":85,"tags":[]},{"name":"Alan Turing","age":41,"email":"alan@example.org"}]`
)

// BenchmarkDocument is the cost per token of a text, masks applied: with a grammar compiled for it, and with one used before.
func BenchmarkDocument(b *testing.B) {
	tokens, ends := sharedTokens(b, "llama-spm")
	for name, v := range map[string]*grammar.Vocabulary{"32k": vocabulary(b, tokens, ends), "128k": largeVocabulary(b)} {
		var ids []int32
		for rest := document; rest != ""; {
			n := min(len(rest), 8)
			for ; v.Find(rest[:n]) < 0; n-- {
			}
			ids, rest = append(ids, v.Find(rest[:n])), rest[n:]
		}
		g, err := grammar.FromSchema([]byte(personSchema))
		if err != nil {
			b.Fatal(err)
		}
		logits := make([]float32, v.Size())
		generate := func(c *grammar.Compiled) {
			s := c.NewState()
			for _, id := range ids {
				if err := s.Apply(logits); err != nil {
					b.Fatal(err)
				}
				if err := s.Accept(id); err != nil {
					b.Fatal(err)
				}
			}
		}
		compiled := func() *grammar.Compiled {
			c, err := g.Compile(v)
			if err != nil {
				b.Fatal(err)
			}
			return c
		}
		b.Run(name+"/new", func(b *testing.B) {
			for b.Loop() {
				generate(compiled())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
		})
		c := compiled()
		b.Run(name+"/used", func(b *testing.B) {
			for b.Loop() {
				generate(c)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
		})
	}
}
