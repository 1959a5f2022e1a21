package answer

import (
	"encoding/json"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// TestTextsBeginAfterThoughts: thoughts are free, and the text after them follows the schema or the grammar. Each
// answer is allowed byte by byte, and none may end before its last one.
func TestTextsBeginAfterThoughts(t *testing.T) {
	number := grammar.Text{Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)}
	lines := grammar.Text{GBNF: "root ::= line\nline ::= \"{\\\"n\\\": 4}\""}
	for _, k := range []struct {
		format, prompt, text string
		thought              string
	}{
		{"hermes", "", `{"n": 4}`, ""},
		{"hermes<think>", "", "<think>\nI say {\"m\": 1}.\n</think>\n\n{\"n\": 4}", `I say {"m": 1}.`},
		{"hermes<think>", "", `{"n": 4}`, ""},
		{"hermes<think>", "<think>\n", "Hm.\n</think>\n\n{\"n\": 4}", "Hm."},
		{"hermes<think>", "<think>\n\n</think>\n\n", `{"n": 4}`, ""},
		{"coder<think>", "<think>\n", "<tool_call> is a tag</think>{\"n\": 4}", "<tool_call> is a tag"},
		{"seed", "", "<seed:think>Hm.</seed:think>{\"n\": 4}", "Hm."},
		{"glm<think>", "", "\n<think>Hm.</think>\n{\"n\": 4}", "Hm."},
		{"r1<think>", "<think>\n", "Hm.\n</think>\n\n{\"n\": 4}", "Hm."},
		{"kimi<think>", "", "<think>Hm.</think>{\"n\": 4}", "Hm."},
		{"apriel", "Here are my reasoning steps:\n", "Hm.\n[BEGIN FINAL RESPONSE]\n{\"n\": 4}", "Hm."},
		{"mistral", "", "[THINK]Hm.[/THINK]{\"n\": 4}", "Hm."},
		{"command-r<|START_RESPONSE|>", "", "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>{\"n\": 4}<|END_RESPONSE|>", "Hm."},
		{"granite<think><response></response>", "", "<think>Hm.</think><response>{\"n\": 4}</response>", "Hm."},
		{"functionary2", ">>>", "all\n{\"n\": 4}", ""},
		{"gemma", "", "<|channel>thought\nHm.\n<channel|>{\"n\": 4}", "Hm."},
		{"gemma", "<|channel>thought\n<channel|>", "{\"n\": 4}", ""},
		{"k3", "<|open|>think<|sep|>", "Hm.<|close|>think<|sep|><|open|>response<|sep|>{\"n\": 4}<|close|>response<|sep|><|close|>message<|sep|>", "Hm."},
		{"k3", "<|open|>response<|sep|>", "{\"n\": 4}", ""},
		{"minicpm5<think>", "<think>\n", "Hm.\n</think>\n\n{\"n\": 4}", "Hm."},
		{"solar", "<|begin|>assistant", "<|think|>Hm.<|end|><|begin|>assistant<|content|>{\"n\": 4}<|end|>", "Hm."},
		{"solar", "<|begin|>assistant<|think|><|end|><|begin|>assistant", "<|content|>{\"n\": 4}", ""},
		{"hy3", "<think:opensource></think:opensource>", "{\"n\": 4}", ""},
		{"hy3", "<think:opensource>", "Hm.</think:opensource>{\"n\": 4}", "Hm."},
		{"apertus", "", "<|inner_prefix|>Hm.<|inner_suffix|>{\"n\": 4}", "Hm."},
		{"m3", "", "<mm:think>Hm.</mm:think>{\"n\": 4}", "Hm."},
		{"muse", "<|start|>assistant", " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>{\"n\": 4}", "Hm."},
		{"muse", "<|start|>assistant", "<|message|>{\"n\": 4}", ""},
		{"muse", "<|start|>assistant to=user<|message|>", "{\"n\": 4}", ""},
		{"hunyuan<think>", "", "<think>Hm.</think><answer>{\"n\": 4}</answer>", "Hm."},
		{"llama", "", `{"n": 4}`, ""},
		{"generic", "", `{"n": 4}`, ""},
		{"harmony", "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{\"n\": 4}", "Hm."},
		{"harmony", "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{\"n\": 4}", "Hm.So."},
		{"harmony", "<|start|>assistant", "<|channel|>final<|message|>{\"n\": 4}", ""},
		{"harmony", "<|start|>assistant<|channel|>analysis<|message|>I", " see.<|end|><|start|>assistant<|channel|>final<|message|>{\"n\": 4}", " see."},
		{"harmony", "<|start|>assistant<|channel|>final<|message|>", "{\"n\": 4}", ""},
	} {
		source := k.format
		for name, text := range sources {
			if len(k.format) >= len(name) && k.format[:len(name)] == name && (len(k.format) == len(name) || k.format[len(name)] == '<') {
				source = text + k.format[len(name):]
			}
		}
		f := FormatOf(source, k.format != "generic", true)
		for _, form := range []grammar.Text{number, lines} {
			for _, special := range [][]string{nil, append(controls, "<think>", "</think>", "<|end|>")} {
				v, texts := vocabulary(t, special)
				s := compile(t, constraint(t, f, ConstraintOptions{Text: form, Prompt: k.prompt}), v)
				for i, id := range tokens(texts, k.text) {
					if s.CanEnd() && texts[id] != "<|END_RESPONSE|>" && k.text[len(k.text)-1] == '}' {
						t.Errorf("%s: %q may end after %d tokens", k.format, k.text, i)
					}
					if err := s.Accept(id); err != nil {
						t.Errorf("%s: %q: %v", k.format, k.text, err)
						break
					}
				}
				if !s.CanEnd() {
					t.Errorf("%s: %q may not end", k.format, k.text)
				}
			}
		}
		m, _ := parse(f, Options{Prompt: k.prompt}, k.text)
		if m.Content != `{"n": 4}` || m.Reasoning != k.thought {
			t.Errorf("%s: %q is read as %+v", k.format, k.text, m)
		}
	}
}

// TestTextsAreHeld: after a thought only texts of the form are allowed. A thought is not allowed if none is wanted.
func TestTextsAreHeld(t *testing.T) {
	yes := grammar.Text{GBNF: `root ::= "yes"`}
	v, texts := vocabulary(t, nil)
	for _, k := range []struct {
		source, prompt, text string
		plain                bool
		form                 grammar.Text
		ok                   bool
	}{
		{"<tool_call><think>", "", "<think>no</think>yes", false, yes, true},
		{"<tool_call><think>", "", "<think>no</think>no", false, yes, false},
		{"<tool_call><think>", "", "<think>no</think>yes", true, yes, false},
		{"<tool_call><think>", "</think>\n\n", "<think>", false, yes, false},
		{"<tool_call>", "", "<think>", false, yes, false},
		{"", "", "yes", false, yes, true},
		{sources["harmony"], "", "<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>no", false, yes, false},
		{sources["harmony"], "", "<|channel|>commentary<|message|>", false, yes, false},
		{sources["harmony"], "", "<|channel|>analysis<|message|>", true, yes, false},
		// a grammar that writes the markers itself holds from the beginning
		{"<tool_call><think>", "", "<think>no</think>yes", false, grammar.Text{GBNF: `root ::= "<think>hm</think>yes"`}, false},
		{"<tool_call><think>", "", "<think>hm</think>yes", false, grammar.Text{GBNF: `root ::= "<think>hm</think>yes"`}, true},
		{"<tool_call><think>", "<think>", "no</think>yes", false, grammar.Text{GBNF: `root ::= "hm</think>yes"`}, false},
	} {
		s := compile(t, constraint(t, FormatOf(k.source, true, true), ConstraintOptions{Text: k.form, Prompt: k.prompt, Plain: k.plain}), v)
		var err error
		for _, id := range tokens(texts, k.text) {
			if err = s.Accept(id); err != nil {
				break
			}
		}
		if (err == nil) != k.ok {
			t.Errorf("%q after %q, without thoughts %v: %v", k.text, k.prompt, k.plain, err)
		}
	}
}
