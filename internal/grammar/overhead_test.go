package grammar_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// A load is a grammar with a text that it allows.
type load struct {
	name    string
	compile func(t testing.TB, v *grammar.Vocabulary) func() sample.Constraint // reads and compiles it; the returned function begins a sequence
	text    string
}

// document is a JSON text.
const document = `[{"name":"Ada Lovelace, who wrote the first program","age":36,"email":"ada@example.org","tags":["friend","work"]},{"name":"Grace Hopper","age":85,"tags":[]},{"name":"Alan Turing","age":41,"email":"alan@example.org"}]`

// loads returns the loads: JSON in general, a schema of 100 kB, and the calls of forty tools.
func loads(t testing.TB) []load {
	t.Helper()
	source, err := os.ReadFile(testenv.Shared(t, "chat-templates/Qwen-Qwen3-0.6B.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	schema, object := forms(500)
	tools := make([]answer.Tool, 40)
	call := ""
	for i := range tools {
		parameters, arguments := forms(10)
		tools[i] = answer.Tool{Name: fmt.Sprint("tool_", i), Parameters: json.RawMessage(parameters)}
		if i%10 == 3 {
			call += fmt.Sprintf("<tool_call>\n{\"name\": \"tool_%d\", \"arguments\": %s}\n</tool_call>\n", i, arguments)
		}
	}
	call = strings.TrimSuffix(call, "\n")
	of := func(read func() (*grammar.Grammar, error)) func(testing.TB, *grammar.Vocabulary) func() sample.Constraint {
		return func(t testing.TB, v *grammar.Vocabulary) func() sample.Constraint {
			g, err := read()
			if err != nil {
				t.Fatal(err)
			}
			c, err := g.Compile(v)
			if err != nil {
				t.Fatal(err)
			}
			return func() sample.Constraint { return c.NewState(t.Context()) }
		}
	}
	return []load{
		{"json", of(func() (*grammar.Grammar, error) { return grammar.ParseGBNF(t.Context(), jsonGrammar) }), document},
		{fmt.Sprintf("schema of %d kB", len(schema)>>10), of(func() (*grammar.Grammar, error) { return grammar.Text{Schema: []byte(schema)}.Grammar(t.Context()) }), object},
		{"forty tools", func(t testing.TB, v *grammar.Vocabulary) func() sample.Constraint {
			c, err := answer.FormatOf(string(source), true, true).Constraint(t.Context(), answer.ConstraintOptions{Tools: tools, Required: true, Parallel: true})
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := c.Grammar.Compile(v)
			if err != nil {
				t.Fatal(err)
			}
			return func() sample.Constraint { return c.NewState(t.Context(), compiled) }
		}, call},
	}
}

// forms returns the schema of an object with n members, described as people do, and such an object with every fifth of
// them.
func forms(n int) (schema, object string) {
	kinds := []struct{ schema, value string }{
		{`"type":"string"`, `"a text of some words, as models write them"`},
		{`"type":"integer","minimum":0,"maximum":1000`, `417`},
		{`"type":"array","items":{"enum":["first","second","third"]}`, `["first","third"]`},
		{`"type":"string","format":"date-time"`, `"2026-11-22T17:30:00Z"`},
		{`"type":"object","properties":{"unit":{"enum":["metre","mile"]},"amount":{"type":"number"}},"required":["unit","amount"]`, `{"unit":"mile","amount":3.25}`},
		{`"anyOf":[{"type":"boolean"},{"type":"null"}]`, `true`},
	}
	var s, o []string
	for i := range n {
		k := kinds[i%len(kinds)]
		s = append(s, fmt.Sprintf(`"member_%d":{"description":"What member %d of this object is for, in a sentence or two of prose, as the authors of schemas write them for each other.",%s}`, i, i, k.schema))
		if i%5 == 0 {
			o = append(o, fmt.Sprintf(`"member_%d":%s`, i, k.value))
		}
	}
	return `{"type":"object","properties":{` + strings.Join(s, ",") + `}}`, "{" + strings.Join(o, ",") + "}"
}

// A speaker is a vocabulary that cuts texts.
type speaker struct {
	*grammar.Vocabulary
	ids map[string]int32
}

func newSpeaker(t testing.TB, tokens [][]byte, ends []int32) *speaker {
	t.Helper()
	s := &speaker{vocabulary(t, tokens, ends), map[string]int32{}}
	for id, text := range tokens {
		s.ids[string(text)] = int32(id)
	}
	return s
}

// cut returns the longest tokens of text.
func (s *speaker) cut(text string) (ids []int32) {
	for text != "" {
		n := min(len(text), 16)
		for ; n > 1 && s.ids[text[:n]] == 0; n-- {
		}
		ids, text = append(ids, s.ids[text[:n]]), text[n:]
	}
	return ids
}

// follow has s follow the tokens, masks applied, and returns the longest time that one took.
func follow(t testing.TB, s sample.Constraint, ids []int32, logits []float32) (longest time.Duration) {
	t.Helper()
	for i, id := range ids {
		begin := testenv.ProcessorTime(t)
		err := s.Apply(logits)
		if err == nil {
			err = s.Accept(id)
		}
		if err != nil {
			t.Fatalf("token %d of %d: %v", i, len(ids), err)
		}
		longest = max(longest, testenv.ProcessorTime(t)-begin)
	}
	return longest
}

// Bounds of a grammar's processor time.
const (
	compileLimit  = time.Second            // to read and compile it; tens of milliseconds are usual
	overheadLimit = 500 * time.Microsecond // a token, masks computed for the first time: 2 % of a 1B model's on two cores, 25 ms (docs/benchmarks/2026-11-server.md)
)

// TestOverhead: grammars compile in time, and cost little of a token's time even while their masks are new.
func TestOverhead(t *testing.T) {
	tokens, ends := enlarged(t, 128*1024)
	v := newSpeaker(t, tokens, ends)
	logits := make([]float32, v.Size())
	for _, l := range loads(t) {
		ids := v.cut(l.text)
		t0 := testenv.ProcessorTime(t)
		begin := l.compile(t, v.Vocabulary)
		t1 := testenv.ProcessorTime(t)
		follow(t, begin(), ids, logits)
		perToken := (testenv.ProcessorTime(t) - t1) / time.Duration(len(ids))
		if t1-t0 > compileLimit || perToken > overheadLimit {
			t.Errorf("%s: compiled in %v, %v a token", l.name, t1-t0, perToken)
		}
	}
}

// BenchmarkOverhead measures the processor time that a grammar takes: to compile it, for a token of a text with a
// grammar that was just compiled, for one of another text with the same grammar, and for the slowest token of the first
// text.
func BenchmarkOverhead(b *testing.B) {
	small, smallEnds := sharedTokens(b, "llama-spm")
	large, ends := enlarged(b, 152_000)
	for name, v := range map[string]*speaker{
		"32k": newSpeaker(b, small, smallEnds), "128k": newSpeaker(b, large[:128<<10], ends), "152k": newSpeaker(b, large, ends),
	} {
		logits := make([]float32, v.Size())
		for _, l := range loads(b) {
			ids := v.cut(l.text)
			b.Run(name+"/"+l.name, func(b *testing.B) {
				var compiling, first, again, longest time.Duration
				for b.Loop() {
					t0 := testenv.ProcessorTime(b)
					begin := l.compile(b, v.Vocabulary)
					t1 := testenv.ProcessorTime(b)
					longest = max(longest, follow(b, begin(), ids, logits))
					t2 := testenv.ProcessorTime(b)
					follow(b, begin(), ids, logits)
					compiling, first, again = compiling+t1-t0, first+t2-t1, again+testenv.ProcessorTime(b)-t2
				}
				perToken := float64(b.N * len(ids))
				b.ReportMetric(float64(len(ids)), "tokens")
				b.ReportMetric(float64(compiling.Microseconds())/1000/float64(b.N), "ms-to-compile")
				b.ReportMetric(float64(first.Nanoseconds())/1000/perToken, "µs/first")
				b.ReportMetric(float64(again.Nanoseconds())/1000/perToken, "µs/again")
				b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
