package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// hostileLimit is the longest time that 64 KiB of an answer may take, in pieces of four bytes: a hundred times what
// they take, and a tenth of what they took if each piece were compared with all that came before.
const hostileLimit = time.Second

// TestHostileAnswersTakeLinearTime feeds long answers that make a parser hold back, go back or nest.
func TestHostileAnswersTakeLinearTime(t *testing.T) {
	testenv.Thorough(t)
	const size = 1 << 16
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, text := range map[string]string{
		"white space":          repeat(" "),
		"markers":              repeat("<tool_call>"),
		"halves of markers":    repeat("<tool_cal"),
		"thoughts":             repeat("<think></think>"),
		"nesting":              `<tool_call>{"name":"now","arguments":` + repeat(`{"a":`),
		"lists":                `<tool_call>{"name":"now","arguments":{"a":` + repeat("["),
		"a long string":        `<tool_call>{"name":"now","arguments":{"a":"` + repeat("x"),
		"a long number":        `<tool_call>{"name":"now","arguments":{"a":` + repeat("1"),
		"arguments first":      `<tool_call>{"arguments":{"a":"` + repeat("x"),
		"a long name":          `<tool_call>{"name":"` + repeat("x"),
		"members":              `<tool_call>{` + repeat(`"id":"x",`),
		"calls":                repeat(`<tool_call>{"name":"now"}</tool_call>`),
		"failed calls":         repeat(`<tool_call>{"name":"now","arguments":{"a":tru }}`),
		"parameters":           "<tool_call><function=now>" + repeat("<parameter=a>1</parameter>"),
		"a long parameter":     "<tool_call><function=get_weather><parameter=city>" + repeat("</paramete"),
		"broken characters":    repeat("\xe2\x82"),
		"line breaks":          "<tool_call><function=get_weather><parameter=city>" + repeat("\n"),
		"harmony's headers":    repeat("<|channel|>"),
		"harmony's messages":   repeat("<|start|>assistant<|channel|>analysis<|message|>a<|end|>"),
		"lists of calls":       repeat(`[now(),`),
		"generic calls":        `{"tool_calls":[` + repeat(`{"name":"now"},`),
		"objects in a thought": "<think>" + repeat(`{"name":"now"}`),
		"calls in a thought":   "<think>" + repeat(`<tool_call>{"name":"now"}</tool_call>`),
		"quotations":           "<think>" + repeat(`<tool_call>{"name":"now"}</tool_call>`) + "</think>",
		"begun in a thought":   "<think>" + repeat(`<tool_call>{"name":"now","arguments":{"a":"`),
		"nested in a thought":  "<think>" + repeat(`<tool_call>{"name":"now","arguments":`),
		"ends of calls":        "<tool_call><function=get_weather><parameter=city>" + repeat("</parameter>\n</function>\nx"),
		"calls in an argument": "<tool_call><function=get_weather><parameter=city>" + repeat("<tool_call></parameter></function></tool_call>x"),
		"further arguments":    "<tool_call><function=get_weather><parameter=city>" + repeat("</parameter><parameter=city>"),
		"white space in tags":  "<tool_call><function=get_weather><parameter=city>" + repeat("</parameter>"+strings.Repeat(" ", 1000)),
		"Muse's messages":      repeat(" to=self<|message|>a<|eom|><|start|>assistant"),
		"Muse's calls":         " to=now<|message|>" + repeat(`<atem:function_calls><atem:invoke name="now"></atem:invoke></atem:function_calls>`),
		"Muse's call":          ` to=now<|message|><atem:function_calls><atem:invoke name="get_weather"><atem:parameter name="city">` + repeat("</atem:parameter><"),
		"M3's elements":        `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_weather">` + repeat("]<]minimax[>[<options>"),
		"M3's items":           `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<options>]<]minimax[>[<a>` + repeat("]<]minimax[>[<item>1]<]minimax[>[</item>"),
		"M3's texts":           `]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>` + repeat("]<]minimax"),
		"Kimi K3's arguments":  `<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>` + repeat("<|close|>argument"),
		"Gemma's quotes":       `<|tool_call>call:get_weather{city:` + repeat(bareQuote),
		"values in quotes":     `<function name="get_weather"><param name="city"><![CDATA[` + repeat("]]></param><"),
		"lists as in Python":   `<tool_call><function=get_weather><parameter=options>` + repeat("['a',"),
		"Gemma's objects":      `<|tool_call>call:get_weather{options:` + repeat("{a:"),
	} {
		for _, format := range []string{"coder", "harmony", "pythonic", "generic", "gemma", "muse", "k3", "m3", "minicpm5"} {
			f := FormatOf(sources[format], format != "generic", true)
			begin := testenv.ProcessorTime(t)
			p := f.NewParser(Options{Tools: testTools})
			sources, calls := 0, 0
			take := func(events []Event) {
				for _, e := range events {
					sources += len(e.Source)
					if e.Kind == CallEnd {
						calls++
					}
				}
			}
			for i := 0; i < len(text); i += 4 {
				take(p.Feed(text[i:min(len(text), i+4)]))
			}
			take(p.Finish())
			if took := testenv.ProcessorTime(t) - begin; took > hostileLimit {
				t.Errorf("%s took %v in the format %s", name, took, format)
			}
			if sources != len(text) {
				t.Errorf("%s: the events account for %d of %d bytes in the format %s", name, sources, len(text), format)
			}
		}
	}
}
