package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

var weather = []Tool{Tool(`{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":` +
	`{"type":"object","properties":{"city":{"type":"string","description":"City name"}},"required":["city"]}}}`)}

func withCall() []Message {
	return []Message{
		{Role: "system", Content: "Be brief."},
		{Role: "user", Content: "Weather in Paris?"},
		{Role: "assistant", ToolCalls: []ToolCall{{"abcdef123", "get_weather", json.RawMessage(`{"city": "Paris"}`)}}},
		{Role: "tool", Name: "get_weather", ToolCallID: "abcdef123", Content: "21 degrees"},
	}
}

func published(t *testing.T, name string) *Template {
	t.Helper()
	source, err := os.ReadFile(testenv.Shared(t, filepath.Join("chat-templates", name+".jinja")))
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := Parse(string(source), "<s>", "</s>")
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// TestNothingIsLost holds that every published template, with our workarounds, shows the system message, the tools, the
// call and its result.
func TestNothingIsLost(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(testenv.Shared(t, "chat-templates"), "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".jinja")
		q := Request{Messages: withCall(), Tools: weather, AddGenerationPrompt: true}
		tmpl := published(t, name)
		out, err := tmpl.Render(q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range []string{"Be brief.", "Weather in Paris?", "get_weather", "City name", `Paris`, "21 degrees"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s (%+v): %q is not in %q", name, tmpl.can, want, out)
			}
		}
	}
}

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		name string
		want Capabilities
	}{
		{"chatml", Capabilities{System: true, ContentString: true, ToolResults: true}},
		{"google-gemma-2-2b-it", Capabilities{ContentString: true}},
		{"Qwen-Qwen3-0.6B", Capabilities{System: true, Tools: true, ToolCalls: true, ToolResults: true, Reasoning: true, Thinking: true, ContentString: true}},
		{"meta-llama-Llama-3.1-8B-Instruct", Capabilities{System: true, Tools: true, ToolCalls: true, ToolResults: true, ContentString: true}},
		{"GLM-4.6", Capabilities{System: true, Tools: true, ToolCalls: true, ToolResults: true, Reasoning: true, Thinking: true, ContentString: true, ContentParts: true}},
		{"openai-gpt-oss-120b", Capabilities{System: true, Tools: true, ToolCalls: true, ToolResults: true, Reasoning: true, ContentString: true}},
	} {
		got := published(t, c.name).Can(true)
		got.reasoningFields, got.developer, got.stringArguments = nil, false, false
		if got.System != c.want.System || got.Tools != c.want.Tools || got.ToolCalls != c.want.ToolCalls || got.ToolResults != c.want.ToolResults ||
			got.Reasoning != c.want.Reasoning || got.Thinking != c.want.Thinking || got.ContentString != c.want.ContentString || got.ContentParts != c.want.ContentParts {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSystemGoesToTheUserWhereThereIsNoRole(t *testing.T) {
	out, err := published(t, "google-gemma-2-2b-it").Render(Request{
		Messages: []Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"}}, AddGenerationPrompt: true,
	})
	want := "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
	if err != nil || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestTurnsAreMergedWhereTheyMustAlternate(t *testing.T) {
	out, err := published(t, "google-gemma-2-2b-it").Render(Request{Messages: []Message{{Role: "user", Content: "a"}, {Role: "user", Content: "b"}}})
	if want := "<s><start_of_turn>user\na\n\nb<end_of_turn>\n"; err != nil || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestContinueFinalMessage(t *testing.T) {
	q := Request{Messages: []Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Once upon"}}, ContinueFinalMessage: true}
	out, err := published(t, "chatml").Render(q)
	if want := "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nOnce upon"; err != nil || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	q.Messages[1].Content = ""
	if _, err := published(t, "chatml").Render(q); err == nil {
		t.Error("an empty message was continued")
	}
}

// TestBuiltins compares built-in formats with llama.cpp's. testdata/builtin.json was written by a program that calls
// llama.cpp's function llm_chat_apply_template, of the version in the file, for each of its names and these
// conversations of ours.
func TestBuiltins(t *testing.T) {
	conversations := map[string]Request{
		"conversation": {AddGenerationPrompt: true, Messages: []Message{
			{Role: "system", Content: " Answer in\n one line.\n"},
			{Role: "user", Content: "\tName a river. "},
			{Role: "assistant", Content: " The Elbe.\n"},
			{Role: "user", Content: " And a hill?\n\n"},
		}},
		"question": {AddGenerationPrompt: true, Messages: []Message{{Role: "user", Content: "Name a river."}}},
		"answered": {Messages: []Message{{Role: "user", Content: "1?"}, {Role: "assistant", Content: "1."}, {Role: "user", Content: "2?"}, {Role: "assistant", Content: "2."}}},
	}
	text, err := os.ReadFile("testdata/builtin.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	delete(want, "") // the origin
	// gpt-oss as published: see TestPublishedBuiltins.
	want["gpt-oss"] = map[string]string{
		"conversation": "<|start|>system<|message|> Answer in\n one line.\n<|end|><|start|>user<|message|>\tName a river. <|end|><|start|>assistant<|channel|>final<|message|> The Elbe.\n<|end|><|start|>user<|message|> And a hill?\n\n<|end|><|start|>assistant",
		"question":     "<|start|>user<|message|>Name a river.<|end|><|start|>assistant",
		"answered":     "<|start|>user<|message|>1?<|end|><|start|>assistant<|channel|>final<|message|>1.<|end|><|start|>user<|message|>2?<|end|><|start|>assistant<|channel|>final<|message|>2.<|end|>",
	}
	// llama.cpp drops the system message there.
	want["yandex"]["conversation"] = strings.Replace(want["yandex"]["conversation"], ": ", ":  Answer in\n one line.\n\n\n", 1)
	for name, texts := range want {
		tmpl, err := Named(name, &gguf.File{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for which, w := range texts {
			if got, err := tmpl.Render(conversations[which]); err != nil || got != w {
				t.Errorf("%s, %s: got %q, %v, want %q", name, which, got, err, w)
			}
		}
	}
	if names := Builtins(); len(names) != len(want) {
		t.Errorf("there are %d formats, want %d: %v", len(names), len(want), names)
	}
}

// TestPublishedBuiltins compares built-in formats with their models' published templates, from the first question on:
// before it there may be a date or the publisher's instruction.
func TestPublishedBuiltins(t *testing.T) {
	q := Request{AddGenerationPrompt: true, Messages: []Message{{Role: "user", Content: "Name a river."}, {Role: "assistant", Content: "The Elbe."}, {Role: "user", Content: "And a hill?"}}}
	rest := func(tmpl *Template) string {
		text, err := tmpl.Render(q)
		if err != nil {
			t.Fatal(err)
		}
		_, after, ok := strings.Cut(text, "Name a river.")
		if !ok {
			t.Fatalf("no question in %q", text)
		}
		return after
	}
	for name, file := range map[string]string{
		"chatml":            "Qwen-Qwen2.5-7B-Instruct",
		"gemma":             "google-gemma-2-2b-it",
		"gpt-oss":           "openai-gpt-oss-120b",
		"granite":           "ibm-granite-granite-3.3-2B-Instruct",
		"kimi-k2":           "moonshotai-Kimi-K2",
		"llama3":            "meta-llama-Llama-3.1-8B-Instruct",
		"mistral-v3-tekken": "mistralai-Mistral-Nemo-Instruct-2407",
		"mistral-v7-tekken": "Mistral-Small-3.2-24B-Instruct-2506",
		"seed_oss":          "ByteDance-Seed-OSS",
	} {
		f, err := Named(name, &gguf.File{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := rest(f), rest(published(t, file)); got != want {
			t.Errorf("%s: got %q, %s has %q", name, got, file, want)
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := FromGGUF(&gguf.File{}, ""); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("got %v, want ErrNoTemplate", err)
	}
	if _, err := Named("nope", &gguf.File{}); err == nil || !strings.Contains(err.Error(), "chatml") {
		t.Errorf("an unknown name gives %v", err)
	}
	if _, err := Parse("{% if %}", "", ""); !errors.Is(err, jinja.ErrSyntax) {
		t.Errorf("got %v, want a syntax error", err)
	}
	tmpl, err := Parse("{{ messages[0].content }}{{ missing.x }}", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(Request{Messages: []Message{{Role: "user", Content: "x"}}}); !errors.Is(err, jinja.ErrUndefined) ||
		!strings.Contains(err.Error(), "line 1, column 37") {
		t.Errorf("got %v", err)
	}
}

// llamaTemplates are llama.cpp's names of chat templates: LLM_CHAT_TEMPLATES in src/llama-chat.cpp at 3f545becc.
const llamaTemplates = `
bailing bailing-think bailing2 chatglm3 chatglm4 chatml command-r deepseek deepseek-ocr deepseek2 deepseek3 exaone-moe exaone3 exaone4
falcon3 gemma gigachat glmedge gpt-oss granite granite-4.0 granite-4.1 grok-2 hunyuan-dense hunyuan-moe hunyuan-vl kimi-k2 llama2 llama2-sys
llama2-sys-bos llama2-sys-strip llama3 llama4 megrez minicpm mistral-v1 mistral-v3 mistral-v3-tekken mistral-v7 mistral-v7-tekken monarch
openchat orion pangu-embedded phi3 phi4 rwkv-world seed_oss smolvlm solar-open vicuna vicuna-orca yandex zephyr`

// TestLlamaTemplates: every name that llama.cpp knows is known.
func TestLlamaTemplates(t *testing.T) {
	for _, name := range strings.Fields(llamaTemplates) {
		if _, err := Named(name, &gguf.File{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
