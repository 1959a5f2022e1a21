package powerinfer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
)

// TestChat: an answer's parts add up to the answer, which is the model's text after the conversation's prompt.
func TestChat(t *testing.T) {
	m := open(t, powerinfer.Options{})
	c := powerinfer.Conversation{Template: "chatml", Messages: []powerinfer.Message{
		{Role: powerinfer.RoleSystem, Content: "You tell tales."},
		{Role: powerinfer.RoleUser, Content: "Tell me of a king."},
	}}
	prompt, err := m.Prompt(c)
	if err != nil || prompt != "<|im_start|>system\nYou tell tales.<|im_end|>\n<|im_start|>user\nTell me of a king.<|im_end|>\n<|im_start|>assistant\n" {
		t.Fatalf("%q %v", prompt, err)
	}
	g := powerinfer.Generation{Max: 20, Sampling: greedy(), Reproducible: true}
	var got strings.Builder
	var last powerinfer.Answer
	for part, err := range m.Chat(t.Context(), c, g) {
		if err != nil {
			t.Fatal(err)
		}
		switch p := part.(type) {
		case powerinfer.Text:
			got.WriteString(string(p))
		case powerinfer.Answer:
			last = p
		}
	}
	want := ""
	s, err := m.Start(t.Context(), m.TokenizeTemplate(prompt), g)
	if err != nil {
		t.Fatal(err)
	}
	for token := range s.Tokens() {
		want += token.Text
	}
	if got.String() != last.Content || strings.TrimSpace(got.String()) != strings.TrimSpace(want) || last.Role != powerinfer.RoleAssistant || last.Result.Tokens != 20 || last.Result.Stopped != powerinfer.StoppedMax {
		t.Errorf("%q, %+v; generated alone: %q", got.String(), last, want)
	}
	for range m.Chat(t.Context(), c, powerinfer.Generation{}) {
		break // it ends the generation
	}
	c.Messages = append(c.Messages, powerinfer.Message{Role: powerinfer.RoleAssistant, Content: "Once upon a"})
	if prompt, err := m.Prompt(c); err != nil || !strings.HasSuffix(prompt, "<|im_start|>assistant\nOnce upon a") {
		t.Errorf("an answer that goes on: %q %v", prompt, err)
	}
}

// TestChatTools: a required call fits its tool's schema, and the template shows the call and its result in the form
// that the model was told.
func TestChatTools(t *testing.T) {
	m := open(t, powerinfer.Options{Limits: powerinfer.Limits{Context: 2048}})
	c := powerinfer.Conversation{
		Template: hermes, ToolChoice: powerinfer.ToolRequired, OneCall: true,
		Messages: []powerinfer.Message{{Role: powerinfer.RoleUser, Content: "What is the weather?"}},
		Tools: []powerinfer.Tool{
			{Name: "weather", Description: "Tells the weather.", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false}`)},
			{Name: "now"},
		},
	}
	if prompt, err := m.Prompt(c); err != nil || !strings.Contains(prompt, "Tells the weather.") {
		t.Errorf("%q %v", prompt, err)
	}
	c.ToolChoice = "weather"
	a, err := m.Answer(t.Context(), c, powerinfer.Generation{Max: 200, Sampling: greedy()})
	if err != nil || len(a.Calls) != 1 || a.Calls[0].Name != "weather" {
		t.Fatalf("%+v %v", a, err)
	}
	var arguments struct{ City string }
	if err := json.Unmarshal(a.Calls[0].Arguments, &arguments); err != nil || arguments.City != "Rome" && arguments.City != "Oslo" {
		t.Errorf("%s %v", a.Calls[0].Arguments, err)
	}
	c.Messages = append(c.Messages, a.Message, powerinfer.Message{Role: powerinfer.RoleTool, CallID: a.Calls[0].ID, Content: "sunny 21"})
	c.ToolChoice = powerinfer.ToolNone
	if prompt, err := m.Prompt(c); err != nil || !strings.Contains(prompt, "sunny 21") || !strings.Contains(prompt, arguments.City) {
		t.Errorf("%q %v", prompt, err)
	}
	a, err = m.Answer(t.Context(), c, powerinfer.Generation{Max: 5})
	if err != nil || len(a.Calls) != 0 {
		t.Errorf("%+v %v", a, err)
	}
}

// TestChatSchema: a schema constrains an answer's content.
func TestChatSchema(t *testing.T) {
	m := open(t, powerinfer.Options{})
	c := powerinfer.Conversation{Template: "chatml", NoThoughts: true, Messages: []powerinfer.Message{{Role: powerinfer.RoleUser, Content: "Was the wolf good?"}}}
	a, err := m.Answer(t.Context(), c, powerinfer.Generation{Schema: `{"enum":["yes","no"]}`})
	if err != nil || a.Content != `"yes"` && a.Content != `"no"` {
		t.Errorf("%+v %v", a, err)
	}
}

// TestChatAdapted: messages that a template refuses are adapted, and Options.Notice is told once.
func TestChatAdapted(t *testing.T) {
	var notes []string
	m := open(t, powerinfer.Options{Notice: func(line string) { notes = append(notes, line) }})
	notes = nil
	c := powerinfer.Conversation{
		Template: "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system first') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}",
		Messages: []powerinfer.Message{{Role: "user", Content: "Hello"}, {Role: "assistant", Content: "Yes?"}, {Role: "system", Content: "Be brief."}, {Role: "user", Content: "Go on."}},
	}
	for range 2 {
		if prompt, err := m.Prompt(c); err != nil || !strings.Contains(prompt, "Be brief.") {
			t.Errorf("%q %v", prompt, err)
		}
	}
	if len(notes) != 1 {
		t.Errorf("%q", notes)
	}
}

// TestChatRefused: impossible conversations are errors with advice.
func TestChatRefused(t *testing.T) {
	m := open(t, powerinfer.Options{})
	hello := []powerinfer.Message{{Role: "user", Content: "Hello"}}
	tools := []powerinfer.Tool{{Name: "now"}}
	for want, c := range map[string]powerinfer.Conversation{
		"Conversation.Template":           {Messages: hello}, // the demo has none
		"there is no chat template":       {Messages: hello, Template: "no such"},
		"at least one message":            {Template: "chatml"},
		`role "User"`:                     {Template: "chatml", Messages: []powerinfer.Message{{Role: "User"}}},
		`there is no such tool`:           {Template: "chatml", Messages: hello, Tools: tools, ToolChoice: "then"},
		"no JSON Schema":                  {Template: "chatml", Messages: hello, Tools: []powerinfer.Tool{{Name: "now", Parameters: json.RawMessage("{")}}},
		"has no form in JSON":             {Template: "chatml", Messages: hello, Variables: map[string]any{"f": func() {}}},
		"Conversation.ToolChoice is \"re": {Template: "chatml", Messages: hello, ToolChoice: powerinfer.ToolRequired},
	} {
		if _, err := m.Answer(t.Context(), c, powerinfer.Generation{Max: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := powerinfer.Conversation{Template: "chatml", Messages: hello}
	if _, err := m.Answer(t.Context(), c, powerinfer.Generation{Schema: "{"}); err == nil || !strings.Contains(err.Error(), "the JSON Schema is no JSON") {
		t.Errorf("a schema that ends early: %v", err)
	}
}

// TestThoughtsOff: NoThoughts closes the thought that a template opens, and sets the variable of templates that have
// one.
func TestThoughtsOff(t *testing.T) {
	m := open(t, powerinfer.Options{})
	c := powerinfer.Conversation{
		Template: "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}[on]{% endif %}{% if add_generation_prompt %}<think>{% endif %}",
		Messages: []powerinfer.Message{{Role: "user", Content: "Hello"}},
	}
	for want, off := range map[string]bool{"Hello[on]<think>": false, "Hello<think></think>": true} {
		c.NoThoughts = off
		if got, err := m.Prompt(c); err != nil || got != want {
			t.Errorf("%q %v, want %q", got, err, want)
		}
	}
}
