package answer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// published maps published templates to their formats. The test lists those without an entry.
var published = map[string]string{
	"Apriel-1.6-15b-Thinker-fixed":                  "apriel",
	"Bielik-11B-v3.0-Instruct":                      "hermes",
	"ByteDance-Seed-OSS":                            "seed-oss",
	"Cohere2MoE":                                    "command-r7b",
	"CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r7b",
	"GLM-4.6":                             "glm",
	"GLM-4.7-Flash":                       "glm",
	"Kimi-K2-Thinking":                    "kimi-k2",
	"MiMo-VL":                             "hermes",
	"Mistral-Small-3.2-24B-Instruct-2506": "mistral",
	"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen3-coder",
	"NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
	"Qwen-QwQ-32B":             "hermes",
	"Qwen-Qwen2.5-7B-Instruct": "hermes",
	"Qwen-Qwen3-0.6B":          "hermes",
	"Qwen3-Coder":              "qwen3-coder",
	"Qwen3.5-4B":               "qwen3-coder",
	"Reka-Edge":                "hermes",
	"chatml":                   "generic",
	"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek-r1",
	"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek-r1",
	"deepseek-ai-DeepSeek-V3.1":                "deepseek-v3.1",
	"deepseek-ai-DeepSeek-V3.2":                "deepseek-v3.2",
	"deepseek-ai-DeepSeek-V4":                  "deepseek-v4",
	"fireworks-ai-llama-3-firefunction-v2":     "firefunction",
	"google-gemma-2-2b-it":                     "generic",
	"ibm-granite-granite-3.3-2B-Instruct":      "granite",
	"llama-cpp-deepseek-r1":                    "deepseek-r1",
	"meetkai-functionary-medium-v3.1":          "functionary-v3.1",
	"meetkai-functionary-medium-v3.2":          "functionary-v3.2",
	"meta-llama-Llama-3.1-8B-Instruct":         "llama-3",
	"meta-llama-Llama-3.2-3B-Instruct":         "llama-3",
	"mistralai-Ministral-3-14B-Reasoning-2512": "mistral",
	"mistralai-Mistral-Nemo-Instruct-2407":     "mistral-list",
	"moonshotai-Kimi-K2":                       "kimi-k2",
	"openai-gpt-oss-120b":                      "harmony",
	"unsloth-Apriel-1.5":                       "apriel",
	"unsloth-mistral-Devstral-Small-2507":      "mistral",
}

var weather = json.RawMessage(`{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":{"type":"object",` +
	`"properties":{"city":{"type":"string","description":"City"},"days":{"type":"integer"},"options":{"type":"object"}},"required":["city"]}}}`)

// ends lists what templates write after an answer.
var ends = []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<seed:eos>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>", "<sep>", "<|end_of_text|>", "<end_of_turn>", "<|end|>"}

// told maps templates that show calls in another form than that of required calls to the form that the model sees
// first.
var told = []string{
	"Kimi-K2-Thinking", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai-DeepSeek-V3.1", "deepseek-ai-DeepSeek-V3.2", "ibm-granite-granite-3.3-2B-Instruct",
	"llama-cpp-deepseek-r1",
}

// TestPublishedTemplates renders a call with each published template, cuts out what the model would have written, and
// reads it.
func TestPublishedTemplates(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(testenv.Shared(t, "chat-templates"), "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := answer.Tools([]json.RawMessage{weather})
	if err != nil {
		t.Fatal(err)
	}
	arguments := `{"city": "São Paulo \"x\"", "days": 3, "options": {"a": [1, "b"]}}`
	called := 0
	for _, path := range names {
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := chat.Parse(string(source), "<s>", "</s>")
		if err != nil {
			t.Fatal(err)
		}
		f := answer.FormatOf(tmpl.Source(), tmpl.Can(true).Tools, tmpl.Can(true).ToolCalls)
		if f.Name() != published[name] {
			t.Errorf("%s: the format is %s, want %s", name, f.Name(), published[name])
		}
		user := chat.Message{Role: "user", Content: "Weather?"}
		reply := chat.Message{Role: "assistant", Reasoning: "I think.", ToolCalls: []chat.ToolCall{{ID: "abcdef123", Name: "get_weather", Arguments: json.RawMessage(arguments)}}}
		q := chat.Request{Messages: []chat.Message{user}, Tools: []chat.Tool{weather}, AddGenerationPrompt: true}
		prompt, err := tmpl.Render(q)
		if err != nil {
			continue // Firefunction needs its own variables
		}
		q.AddGenerationPrompt = false
		q.Messages = append(q.Messages, reply)
		whole, err := tmpl.Render(q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		common := len(prompt)
		for !strings.HasPrefix(whole, prompt[:common]) { // thoughts that the prompt opens or leaves out
			common--
		}
		if i := strings.LastIndexByte(prompt[:common], '<'); !strings.Contains(prompt[i:common], ">") {
			common = i
		}
		text := whole[common:]
		if !strings.Contains(text, "[BEGIN FINAL RESPONSE]") { // the thought before it has no marker but in the prompt
			prompt = prompt[:common]
		}
		for _, end := range ends {
			if i := strings.Index(text, end); i >= 0 && f.Name() != "harmony" {
				text = text[:i]
			}
		}
		for _, required := range []bool{false, true} {
			if required && slices.Contains(told, name) || strings.Contains(text, `"tool_calls"`) {
				continue // the other form; calls with ids, as conversations are adapted
			}
			if err := allowed(t, f, answer.ConstraintOptions{Tools: tools, Prompt: prompt, Required: required, Parallel: true}, text); err != nil {
				t.Errorf("%s, required %v: %q: %v", name, required, text, err)
			}
		}
		p := f.NewParser(answer.Options{Tools: tools, Prompt: prompt})
		var m answer.Message
		m.Add(p.Feed(text)...)
		m.Add(p.Finish()...)
		called++
		if len(m.Calls) != 1 || m.Calls[0].Name != "get_weather" || !same(t, m.Calls[0].Arguments, arguments) {
			t.Errorf("%s: %q gives %+v and %q", name, text, m.Calls, m.Content)
		}
		if m.Content != "" || m.Reasoning != "" && m.Reasoning != "I think." || m.Reasoning == "" && strings.Contains(text, "I think.") {
			t.Errorf("%s: %q gives the content %q and the thought %q", name, text, m.Content, m.Reasoning)
		}
	}
	if called < 30 {
		t.Errorf("only %d templates showed a call", called)
	}
}

// same reports whether two JSON texts mean the same.
func same(t *testing.T, a json.RawMessage, b string) bool {
	var x, y any
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return json.Unmarshal(a, &x) == nil && reflect.DeepEqual(x, y)
}

// allowed returns an error unless a constraint allows a text, byte for byte, and that it ends.
func allowed(t *testing.T, f *answer.Format, o answer.ConstraintOptions, text string) error {
	t.Helper()
	c, err := f.Constraint(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	bytes := make([][]byte, 257)
	for b := range 256 {
		bytes[b] = []byte{byte(b)}
	}
	v, err := grammar.NewVocabulary(bytes, []int32{256}, nil)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Grammar.Compile(v)
	if err != nil {
		t.Fatal(err)
	}
	s := c.NewState(t.Context(), compiled)
	for i := range len(text) {
		if err := s.Accept(int32(text[i])); err != nil {
			return fmt.Errorf("after %q: %w", text[:i], err)
		}
	}
	if !s.CanEnd() {
		return errors.New("it may not end")
	}
	return nil
}
