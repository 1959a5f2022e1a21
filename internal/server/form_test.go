package server_test

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// thinker is a template with prompts that open a thought unless none is wanted, and that show how it was called.
const thinker = `{% for m in messages %}<|im_start|>{{ m.role }}` + "\n" + `{{ m.content }}<|im_end|>` + "\n" + `{% endfor %}<|im_start|>assistant` + "\n" +
	`{% if enable_thinking %}<think>` + "\n" + `{% else %}<think>` + "\n\n" + `</think>` + "\n\n" + `{% endif %}`

// TestFormsBeginAfterThoughts: in every API the model thinks, and the schema applies to the text after that.
func TestFormsBeginAfterThoughts(t *testing.T) {
	template, err := chat.Parse(thinker, "", "<|im_end|>")
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, func(o *choices) { o.model.Template = template })
	const (
		schema   = `{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"],"additionalProperties":false}`
		messages = `"messages":[{"role":"user","content":"How many?"}]`
		openai   = "/v1/chat/completions"
	)
	message := []any{"choices", 0, "message"}
	for _, k := range []struct {
		path, body       string
		content, thought []any
	}{
		{openai, `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema + `}}`, append(message, "content"), append(message, "reasoning_content")},
		{openai, `"json_schema":` + schema, append(message, "content"), append(message, "reasoning_content")},
		{openai, `"grammar":"root ::= \"{\\\"n\\\": \" [0-9] \"}\""`, append(message, "content"), append(message, "reasoning_content")},
		{openai, `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema + `}},` + tools, append(message, "content"), append(message, "reasoning_content")},
		{"/v1/responses", `"input":"How many?","text":{"format":{"type":"json_schema","name":"n","schema":` + schema + `}}`, []any{"output", 1, "content", 0, "text"}, []any{"output", 0, "content", 0, "text"}},
		{"/v1/messages", `"max_tokens":400,"thinking":{"type":"enabled","budget_tokens":200},"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`, []any{"content", 1, "text"}, []any{"content", 0, "thinking"}},
		{"/v1/messages", `"max_tokens":400,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`, []any{"content", 1, "text"}, []any{"content", 0, "thinking"}},
		{"/api/chat", `"model":"tales","stream":false,"think":true,"format":` + schema, []any{"message", "content"}, []any{"message", "thinking"}},
		{"/api/generate", `"model":"tales","prompt":"How many?","stream":false,"format":` + schema, []any{"response"}, []any{"thinking"}},
	} {
		body := "{" + k.body + "}"
		if !strings.Contains(k.body, `"input"`) && !strings.Contains(k.body, `"prompt"`) {
			body = "{" + messages + "," + k.body + "}"
		}
		l.says.text("I count {\"m\": them}.\n</think>\n\n{\"n\": 4}")
		doc := l.good(k.path, body)
		if at(t, doc, k.content...) != `{"n": 4}` || at(t, doc, k.thought...) != `I count {"m": them}.` {
			t.Errorf("%s: %s:\n%v", k.path, body, doc)
		}
	}
	with := func(more string) string {
		return "{" + messages + `,"json_schema":` + schema + "," + more + "}"
	}
	// cut off within the thought
	l.says.text("I count and count and count.")
	doc := l.good(openai, with(`"max_tokens":3`))
	if c, _ := at(t, doc, append(message, "content")...).(string); c != "" || at(t, doc, "choices", 0, "finish_reason") != "length" {
		t.Errorf("a thought that was cut off: %v", doc)
	}
	// no thought is wanted
	l.says.text(`{"n": 4}`)
	for _, none := range []string{`"chat_template_kwargs":{"enable_thinking":false}`, `"reasoning_effort":"none"`} {
		if doc = l.good(openai, with(none)); at(t, doc, append(message, "content")...) != `{"n": 4}` {
			t.Errorf("%s: %v", none, doc)
		}
	}
	// without a script, the schema applies to the model after a thought that is long enough
	l.says.answer(nil)
	doc = l.good(openai, with(`"max_tokens":200,"reasoning_budget_tokens":5`))
	content, _ := at(t, doc, append(message, "content")...).(string)
	if len(content) < 6 || content[:4] != `{"n"` || content[len(content)-1] != '}' || at(t, doc, append(message, "reasoning_content")...) == nil {
		t.Errorf("after a short thought: %v", doc)
	}
}

// TestLazyGrammars: a lazy grammar begins at its trigger, also in a chat.
func TestLazyGrammars(t *testing.T) {
	l := start(t, nil)
	l.says.text("Well <n>4")
	const lazy = `"grammar":"root ::= \"<n>\" [0-9]","grammar_lazy":true`
	for _, path := range []string{"/v1/chat/completions", "/completion"} {
		fields := `{"prompt":"A","messages":[{"role":"user","content":"Hi"}],` + lazy
		if path == "/completion" {
			fields = `{"prompt":"A",` + lazy
		} else {
			fields = `{"messages":[{"role":"user","content":"Hi"}],` + lazy
		}
		l.good(path, fields+`,"grammar_triggers":[{"type":1,"value":"<n>"}],"preserved_tokens":["<n>"]}`)
		for _, wrong := range []string{"", `,"grammar_triggers":[{"type":2,"value":"<n>"}]`} {
			if doc, status := l.ask(path, fields+wrong+"}"); status != 400 || !strings.Contains(at(t, doc, "error", "message").(string), "grammar_triggers") {
				t.Errorf("%s: %v", wrong, doc)
			}
		}
	}
	l.says.text("Well <n>x")
	if doc := l.good("/completion", `{"prompt":"A",`+lazy+`,"grammar_triggers":[{"type":1,"value":"<n>"}]}`); at(t, doc, "content") == "Well <n>x" {
		t.Errorf("the grammar did not begin: %v", doc)
	}
}
