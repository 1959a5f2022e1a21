// Package answer reads a chat model's answer: its thoughts, its tool calls, and the rest, which is the content. Each
// family of models has its own form for them, a Format, which follows from its chat template. A Parser reads an answer
// while it is being written, and Format.Constraint makes the grammar that holds calls to the tools' schemas.
//
// Text that cannot be read as a call is content, unchanged: the text of an answer is never lost and never an error.
package answer

import (
	"fmt"
	"slices"
	"strings"
)

// A Format says how a family of models writes thoughts and calls. It is immutable and safe for concurrent use.
type Format struct {
	name     string
	forms    []*form
	thoughts []thought
	wraps    []wrapping
	drop     []string  // markers that mean nothing to a reader, such as those around an answer's text
	control  bool      // calls begin with a control token, which nobody quotes: it ends an open thought
	thinks   bool      // the template shows markers of thoughts
	speaker  string    // a text's possible beginning without meaning to a reader
	channels *channels // an answer is several messages; nil: it is one
}

// A thought is the markers around a model's thoughts. A template shows one of them or, if there is one, the sign.
type thought struct{ open, close, sign string }

// Name returns the format's name, for logs.
func (f *Format) Name() string { return f.name }

var commonThoughts = []thought{{"<think>", "</think>", ""}}

// otherThoughts are thoughts with uncommon markers.
var otherThoughts = []thought{
	{"<seed:think>", "</seed:think>", ""},
	{"<mm:think>", "</mm:think>", ""},
	{"[THINK]", "[/THINK]", ""},
	{"<|START_THINKING|>", "<|END_THINKING|>", ""},
	{"<thinking>", "</thinking>", ""},
	{"<|inner_prefix|>", "<|inner_suffix|>", ""}, // Apertus
	{"<|channel>thought", "<channel|>", ""},      // Gemma 4
	{"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", ""},
	{"<think" + hy3 + ">", "</think" + hy3 + ">", "<think{}>"},
	{"<|open|>think<|sep|>", "<|close|>think<|sep|>", "<|end_of_msg|>"}, // Kimi K3
	{"<|think|>", "<|end|>", solarBegin + "<|think|>"},
}

// A wrapping is markers around an answer's text, with the text in templates that identifies them.
type wrapping struct {
	sign, open, close string
	around            bool   // they are around calls, too
	empty             bool   // they also surround calls, with an empty text if there is none
	end               string // what ends an answer, before the token that does
	speaker           string // a text's beginning that a template may ask for, without meaning to a reader
}

// solarBegin begins each message of an answer of Solar Open: its thoughts, its text and its calls.
const solarBegin = "<|begin|>assistant"

// wrappings are those of Granite's prompt for thoughts, Command-R7B, Cohere's later models, Hunyuan A13B, Kimi K3 and
// Solar Open.
var wrappings = []wrapping{
	{sign: "<response></response>", open: "<response>", close: "</response>"},
	{sign: "<|START_RESPONSE|>", open: "<|START_RESPONSE|>", close: "<|END_RESPONSE|>"},
	{sign: "<|START_TEXT|>", open: "<|START_TEXT|>", close: "<|END_TEXT|>"},
	{sign: "<|extra_4|>", open: "<answer>", close: "</answer>", around: true, speaker: "助手："},
	{
		sign: "<|end_of_msg|>", open: "<|open|>response<|sep|>", close: "<|close|>response<|sep|>", empty: true,
		end: "<|close|>message<|sep|>",
	},
	{sign: solarBegin + "<|content|>", open: "<|content|>", close: "<|end|>", end: "<|calls|>", speaker: solarBegin},
}

// signs are the texts in templates that identify forms, more specific ones first.
var signs = []struct {
	name    string
	signs   []string // all of them are in the template
	forms   []*form
	control bool
}{
	{"functionary-v3.2", []string{">>>all"}, []*form{&functionary32}, false},
	{"deepseek-v4", []string{"｜DSML｜", "tool_calls>"}, []*form{&dsmlV4, &dsmlV32}, true},
	{"deepseek-v3.2", []string{"｜DSML｜"}, []*form{&dsmlV32, &dsmlV4}, true},
	{"deepseek-r1", []string{"<｜tool▁calls▁begin｜>", "```json"}, []*form{&deepseekR1, &deepseekV31}, true},
	{"deepseek-v3.1", []string{"<｜tool▁calls▁begin｜>"}, []*form{&deepseekV31, &deepseekR1}, true},
	{"kimi-k2", []string{"<|tool_calls_section_begin|>"}, []*form{&kimi}, true},
	{"kimi-k3", []string{"<|open|>", "<|close|>", "<|end_of_msg|>"}, []*form{&kimiK3}, true},
	{"hy3", []string{"<arg_key{}>", hy3}, []*form{&hunyuan3}, true},
	{"apertus", []string{"<|tools_prefix|>"}, []*form{&apertus}, true},
	{"solar-open", []string{"<|tool_call:begin|>"}, []*form{&solarOpen}, true},
	{"minimax-m3", []string{minimaxPrefix}, []*form{&minimaxM3}, true},
	{"minimax-m2", []string{"<minimax:tool_call>"}, []*form{&minimaxM2}, false},
	{"minimax-m1", []string{`<tool_calls>\n{`}, []*form{&minimaxM1, &apriel}, false},
	{"lfm2", []string{"<|tool_call_start|>"}, []*form{&lfm2}, true},
	{"lfm2", []string{"<|tool_list_start|>"}, []*form{&lfm2}, true},
	{"lfm2", []string{"List of tools: ["}, []*form{&lfm2}, true},
	{"gigachat-3.1", []string{"<|role_sep|>", "<|function_call|>"}, []*form{&gigachat1}, true},
	{"gigachat-3", []string{"<|role_sep|>", "'function call'"}, []*form{&gigachat}, true},
	{"nemotron-2", []string{"<TOOLCALL>"}, []*form{&nemotron2}, false},
	{"seed-oss", []string{"<seed:tool_call>"}, []*form{&seed}, false},
	{"hunyuan", []string{"<tool_calls>", "```json"}, []*form{&hunyuan, &apriel}, false},
	{"apriel", []string{"<tool_calls>"}, []*form{&apriel}, false},
	{"minicpm5", []string{`<function name="`, `<param name="`}, []*form{&minicpm5}, false},
	{"glm", []string{"<arg_key>"}, []*form{&glm}, false},
	{"qwen3-coder", []string{"<tool_call>", "<parameter="}, []*form{&coder, &hermes, &hermesList, &coderBare}, false},
	{"hermes", []string{"<tool_call>"}, []*form{&hermes, &hermesList}, false},
	{"mistral", []string{"[TOOL_CALLS]", "[ARGS]"}, []*form{&mistral, &mistralList}, true},
	{"mistral-list", []string{"[TOOL_CALLS]"}, []*form{&mistralList, &mistral}, true},
	{"gemma-4", []string{"<|tool_call>call:"}, []*form{&gemma}, true},
	{"command-r7b", []string{"<|START_ACTION|>"}, []*form{&commandR}, true},
	{"granite", []string{"<|tool_call|>"}, []*form{&granite}, true},
	{"functionary-v3.1", []string{"<function="}, []*form{&functionary31}, false},
	{"firefunction", []string{"functools["}, []*form{&firefunction}, false},
	{"llama-pythonic", []string{"func_name1("}, []*form{&pythonic, &llamaBare, &llamaList, &llamaTagged, &llamaFunction}, false},
	{"llama-3", []string{"<|python_tag|>"}, []*form{&llamaBare, &llamaList, &llamaTagged, &llamaFunction}, false},
	{"llama-3", []string{"ipython", `"parameters"`}, []*form{&llamaBare, &llamaList, &llamaTagged, &llamaFunction}, false},
}

// FormatOf returns the format of a chat template's source. tools and calls say whether the template shows definitions
// and calls of tools. Without tools, models are told the generic form, but may write their own; without calls, they see
// the generic form in the conversation.
func FormatOf(source string, tools, calls bool) *Format {
	f := &Format{name: "generic"}
	if strings.Contains(source, "<|channel|>") && strings.Contains(source, "<|message|>") {
		return &Format{name: "harmony", channels: &harmony}
	}
	if strings.Contains(source, atem.open) && strings.Contains(source, museEnd) {
		return &Format{name: "muse", channels: &muse}
	}
	for _, s := range signs {
		if !slices.ContainsFunc(s.signs, func(sign string) bool { return !strings.Contains(source, sign) }) {
			f.name, f.forms, f.control = s.name, s.forms, s.control
			break
		}
	}
	switch {
	case !tools || len(f.forms) == 0:
		f.forms = append([]*form{&generic}, append(slices.Clone(f.forms), &genericBare, &genericList)...)
	case !calls:
		f.forms = append(slices.Clone(f.forms), &generic, &genericBare, &genericList)
	}
	f.thoughts = slices.Clone(commonThoughts)
	f.thinks = strings.Contains(source, commonThoughts[0].open) || strings.Contains(source, commonThoughts[0].close)
	for _, t := range otherThoughts {
		shown := strings.Contains(source, t.open) || strings.Contains(source, t.close)
		if t.sign != "" {
			shown = strings.Contains(source, t.sign)
		}
		if shown {
			f.thoughts = append([]thought{t}, f.thoughts...)
			f.thinks = true
		}
	}
	for _, w := range wrappings {
		if strings.Contains(source, w.sign) {
			f.wraps = append(f.wraps, w)
			f.drop = append(f.drop, w.open, w.close)
			if strings.Contains(source, w.speaker) {
				f.speaker = w.speaker
			}
			if w.end != "" {
				f.drop = append(f.drop, w.end)
			}
		}
	}
	return f
}

// Thought returns the markers around the thoughts at the beginning of an answer to prompt, and whether the prompt ends
// within one. Both are empty if the model was not trained to think.
func (f *Format) Thought(prompt string) (begin, end string, inside bool) {
	if f.channels != nil {
		thought, inside := f.channels.body(prompt)
		return f.channels.opening(), f.channels.end, inside && thought
	}
	if t := f.opened(prompt); t != nil {
		return t.open, t.close, true
	}
	if !f.thinks {
		return "", "", false
	}
	return f.thoughts[0].open, f.thoughts[0].close, false
}

// opened returns the thought that a prompt ends in, nil if it ends in none.
func (f *Format) opened(prompt string) *thought {
	prompt = strings.TrimRight(prompt, " \t\r\n")
	for i := range f.thoughts {
		if strings.HasSuffix(prompt, f.thoughts[i].open) {
			return &f.thoughts[i]
		}
	}
	return nil
}

// closed reports whether a prompt ends with the end of a thought, as when the model should not think.
func (f *Format) closed(prompt string) bool {
	prompt = strings.TrimRight(prompt, " \t\r\n")
	return slices.ContainsFunc(f.thoughts, func(t thought) bool { return strings.HasSuffix(prompt, t.close) })
}

// Closing returns the marker that ends the thought at the end of a prompt, or nothing if there is none.
func (f *Format) Closing(prompt string) string {
	if t := f.opened(prompt); t != nil {
		return t.close
	}
	return ""
}

// Place says where in an answer a prompt ends: it is the same for prompts with the same possible continuations.
func (f *Format) Place(prompt string) string {
	_, _, inside := f.Thought(prompt)
	thought, body := false, false
	if f.channels != nil {
		thought, body = f.channels.body(prompt)
	}
	return fmt.Sprint(inside, f.Closing(prompt), f.closed(prompt), f.primed(prompt) != nil, body, thought)
}

// primed returns the form with its opening at the end of a prompt, nil if there is none.
func (f *Format) primed(prompt string) *form {
	for _, k := range f.forms {
		if k.aside != "" && strings.HasSuffix(prompt, k.open) {
			return k
		}
	}
	return nil
}
