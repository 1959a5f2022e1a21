package chat

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func said(role, text string) Message { return Message{Role: role, Content: text} }

func calling(calls ...ToolCall) Message { return Message{Role: "assistant", ToolCalls: calls} }

func called(id, arguments string) ToolCall {
	return ToolCall{id, "get_weather", json.RawMessage(arguments)}
}

func answered(id, text string) Message {
	return Message{Role: "tool", Name: "get_weather", ToolCallID: id, Content: text}
}

// orders are conversations in orders of roles that clients send, each with words that every prompt must have.
var orders = []struct {
	name     string
	messages []Message
	want     string
}{
	{"a system message at the end", []Message{said("user", "alpha"), said("system", "beta")}, "alpha beta"},
	{"a system message in the middle", []Message{said("system", "alpha"), said("user", "beta"), said("assistant", "gamma"), said("system", "delta"), said("user", "epsilon")}, "alpha beta gamma delta epsilon"},
	{"two system messages", []Message{said("system", "alpha"), said("system", "beta"), said("user", "gamma")}, "alpha beta gamma"},
	{"system and developer", []Message{said("system", "alpha"), said("developer", "beta"), said("user", "gamma")}, "alpha beta gamma"},
	{"developer in the middle", []Message{said("user", "alpha"), said("assistant", "beta"), said("developer", "gamma"), said("user", "delta")}, "alpha beta gamma delta"},
	{"an assistant first", []Message{said("assistant", "alpha"), said("user", "beta")}, "alpha beta"},
	{"two users", []Message{said("user", "alpha"), said("user", "beta")}, "alpha beta"},
	{"two assistants", []Message{said("user", "alpha"), said("assistant", "beta"), said("assistant", "gamma"), said("user", "delta")}, "alpha beta gamma delta"},
	{"no user", []Message{said("system", "alpha")}, "alpha"},
	{"a result without a call", []Message{said("system", "alpha"), answered("c9", "beta"), said("user", "gamma")}, "alpha beta gamma"},
	{"a call without a user", []Message{said("system", "alpha"), calling(called("c1", `{"city": "beta"}`)), answered("c1", "gamma")}, "alpha beta gamma"},
	{"arguments in a text", []Message{said("user", "alpha"), calling(called("c1", `"{\"city\": \"beta\"}"`)), answered("c1", "gamma")}, "alpha beta gamma"},
	{"no arguments", []Message{said("user", "alpha"), calling(called("c1", `""`)), answered("c1", "gamma")}, "alpha gamma"},
	{"arguments that were cut off", []Message{said("user", "alpha"), calling(called("c1", `"{\"city\": \"beta"`)), answered("c1", "gamma")}, "alpha beta gamma"},
	{"arguments that are cut off at once", []Message{said("user", "alpha"), calling(called("c1", `"{"`)), answered("c1", "gamma")}, "alpha gamma"},
	{"a list as arguments", []Message{said("user", "alpha"), calling(called("c1", `["beta"]`)), answered("c1", "gamma")}, "alpha beta gamma"},
	{"a text as arguments", []Message{said("user", "alpha"), calling(called("c1", `"city=beta"`)), answered("c1", "gamma")}, "alpha beta gamma"},
	{"no ids", []Message{said("user", "alpha"), calling(called("", `{"city": "beta"}`)), answered("", "gamma")}, "alpha beta gamma"},
	{"an empty answer", []Message{said("user", "alpha"), said("assistant", ""), said("user", "beta")}, "alpha beta"},
	{"an empty result", []Message{said("user", "alpha"), calling(called("c1", `{"city": "beta"}`)), answered("c1", "")}, "alpha beta"},
	{"a user after a result", []Message{said("user", "alpha"), calling(called("call_of_another_server", `{"city": "beta"}`)), answered("call_of_another_server", "gamma"), said("user", "delta")}, "alpha beta gamma delta"},
	{"two calls at once", []Message{said("user", "alpha"), calling(called("c1", `{"city": "beta"}`), called("c2", `{"city": "gamma"}`)), answered("c1", "delta"), answered("c2", "epsilon")}, "alpha beta gamma delta epsilon"},
	{"a call without a result", []Message{said("user", "alpha"), calling(called("c1", `{"city": "beta"}`)), said("user", "gamma")}, "alpha beta gamma"},
	{"a thought and a text before a call", []Message{said("user", "alpha"), {Role: "assistant", Content: "Let me see.", Reasoning: "Hm.", ToolCalls: []ToolCall{called("c1", `{"city": "beta"}`)}}, answered("c1", "gamma")}, "alpha beta gamma"},
	{"channels in an answer", []Message{said("user", "alpha"), said("assistant", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>beta"), said("user", "gamma")}, "alpha beta gamma"},
	{"a long one", []Message{said("system", "alpha"), said("user", "beta"), calling(called("c1", `{"city": "gamma"}`)), answered("c1", "delta"), said("user", "epsilon"), calling(called("c2", `"{\"city\": \"zeta"`), called("c3", `{"city": "eta"}`)), answered("c2", "theta"), answered("c3", "iota"), said("user", "kappa"), said("system", "lambda"), said("user", "mu")}, "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu"},
}

// TestEveryOrder: no published template refuses an order of roles, and none loses a message.
func TestEveryOrder(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(testenv.Shared(t, "chat-templates"), "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".jinja")
		tmpl := published(t, name)
		for _, o := range orders {
			for _, tools := range [][]Tool{nil, weather} {
				out, err := tmpl.Render(Request{Messages: o.messages, Tools: tools, AddGenerationPrompt: true})
				if err != nil {
					t.Errorf("%s, %s, %d tools: %v", name, o.name, len(tools), err)
					continue
				}
				want := strings.Fields(o.want)
				if tools != nil {
					want = append(want, "City name")
				}
				for _, w := range want {
					if !strings.Contains(out, w) {
						t.Errorf("%s, %s, %d tools: %q is not in %q", name, o.name, len(tools), w, out)
					}
				}
				if strings.Contains(out, silence) {
					t.Errorf("%s, %s: a turn that is none is in %q", name, o.name, out)
				}
			}
		}
	}
}

// TestEveryTool: no published template refuses or loses a tool with an incomplete definition.
func TestEveryTool(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(testenv.Shared(t, "chat-templates"), "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	const begin = `{"type":"function","function":{"name":"get_weather"`
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".jinja")
		tmpl := published(t, name)
		for _, tool := range []string{
			begin + `}}`,
			begin + `,"description":null,"parameters":null}}`,
			begin + `,"parameters":{}}}`,
			begin + `,"parameters":{"type":"object","properties":{"a":{}}}}}`,
			begin + `,"parameters":{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"null"},{"type":"number"}]},"c":{"enum":["x"]},"d":{"type":"array"},"e":true}}}}`,
			`{"name":"get_weather","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}`,
		} {
			out, err := tmpl.Render(Request{Messages: []Message{said("user", "Hi")}, Tools: []Tool{Tool(tool)}, AddGenerationPrompt: true})
			if err != nil || !strings.Contains(out, "get_weather") {
				t.Errorf("%s, %s: got %q, %v", name, tool, out, err)
			}
		}
	}
}

func TestToolsAreCompleted(t *testing.T) {
	tmpl, err := Parse(`{% for t in tools or [] %}{{ t.function.description + t.function.name }}{% for n, s in t.function.parameters.properties|items %}`+
		`{{ ',' + n + ':' + s.type }}{% endfor %}{% endfor %}`, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	got, err := tmpl.Render(Request{Messages: []Message{said("user", "Hi")}, Adapted: func(n string) { notes = append(notes, n) }, Tools: []Tool{
		Tool(`{"name":"f","parameters":{"properties":{"a":{"enum":[1]},"b":{"type":["null","boolean"]},"c":{"anyOf":[{"type":"null"},{"type":"number"}]},"d":{"items":{}},"e":true,"g":{"properties":{}}}}}`),
		Tool(`{"type":"function","function":{"name":"h"}}`),
	}})
	if want := "f,a:integer,b:boolean,c:number,d:array,e:string,g:objecth"; err != nil || got != want || len(notes) != 1 {
		t.Errorf("got %q, %v, %q, want %q", got, err, notes, want)
	}
}

// strict is a template that refuses what Mistral's refuse: other turns than a user's and an assistant's by turns, later
// system messages, ids of another length, empty answers, and arguments that are no objects.
const strict = `{% set ns = namespace(n=0) %}{% for m in messages %}` +
	`{% if m.role == 'system' and not loop.first %}{{ raise_exception('system') }}{% endif %}` +
	`{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}` +
	`{% if (m.role == 'user') != (ns.n % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}{% set ns.n = ns.n + 1 %}{% endif %}` +
	`{% if m.role == 'system' %}{{ '[S]' + m.content }}{% elif m.role == 'user' %}{{ '[U]' + m.content }}` +
	`{% elif m.tool_calls %}{% for c in m.tool_calls %}{% if c.id|length != 9 %}{{ raise_exception('id') }}{% endif %}` +
	`{{ '[C]' + c.function.name + c.id + '(' }}{% for k, v in c.function.arguments|items %}{{ k ~ '=' ~ v ~ ',' }}{% endfor %}{{ ')' }}{% endfor %}` +
	`{% elif m.role == 'assistant' %}{% if not m.content %}{{ raise_exception('empty') }}{% endif %}{{ '[A]' + m.content + '.' }}` +
	`{% elif m.role == 'tool' %}{% if m.tool_call_id|length != 9 %}{{ raise_exception('id') }}{% endif %}{{ '[R]' + m.tool_call_id + ':' + m.content }}` +
	`{% endif %}{% endfor %}`

func TestAdaptations(t *testing.T) {
	tmpl, err := Parse(strict, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		messages []Message
		want     string
	}{
		{[]Message{said("system", "a"), said("user", "b"), said("system", "c"), said("user", "d")}, "[S]a[U]b\n\nc\n\nd"},
		{[]Message{said("system", "a"), said("user", "b"), said("assistant", "c"), said("system", "d"), said("user", "e")}, "[S]a[U]b[A]c.[U]d\n\ne"},
		{[]Message{said("user", "a"), said("user", "b")}, "[U]a\n\nb"},
		{[]Message{said("user", "a"), calling(called("abcdefghi", `{"x": 1}`)), answered("abcdefghi", "b"), said("user", "c")}, "[U]a[C]get_weatherabcdefghi(x=1,)[R]abcdefghi:b[U]c"},
		{[]Message{said("user", "a"), calling(called("abcdefghi", `{"x": 1}`)), said("user", "c")}, "[U]a[C]get_weatherabcdefghi(x=1,)[U]c"},
		{[]Message{said("user", "a"), said("assistant", ""), said("user", "b")}, "[U]a[U]b"},
		{[]Message{said("assistant", "a"), said("user", "b")}, "[U][A]a.[U]b"},
		{[]Message{said("user", "a"), calling(called("", `"{\"x\": 1"`)), answered("", "b")}, "[U]a[C]get_weathercall00001(x=1,)[R]call00001:b"},
		{
			[]Message{said("user", "a"), calling(called("", `{}`), called("", `{}`)), {Role: "tool", Name: "another", Content: "b"}, answered("", "c"), answered("", "d")},
			"[U]a[C]get_weathercall00001()[C]get_weathercall00002()[R]call00003:b[R]call00001:c[R]call00002:d",
		},
	} {
		if got, err := tmpl.Render(Request{Messages: c.messages}); err != nil || got != c.want {
			t.Errorf("%+v: got %q, %v, want %q", c.messages, got, err, c.want)
		}
	}
	var notes []string
	_, err = tmpl.Render(Request{Messages: []Message{said("user", "a"), said("user", "b")}, Adapted: func(n string) { notes = append(notes, n) }})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "joined") {
		t.Errorf("got %v, %q, want one note", err, notes)
	}
}

// TestLaterSystemIsShown: a template that accepts a later system message without showing it does not lose it.
func TestLaterSystemIsShown(t *testing.T) {
	tmpl, err := Parse(`{% set ms = messages %}{% if messages[0].role == 'system' %}{{ '[S]' + messages[0].content }}{% set ms = messages[1:] %}{% endif %}`+
		`{% for m in ms %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}`+
		`{% if m.role == 'user' %}{{ '[U]' + m.content }}{% elif m.role == 'assistant' %}{{ '[A]' + m.content }}{% endif %}{% endfor %}`, "", "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render(Request{Messages: []Message{said("system", "first"), said("user", "a"), said("system", "later")}})
	if want := "[S]first[U]a\n\nlater"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestResultsWithCalls: Gemma 4's first templates show results only in the message of their calls.
func TestResultsWithCalls(t *testing.T) {
	tmpl, err := Parse(`{% for m in messages %}{{ '<|turn>' + m.role + '\n' }}`+
		`{% for c in m.tool_calls or [] %}{{ '<|tool_call>' + c.function.name + c.function.arguments|tojson }}{% endfor %}`+
		`{% for r in m.tool_responses or [] %}{{ '<|tool_response>' + r.name + ':' + r.response|tojson }}{% endfor %}`+
		`{{ m.content }}{% if not m.tool_responses %}{{ '<turn|>' }}{% endif %}{% endfor %}`, "", "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render(Request{Messages: []Message{
		said("user", "a"), calling(ToolCall{"1", "f", json.RawMessage(`{"x": 1}`)}, ToolCall{"2", "g", json.RawMessage(`{}`)}),
		{Role: "tool", ToolCallID: "2", Content: `{"y": 2}`},
		{Role: "tool", ToolCallID: "1", Content: "done"},
	}})
	want := `<|turn>user` + "\n" + `a<turn|><|turn>assistant` + "\n" + `<|tool_call>f{"x": 1}<|tool_call>g{}<|tool_response>g:{"y": 2}<|tool_response>f:"done"`
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestIDsStayPaired: ids of any form become short ones, equal for a call and its result, different for other calls.
func TestIDsStayPaired(t *testing.T) {
	tmpl, err := Parse(strict, "", "")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"call_abcdefghijklmnop", "toolu_01AbCdEf", "x", "3f2b8a1c-0000-4000-8000-000000000000"}
	messages := []Message{said("user", "a"), calling()}
	for _, id := range ids {
		messages[1].ToolCalls = append(messages[1].ToolCalls, called(id, `{"of": "`+id+`"}`))
		messages = slices.Insert(messages, 2, answered(id, id)) // in another order
	}
	out, err := tmpl.Render(Request{Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range ids {
		before, _, ok := strings.Cut(out, "(of="+id)
		if !ok {
			t.Fatalf("no call %s in %q", id, out)
		}
		short := before[len(before)-shortID:]
		if seen[short] || !strings.Contains(out, "[R]"+short+":"+id) {
			t.Errorf("%s became %s in %q", id, short, out)
		}
		seen[short] = true
	}
}

// TestEarlierTextStays: as a conversation grows, the text of its earlier part stays the same, so that the cache can be
// reused.
func TestEarlierTextStays(t *testing.T) {
	all := []Message{
		said("system", "a"), said("user", "b"), calling(called("call_1234567", `"{\"x\": \"y"`)), answered("call_1234567", "c"), said("user", "d"),
		said("system", "e"), said("user", "f"), said("assistant", "g"), said("user", "h"), calling(called("", `[1]`), called("", `{}`)), answered("", "i"),
		answered("", "j"), said("user", "k"), said("assistant", "l"), said("developer", "m"), said("user", "n"),
	}
	ends := []int{2, 4, 7, 9, 13, 16} // where a client asks
	for name, source := range map[string]string{"strict": strict, "chatml": builtin["chatml"].template()} {
		tmpl, err := Parse(source, "", "")
		if err != nil {
			t.Fatal(err)
		}
		before := ""
		for _, n := range ends {
			text, err := tmpl.Render(Request{Messages: all[:n]})
			if err != nil {
				t.Fatalf("%s, %d messages: %v", name, n, err)
			}
			if !strings.HasPrefix(text, strings.TrimSuffix(before, "<|im_end|>\n")) {
				t.Errorf("%s, %d messages: %q does not begin with %q", name, n, text, before)
			}
			before = text
		}
	}
}

func TestCutOffArgumentsAreCompleted(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                            `{}`,
		`{"a": 1`:                      `{"a": 1}`,
		`{"a": 1,`:                     `{"a": 1}`,
		`{"a": 1, "b`:                  `{"a": 1}`,
		`{"a": 1, "b":`:                `{"a": 1}`,
		`{"a": 1, "b": tr`:             `{"a": 1}`,
		`{"a": "x\`:                    `{"a": "x"}`,
		`{"a": "x\u12`:                 `{"a": "x"}`,
		`{"a": "x\\`:                   `{"a": "x\\"}`,
		`{"a": "says \"no`:             `{"a": "says \"no"}`,
		`{"a": [1, {"b": "c`:           `{"a": [1, {"b": "c"}]}`,
		`{"a": [1, 2`:                  `{"a": [1, 2]}`,
		`{"a": "}{", "b": ["]`:         `{"a": "}{", "b": ["]"]}`,
		`{"a": 1]`:                     ``,
		`[1`:                           ``,
		`a=1`:                          ``,
		``:                             ``,
		strings.Repeat(`{"a":`, 1_000): ``,
	} {
		if got := string(completed(text)); got != want {
			t.Errorf("%.80q: got %q, want %q", text, got, want)
		}
	}
}

// TestCutAnywhere: an object cut off at any place can be completed to show something.
func TestCutAnywhere(t *testing.T) {
	const whole = `{"path": "a \"b\" \\ \u00fc.txt", "n": [1, -2.5e3, true, null, {"x": {}}], "text": "line\nüber"}`
	for i := range len(whole) - 1 {
		got := completed(whole[:i+1])
		if !json.Valid(got) || got[0] != '{' {
			t.Errorf("%s: got %s", whole[:i+1], got)
		}
	}
}

func TestFirefunctionIsToldOfTools(t *testing.T) {
	out, err := published(t, "fireworks-ai-llama-3-firefunction-v2").Render(Request{Messages: []Message{said("user", "Hi")}, Tools: weather})
	if want := "[\n    {\n        \"name\": \"get_weather\","; err != nil || !strings.Contains(out, want) {
		t.Errorf("got %q, %v, want %q in it", out, err, want)
	}
}

// TestRefusedForGood: messages that no adaptation can express are an error in the template's own words.
func TestRefusedForGood(t *testing.T) {
	tmpl, err := Parse(`{{ raise_exception('not today') }}`, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(Request{Messages: slices.Concat(withCall(), withCall())}); err == nil || !strings.Contains(fmt.Sprint(err), "not today") {
		t.Errorf("got %v", err)
	}
}
