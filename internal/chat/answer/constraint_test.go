package answer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// closings are tokens in addition to single bytes. They end texts that would rarely end by chance.
var closings = []string{
	"</think>", "</seed:think>", "[/THINK]", "<|END_THINKING|>", "[BEGIN FINAL RESPONSE]", "</parameter>", "</arg_value>",
	"</｜DSML｜parameter>", "<|end|>", `"}`, "<channel|>", `<|"|>`, "</parameter></function></tool_call>",
	"]<]minimax[>[</city>", "]<]minimax[>[</invoke>", "]<]minimax[>[", "</x>", "</parameter></function></seed:tool_call>", "<|close|>argument<|sep|>", "</arg_value:opensource>", "</parameter></invoke></minimax:tool_call>", "<|eom|>", "</atem:parameter></atem:invoke></atem:function_calls>",
	"</param></function>", "]]></param></function>",
	"</arg_value:opensource></tool_call:opensource>", "<|close|>argument<|sep|><|close|>call<|sep|>", "</think:opensource>", "<|close|>think<|sep|>", "<|inner_suffix|>", "</arg_value></tool_call>", "</｜DSML｜parameter></｜DSML｜invoke>",
}

// controls are tokens that stand for no bytes.
var controls = []string{
	"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", "<|tool_call|>", "[TOOL_CALLS]", "[ARGS]", "<|START_ACTION|>",
	"<|END_ACTION|>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "｜DSML｜", "<|python_tag|>",
	"<|tool_call>", "<tool_call|>", "<|open|>", "<|close|>", "<|sep|>", "<|tools_prefix|>", "<|tools_suffix|>", "<tool_calls:opensource>", "<|tool_call_start|>",
	"<arg_value:opensource>", "<|inner_suffix|>", "<|tool_calls|>", "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>", "]<]minimax[>[", "<|eom|>",
}

// vocabulary has a token for each byte, the closings, the controls if any, and the end.
func vocabulary(t testing.TB, controls []string) (*grammar.Vocabulary, []string) {
	t.Helper()
	var tokens [][]byte
	var texts []string
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
		texts = append(texts, string([]byte{byte(b)}))
	}
	for _, c := range closings {
		tokens = append(tokens, []byte(c))
		texts = append(texts, c)
	}
	special := map[string]int32{}
	for _, c := range controls {
		special[c] = int32(len(tokens))
		tokens = append(tokens, nil)
		texts = append(texts, c)
	}
	v, err := grammar.NewVocabulary(append(tokens, nil), []int32{int32(len(tokens))}, special)
	if err != nil {
		t.Fatal(err)
	}
	return v, append(texts, "")
}

// tokens cuts text into the controls and bytes.
func tokens(texts []string, text string) []int32 {
	var out []int32
	for text != "" {
		id := int32(text[0])
		for i := 256 + len(closings); i < len(texts)-1; i++ {
			if strings.HasPrefix(text, texts[i]) {
				id = int32(i)
			}
		}
		out = append(out, id)
		text = text[len(texts[id]):]
	}
	return out
}

func constraint(t testing.TB, f *Format, o ConstraintOptions) *Constraint {
	t.Helper()
	c, err := f.Constraint(t.Context(), o)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return c
}

func compile(t testing.TB, c *Constraint, v *grammar.Vocabulary) *grammar.State {
	t.Helper()
	compiled, err := c.Grammar.Compile(v)
	if err != nil {
		t.Fatal(err)
	}
	return c.NewState(t.Context(), compiled)
}

// otherForms are the cases that the grammars leave out: what parsers take beyond the form that models are held to.
var otherForms = []string{
	`"type"`, `{"arguments"`, `"arguments": "{`, "a\nb", "<tool_call><tool_call>", "\nDone.", "_end|>Done.", "many", `"id": "x"`, "{\n  \"tool", "[CALL_ID]", "python_tag", `functools[`,
	`"tool_call_id": 1`, "=now>\n</function>", `a <|"|> b`, "city: Rome", "|>json type=", "nullish", "I look.\n<atem",
}

// TestGrammarsBeginWhereCallsBegin feeds answers with calls to the lazy grammars: everything is allowed before a call,
// and the call follows the grammar.
func TestGrammarsBeginWhereCallsBegin(t *testing.T) {
	tools := testTools
	for _, special := range [][]string{nil, controls} {
		v, texts := vocabulary(t, special)
		held := 0
		for _, k := range answerCases {
			f := FormatOf(sources[k.format], k.format != "generic", true)
			s := compile(t, constraint(t, f, ConstraintOptions{Tools: tools, Parallel: true, Prompt: k.prompt}), v)
			var err error
			for _, id := range tokens(texts, k.text) {
				if err = s.Accept(id); err != nil {
					break
				}
			}
			if slices.ContainsFunc(otherForms, func(o string) bool { return strings.Contains(k.text, o) }) {
				continue
			}
			if len(k.calls) == 0 {
				continue
			}
			held++
			if err != nil || !s.CanEnd() {
				t.Errorf("%s: %q: %v, can end: %v", k.format, k.text, err, s.CanEnd())
			}
			if s.Accept('!') == nil {
				t.Errorf("%s: %q: after the call, everything may come", k.format, k.text)
			}
		}
		if held < 12 {
			t.Errorf("only %d calls were held to a grammar", held)
		}
	}
}

// TestTagsMayBeTokens: the tags of MiniCPM5's calls are tokens without bytes.
func TestTagsMayBeTokens(t *testing.T) {
	v, texts := vocabulary(t, []string{"<function", "</function>", "<param", "</param>"})
	const text = `<function name="get_weather"><param name="city"><![CDATA[a & b]]></param><param name="days">3</param></function><function name="now"></function>`
	for _, required := range []bool{false, true} {
		s := compile(t, constraint(t, FormatOf(sources["minicpm5"], true, true), ConstraintOptions{Tools: testTools, Parallel: true, Required: required}), v)
		for i, id := range tokens(texts, text) {
			if err := s.Accept(id); err != nil {
				t.Fatalf("required %v, token %d: %v", required, i, err)
			}
		}
		if !s.CanEnd() || s.Accept('!') == nil {
			t.Errorf("required %v: the calls may not end, or anything may follow them", required)
		}
	}
}

// TestQuotedCallsAreFree holds that no grammar begins in thoughts and quotations.
func TestQuotedCallsAreFree(t *testing.T) {
	v, texts := vocabulary(t, nil)
	for _, k := range []struct{ format, prompt, text string }{
		{"hermes", "", "<think>I could <tool_call>{\"name\": now}"},
		{"hermes", "<think>", "I could <tool_call>{\"name\": now}"},
		{"llama", "", `For example {"name": 1`},
		{"pythonic", "", `A list: [now(x`},
		{"generic", "", `So {"tool_calls": 1`},
		{"functionary2", ">>>", "all\nnow\nx"},
		{"harmony", "", "<|channel|>analysis<|message|>I could write to=functions.now x"},
	} {
		f := FormatOf(sources[k.format], k.format != "generic", true)
		s := compile(t, constraint(t, f, ConstraintOptions{Tools: testTools, Prompt: k.prompt}), v)
		for _, id := range tokens(texts, k.text) {
			if err := s.Accept(id); err != nil {
				t.Errorf("%s: %q: %v", k.format, k.text, err)
				break
			}
		}
	}
}

// generate returns a random text of a grammar, preferring what ends strings and lists.
func generate(t *testing.T, s *grammar.State, r *rand.Rand, texts []string) (string, bool) {
	t.Helper()
	var b strings.Builder
	set := make([]uint32, (len(texts)+31)/32)
	for range 4000 {
		if err := s.Mask(set); err != nil {
			t.Fatal(err)
		}
		var all, few []int32
		for id := range int32(len(texts)) {
			if set[id/32]>>(id%32)&1 == 0 {
				continue
			}
			if texts[id] == "" {
				return b.String(), true
			}
			all = append(all, id)
			if id >= 256 || strings.Contains(`"}])<,`, texts[id]) {
				few = append(few, id)
			}
		}
		if len(few) > 0 && r.IntN(3) > 0 {
			all = few
		}
		id := all[r.IntN(len(all))]
		if err := s.Accept(id); err != nil {
			t.Fatal(err)
		}
		b.WriteString(texts[id])
	}
	return b.String(), false
}

// TestGeneratedCallsAreRead generates answers at random by the grammars of required calls: the parser reads them as
// calls, and their arguments are valid by the tool's schema.
func TestGeneratedCallsAreRead(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 1))
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range testTools {
		var s jsonschema.Schema
		if tool.Parameters == nil {
			tool.Parameters = json.RawMessage(`{}`)
		}
		if err := json.Unmarshal(tool.Parameters, &s); err != nil {
			t.Fatal(err)
		}
		var err error
		if schemas[tool.Name], err = s.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	plain, plainTexts := vocabulary(t, nil)
	special, specialTexts := vocabulary(t, controls)
	for _, format := range slices.Sorted(maps.Keys(sources)) {
		source := sources[format]
		f := FormatOf(source, format != "generic", true)
		read := 0
		for i := range 16 {
			o := ConstraintOptions{Tools: testTools, Required: true, Parallel: i%2 == 0}
			if format == "functionary2" && i%4 < 2 {
				o.Prompt = ">>>"
			}
			v, texts := plain, plainTexts
			if i%3 == 0 {
				v, texts = special, specialTexts
			}
			text, whole := generate(t, compile(t, constraint(t, f, o), v), r, texts)
			if !whole {
				continue
			}
			read++
			m, _ := parse(f, Options{Tools: testTools, Prompt: o.Prompt}, text)
			if m.Content != "" || len(m.Calls) == 0 || !o.Parallel && len(m.Calls) > 1 {
				t.Errorf("%s: %q is read as %+v", format, text, m)
			}
			for _, c := range m.Calls {
				var arguments any
				if err := json.Unmarshal(c.Arguments, &arguments); err != nil {
					t.Errorf("%s: %q: arguments %q: %v", format, text, c.Arguments, err)
				} else if err := schemas[c.Name].Validate(arguments); err != nil {
					t.Errorf("%s: %q: arguments %s: %v", format, text, c.Arguments, err)
				}
			}
		}
		if read < 3 {
			t.Errorf("%s: only %d answers came to an end", format, read)
		}
	}
}

func TestLooseSchemasAreTold(t *testing.T) {
	tools := []Tool{{Name: "odd", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"if":{}}}}`)}, testTools[0]}
	for _, format := range []string{"hermes", "coder", "pythonic"} {
		c := constraint(t, FormatOf(sources[format], true, true), ConstraintOptions{Tools: tools, Required: true})
		if len(c.Loose) != 1 || !strings.Contains(c.Loose[0].Error(), "odd") || !strings.Contains(c.Loose[0].Error(), "if") {
			t.Errorf("%s: got %v", format, c.Loose)
		}
	}
}

// TestStrictSchemasAreRefused: a strict tool's schema is enforced in every part, or refused.
func TestStrictSchemasAreRefused(t *testing.T) {
	tools := []Tool{{Name: "odd", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"pattern":"(?=x)"}}}`), Strict: true}}
	_, err := FormatOf(sources["hermes"], true, true).Constraint(t.Context(), ConstraintOptions{Tools: tools})
	if err == nil || !strings.Contains(err.Error(), "odd") || !strings.Contains(err.Error(), "pattern") {
		t.Errorf("got %v", err)
	}
}

// compileLimit is the bound, in processor time, for forty tools with schemas of 100 kB, which take some tens of
// milliseconds.
const compileLimit = time.Second

func TestFortyToolsCompileInTime(t *testing.T) {
	testenv.Thorough(t)
	var tools []Tool
	size := 0
	for i := range 40 {
		var b strings.Builder
		b.WriteString(`{"type":"object","properties":{`)
		for k := range 20 {
			fmt.Fprintf(&b, `"parameter_%d_%d":{"type":%q,"description":"What parameter %d of this tool is for, in a sentence or two of prose, as tools have it."},`,
				i, k, []string{"string", "integer", "boolean"}[k%3], k)
		}
		b.WriteString(`"when":{"type":"string","format":"date-time"},"tags":{"type":"array","items":{"enum":["a","b","c"]}}},"required":["when"]}`)
		tools = append(tools, Tool{Name: fmt.Sprint("tool_", i), Parameters: json.RawMessage(b.String())})
		size += b.Len()
	}
	if size < 100_000 {
		t.Fatalf("the schemas have only %d bytes", size)
	}
	v, texts := vocabulary(t, controls)
	for _, format := range slices.Sorted(maps.Keys(sources)) {
		source := sources[format]
		begin := testenv.ProcessorTime(t)
		s := compile(t, constraint(t, FormatOf(source, format != "generic", true), ConstraintOptions{Tools: tools, Required: true, Parallel: true}), v)
		if err := s.Mask(make([]uint32, (len(texts)+31)/32)); err != nil {
			t.Fatal(err)
		}
		if took := testenv.ProcessorTime(t) - begin; took > compileLimit {
			t.Errorf("%s: %d bytes took %v", format, size, took)
		}
	}
}

// TestPlainCalls holds that a required call may follow a thought, unless no thought is asked for.
func TestPlainCalls(t *testing.T) {
	v, texts := vocabulary(t, nil)
	const thought = "<think>Hm.</think>"
	for _, plain := range []bool{false, true} {
		f := FormatOf(sources["hermes"]+"<think>", true, true) // a model that thinks
		s := compile(t, constraint(t, f, ConstraintOptions{Tools: testTools, Required: true, Plain: plain}), v)
		var err error
		for _, id := range tokens(texts, thought) {
			if err = s.Accept(id); err != nil {
				break
			}
		}
		if (err != nil) != plain {
			t.Errorf("without thoughts %v: %q before the call: %v", plain, thought, err)
		}
	}
}

// TestOtherThoughtsEnd: a model with a template that shows one kind of thought and asks for another ends either before
// a text with a schema.
func TestOtherThoughtsEnd(t *testing.T) {
	v, texts := vocabulary(t, nil)
	f := FormatOf("<thinking> Here are my reasoning steps: [BEGIN FINAL RESPONSE]", true, true)
	for _, thought := range []string{"<thinking>Hm.</thinking>", "Here are my reasoning steps: Hm. [BEGIN FINAL RESPONSE]", "<think>Hm.</think>"} {
		s := compile(t, constraint(t, f, ConstraintOptions{Text: grammar.Text{Schema: json.RawMessage(`{"const":4}`)}}), v)
		for i, id := range tokens(texts, thought+"\n4") {
			if err := s.Accept(id); err != nil {
				t.Errorf("%q, token %d: %v", thought, i, err)
				break
			}
		}
		if err := s.Accept(int32(len(texts) - 1)); err != nil {
			t.Errorf("%q: the answer cannot end: %v", thought, err)
		}
	}
}

// TestTwoToolsOfOneName: the first one counts.
func TestTwoToolsOfOneName(t *testing.T) {
	tools, err := Tools([]json.RawMessage{[]byte(`{"name":"a","parameters":{"type":"object"}}`), []byte(`{"name":"a"}`), []byte(`{"name":"b"}`)})
	if err != nil || len(tools) != 2 || tools[0].Name != "a" || tools[0].Parameters == nil || tools[1].Name != "b" {
		t.Errorf("%+v, %v", tools, err)
	}
}

// TestTextsHaveASchema generates random answers that may be calls: the others are valid by the schema for texts.
func TestTextsHaveASchema(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 2))
	v, texts := vocabulary(t, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"answer":{"type":"integer","minimum":0,"maximum":99}},"required":["answer"],"additionalProperties":false}`)
	said, called := 0, 0
	for _, format := range slices.Sorted(maps.Keys(sources)) {
		source := sources[format]
		f := FormatOf(source, format != "generic", true)
		for range 12 {
			o := ConstraintOptions{Tools: testTools, Text: grammar.Text{Schema: schema}, Plain: true}
			text, whole := generate(t, compile(t, constraint(t, f, o), v), r, texts)
			if !whole {
				continue
			}
			m, _ := parse(f, Options{Tools: testTools}, text)
			if len(m.Calls) > 0 && m.Content == "" {
				called++
				continue
			}
			said++
			var answer map[string]int
			if err := json.Unmarshal([]byte(m.Content), &answer); err != nil || len(answer) != 1 || len(m.Calls) > 0 {
				t.Errorf("%s: %q is read as %+v: %v", format, text, m, err)
			}
		}
	}
	if said == 0 || called == 0 {
		t.Errorf("%d texts and %d calls: one of them never came", said, called)
	}
	f := FormatOf(sources["hermes"], true, true)
	if _, err := f.Constraint(t.Context(), ConstraintOptions{Tools: testTools, Text: grammar.Text{Schema: json.RawMessage(`{"type":"strin"}`)}}); err == nil || !strings.Contains(err.Error(), "strin") {
		t.Errorf("a schema that says nothing sensible: %v", err)
	}
}
