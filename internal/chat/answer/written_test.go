package answer

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// writeTools have arguments that are source code.
var writeTools = []Tool{
	{Name: "write", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"mode":{"type":"integer"},"note":{"type":["string","null"]}},"required":["path","content"]}`)},
	{Name: "now", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
}

// around is how a format writes a call of write with the path a.py and a content, and what an answer's end may look
// like to a careless reader.
var around = map[string]struct {
	begin, end string
	hard       []string
}{
	"coder": {
		"<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n<parameter=content>\n", "\n</parameter>\n</function>\n</tool_call>",
		[]string{
			"print('</parameter>')", "print('</function>')", "print('</tool_call>')", "</parameter>\n</function> is the end", "</parameter></tool_call>",
			"<parameter=x>1</parameter>", "'<tool_call>' and '</tool_call>'", "</parameter>\n\n</parameter", "</parameter>\n<param", "</parameter>\n</funct",
			"s = '''<tool_call>\n<function=write>\n<parameter=b>\n1\n</parameter>\n</function>\n</tool_call>'''\nprint(s)",
			"</parameter>\n</function>x", "if a </parameter> b:\n\n",
		},
	},
	"seed": {
		"<seed:tool_call>\n<function=write>\n<parameter=path>a.py</parameter>\n<parameter=content>", "</parameter>\n</function>\n</seed:tool_call>",
		[]string{"print('</parameter>')", "print('</function>')", "</parameter></function>x", "</seed:tool_call>"},
	},
	"glm": {
		"<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n<arg_key>content</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>",
		[]string{"print('</arg_value>')", "</arg_value>\n</tool>", "</tool_call>", "<arg_key>b</arg_key>", "'<tool_call>now</arg_value></tool_call>' is a call"},
	},
	"dsml": {
		"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"write\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a.py</｜DSML｜parameter>\n<｜DSML｜parameter name=\"content\" string=\"true\">",
		"</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
		[]string{"print('</｜DSML｜parameter>')", "</｜DSML｜invoke>", "</｜DSML｜function_calls>"},
	},
	"k3": {
		"<|open|>tools<|sep|><|open|>call tool=\"write\" index=\"1\"<|sep|><|open|>argument key=\"path\" type=\"string\"<|sep|>a.py<|close|>argument<|sep|><|open|>argument key=\"content\" type=\"string\"<|sep|>",
		"<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
		[]string{"print('<|close|>argument<|sep|>')", "<|close|>call<|sep|>", "<|close|>tools<|sep|>", "<|close|>argument", "<|open|>argument key=\"b\" type=\"string\"<|sep|>"},
	},
	"hy3": {
		"<tool_calls:opensource>\n<tool_call:opensource>write<tool_sep:opensource>\n<arg_key:opensource>path</arg_key:opensource>\n<arg_value:opensource>a.py</arg_value:opensource>\n<arg_key:opensource>content</arg_key:opensource>\n<arg_value:opensource>",
		"</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
		[]string{"print('</arg_value:opensource>')", "</tool_call:opensource>", "</arg_value>\n</tool_call>"},
	},
	"muse": {
		" to=write<|message|><atem:function_calls>\n<atem:invoke name=\"write\">\n<atem:parameter name=\"path\">a.py</atem:parameter>\n<atem:parameter name=\"content\">", "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
		[]string{"print('</atem:parameter>')", "</atem:invoke>", "</atem:function_calls>", "<|eom|>"},
	},
	"m3": {
		"]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"write\">]<]minimax[>[<path>a.py]<]minimax[>[</path>]<]minimax[>[<content>", "]<]minimax[>[</content>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
		[]string{"print('</content>')", "</invoke>", "]<]minimax[>[<item>1]<]minimax[>[</item>", "]<]minimax[>[</invoke>"},
	},
	"m2": {
		"<minimax:tool_call>\n<invoke name=\"write\">\n<parameter name=\"path\">a.py</parameter>\n<parameter name=\"content\">", "</parameter>\n</invoke>\n</minimax:tool_call>",
		[]string{"print('</parameter>')", "</invoke>", "</minimax:tool_call>", "</parameter>\n</invoke", "<parameter name=\"b\">1"},
	},
	"hermes": {
		`<tool_call>{"name": "write", "arguments": {"path": "a.py", "content": "`, `"}}</tool_call>`,
		[]string{"print('</tool_call>')", "}}</tool_call>", "<tool_call>"},
	},
	"kimi": {
		`<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{"path": "a.py", "content": "`, `"}<|tool_call_end|><|tool_calls_section_end|>`,
		[]string{"<|tool_call_end|>", "<|tool_calls_section_end|>"},
	},
	"minicpm5": {
		"<function name=\"write\"><param name=\"path\">a.py</param><param name=\"content\"><![CDATA[", "]]></param></function>",
		[]string{"print('</param>')", "</param></function>", "]]>", "]]>\n</function>", "<![CDATA[x", "a\n<param name=\"b\">1", "\n\n"},
	},
	"solar": {
		`<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>write<|tool_call:args|>{"path": "a.py", "content": "`, `"}<|tool_call:end|>`,
		[]string{"<|tool_call:end|>", "<|calls|>", "<|end|>"},
	},
	"gemma":   {`<|tool_call>call:write{content:<|"|>`, `<|"|>,path:<|"|>a.py<|"|>}<tool_call|>`, []string{"<tool_call|>", "}<tool_call|>", "{a:1}"}},
	"mistral": {`[TOOL_CALLS]write[ARGS]{"path": "a.py", "content": "`, `"}`, []string{"[TOOL_CALLS]now[ARGS]{}"}},
}

// TestTextsThatHoldTags: an argument that contains the end markers of its own format stays complete, by itself, among
// other calls, in pieces, and under the grammars of optional and required calls.
func TestTextsThatHoldTags(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	v, texts := vocabulary(t, nil)
	for format, a := range around {
		f := FormatOf(sources[format], true, true)
		var states []func() *grammar.State // for an optional call, and for a required one
		for _, required := range []bool{false, true} {
			c := constraint(t, f, ConstraintOptions{Tools: writeTools, Required: required, Plain: true})
			compiled, err := c.Grammar.Compile(v)
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, func() *grammar.State { return c.NewState(t.Context(), compiled) })
		}
		for _, content := range append(a.hard, "plain", "") {
			text := a.begin + content + a.end
			if a.begin[0] == '<' && strings.HasSuffix(a.begin, `"content": "`) { // JSON has no line breaks in texts
				text = a.begin + strings.ReplaceAll(content, "\n", `\n`) + a.end
			}
			want := map[string]string{"path": "a.py", "content": content}
			m, _ := parse(f, Options{Tools: writeTools}, text)
			var got map[string]string
			if len(m.Calls) != 1 || json.Unmarshal(m.Calls[0].Arguments, &got) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q is read as %+v", format, text, m)
			}
			check(t, f, Options{Tools: writeTools}, text, cuts(r, text))
			for required, state := range states {
				s := state()
				for _, id := range tokens(texts, text) {
					if err := s.Accept(id); err != nil {
						t.Errorf("%s, required %d: %q: %v", format, required, text, err)
						break
					}
				}
				if !s.CanEnd() {
					t.Errorf("%s, required %d: %q may not end", format, required, text)
				}
			}
			if f.Name() == "mistral" {
				continue
			}
			two := text + "\n" + text
			if m, _ = parse(f, Options{Tools: writeTools}, two); len(m.Calls) != 2 {
				t.Errorf("%s: %q is read as %+v", format, two, m)
			}
		}
	}
}

// TestHeldToRequired: a call cannot end without its required arguments, whatever its texts contain.
func TestHeldToRequired(t *testing.T) {
	v, texts := vocabulary(t, nil)
	for _, k := range []struct{ format, text string }{
		{"coder", "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"},
		{"coder", "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=mode>"},
		{"coder", "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nb\n</parameter>\n<parameter=mode>\nx"},
		{"coder", "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nb\n</parameter>\n</function>\n</tool_call>\nDone"},
		{"minicpm5", "<function name=\"write\"><param name=\"path\">a</param></function>"},
	} {
		s := compile(t, constraint(t, FormatOf(sources[k.format], true, true), ConstraintOptions{Tools: writeTools, Required: true, Plain: true}), v)
		var err error
		for _, id := range tokens(texts, k.text) {
			if err = s.Accept(id); err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%q is allowed", k.text)
		}
	}
}

// TestQuotesClose: a call with a value that only begins in quotes cannot end.
func TestQuotesClose(t *testing.T) {
	v, texts := vocabulary(t, nil)
	f := FormatOf(sources["minicpm5"], true, true)
	for text, closed := range map[string]bool{
		"<function name=\"write\"><param name=\"path\"><![CDATA[a]]></param><param name=\"content\">b</param></function>": true,
		"<function name=\"write\"><param name=\"path\"><![CDATA[a</param><param name=\"content\">b</param></function>":    false,
	} {
		s := compile(t, constraint(t, f, ConstraintOptions{Tools: writeTools, Required: true, Plain: true}), v)
		for _, id := range tokens(texts, text) {
			if err := s.Accept(id); err != nil {
				t.Errorf("%q: %v", text, err)
				break
			}
		}
		if s.CanEnd() != closed {
			t.Errorf("%q may end: %v", text, s.CanEnd())
		}
	}
}

// TestCallsAsModelsWriteThem: forms that models write instead of those that their templates show.
func TestCallsAsModelsWriteThem(t *testing.T) {
	rome, now := tc("get_weather", `{"city":"Rome"}`), tc("now", `{}`)
	const object = `{"name":"get_weather","arguments":{"city":"Rome"}}`
	const llama = `{"name":"get_weather","parameters":{"city":"Rome"}}`
	for _, k := range []struct {
		format, prompt, text string
		content, reasoning   string
		calls                []testCall
	}{
		// calls within a thought that never ends
		{"hermes", "", "<think>I look.\n<tool_call>" + object + "</tool_call>", "", "I look.", []testCall{rome}},
		{"hermes", "<think>\n", "I look.\n<tool_call>" + object + "</tool_call>\n<tool_call>{\"name\":\"now\"}</tool_call>\n", "", "I look.", []testCall{rome, now}},
		{"hermes", "<think>\n", "<tool_call>" + object + "</tool_call>\nI wait.", "", "\nI wait.", []testCall{rome}},
		{"hermes", "<think>\n", "<tool_call>" + object + "</tool_call>\nor so</think>No.", "No.", "<tool_call>" + object + "</tool_call>\nor so", nil},
		{"hermes", "<think>\n", "A <tool_call> is a tag, <tool_call>" + object + "</tool_call>", "", "A <tool_call> is a tag,", []testCall{rome}},
		{"hermes", "<think>\n", "So <tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"</think>Yes.", "Yes.", "So <tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"", nil},
		{"hermes", "<think>\n", "So <tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"</think>\"}}</tool_call>", "", "So", []testCall{tc("get_weather", `{"city":"</think>"}`)}},
		{"hermes", "<think>\n", "So <tool_call>{\"name\":\"get_wea", "", "So <tool_call>{\"name\":\"get_wea", nil},
		{"coder", "<think>\n", "So\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>", "", "So", []testCall{rome}},
		{"glm", "<think>", "So<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>", "", "So", []testCall{rome}},
		{"generic", "<think>", "So\n{\"tool_calls\": [" + object + "]}", "", "So", []testCall{rome}},
		{"v31", "<think>", "So<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", "So", []testCall{now}},
		{"harmony", "", "<|channel|>analysis<|message|>So<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}", "", "So", []testCall{now}},
		{"harmony", "", "<|channel|>analysis to=functions.now<|message|>{}", "", "", []testCall{now}},
		// several
		{"llama", "", llama + "; " + llama, "", "", []testCall{rome, rome}},
		{"llama", "", llama + "\n" + `{"name":"now","parameters":{}}`, "", "", []testCall{rome, now}},
		{"llama", "", llama + ", " + llama, "", "", []testCall{rome, rome}},
		{"llama", "", "<|python_tag|>" + llama + "; " + llama, "", "", []testCall{rome, rome}},
		{"llama", "", "<|python_tag|>" + llama + "<|python_tag|>" + llama, "", "", []testCall{rome, rome}},
		{"llama", "", "[" + llama + ", " + llama + "]", "", "", []testCall{rome, rome}},
		{"llama", "", llama + "; and so on", "; and so on", "", []testCall{rome}},
		{"hermes", "", "<tool_call>\n" + object + "\n" + object + "\n</tool_call>", "", "", []testCall{rome, rome}},
		{"hermes", "", "<tool_call>\n[" + object + ", " + object + "]\n</tool_call>", "", "", []testCall{rome, rome}},
		{"coder", "", "<tool_call>\n<function=now>\n</function>\n<function=now>\n</function>\n</tool_call>", "", "", []testCall{now, now}},
		{"generic", "", object + "\n" + object, "", "", []testCall{rome, rome}},
		{"generic", "", "[" + object + "]", "", "", []testCall{rome}},
		// parts that were left out
		{"v31", "", "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>", "", "", []testCall{now, now}},
		{"kimi", "", "<|tool_call_begin|>now:0<|tool_call_argument_begin|>{}<|tool_call_end|>", "", "", []testCall{{"functions.now:0", "now", `{}`}}},
		{"mistral", "", "[TOOL_CALLS]now{}[TOOL_CALLS]get_weather{\"city\":\"Rome\"}", "", "", []testCall{now, rome}},
		{"coder", "", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>", "", "", []testCall{rome}},
		{"coder", "", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\nDone.", "\nDone.", "", []testCall{rome}},
	} {
		f := FormatOf(sources[k.format], k.format != "generic", true)
		m, source := parse(f, Options{Tools: testTools, Prompt: k.prompt}, k.text)
		if m.Content != k.content || m.Reasoning != k.reasoning || !reflect.DeepEqual(callsOf(m), k.calls) || source != k.text {
			t.Errorf("%s: %q:\ngot  %q, %q, %q\nwant %q, %q, %q", k.format, k.text, m.Content, m.Reasoning, callsOf(m), k.content, k.reasoning, k.calls)
		}
		r := rand.New(rand.NewPCG(2, 1))
		for range 8 {
			check(t, f, Options{Tools: testTools, Prompt: k.prompt}, k.text, cuts(r, k.text))
		}
		if len(k.calls) < 2 {
			continue
		}
		one, _ := parse(f, Options{Tools: testTools, Prompt: k.prompt, Single: true}, k.text)
		if !reflect.DeepEqual(callsOf(one), k.calls[:1]) || one.Content != k.content {
			t.Errorf("%s: %q: where one call is allowed: %+v", k.format, k.text, one)
		}
	}
}

// TestRequiredCallsEndThoughts: a required call may end a thought, and a mention of its beginning does not.
func TestRequiredCallsEndThoughts(t *testing.T) {
	v, texts := vocabulary(t, nil)
	const call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"
	for _, k := range []struct {
		prompt, text string
		ok           bool
	}{
		{"<think>", "So " + call, true},
		{"<think>", "So</think>" + call, true},
		{"", "<think>So\n" + call, true},
		{"<think>", "<tool_call> is a tag</think>" + call, true},
		{"<think>", "So", false},
		{"<think>", "So</think>", false},
	} {
		s := compile(t, constraint(t, FormatOf(sources["hermes"]+"<think>", true, true), ConstraintOptions{Tools: testTools, Required: true, Prompt: k.prompt}), v)
		var err error
		for _, id := range tokens(texts, k.text) {
			if err = s.Accept(id); err != nil {
				break
			}
		}
		if err != nil || s.CanEnd() != k.ok {
			t.Errorf("%q after %q: %v, may end: %v", k.text, k.prompt, err, s.CanEnd())
		}
	}
}
