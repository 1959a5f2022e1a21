// Package chat turns conversations into the text that a model was trained on, by the chat template in its file, a
// built-in one or one of the user's.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// ErrNoTemplate says that a model's file has no chat template.
var ErrNoTemplate = setting.Errorf("the model has no chat template: it may be a base model, which only continues text; "+
	"name a format with %s if it was trained on one", setting.Template)

// A Template renders conversations. It may be used by several goroutines at once.
type Template struct {
	source   string
	text     *jinja.Template
	tools    *Template // for conversations with tools, if the model has another template for them
	bos, eos string
	can      Capabilities
}

// Parse parses a template's source, Jinja; bos and eos are the texts of the tokens that begin and end a sequence,
// perhaps empty. It renders a few short conversations to find the template's capabilities.
func Parse(source, bos, eos string) (*Template, error) {
	text, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("the chat template cannot be read: %w", err)
	}
	t := &Template{source: source, text: text, bos: bos, eos: eos}
	t.probe()
	return t, nil
}

// FromGGUF parses the chat template in a model's file: the one called name, or the default one if name is empty, with
// the one called tool_use, if there is one, for conversations with tools. It returns ErrNoTemplate if the file has
// none.
func FromGGUF(f *gguf.File, name string) (*Template, error) {
	bos, eos, err := ends(f)
	if err != nil {
		return nil, err
	}
	const key = "tokenizer.chat_template"
	if name != "" {
		source, ok, err := f.String(key + "." + name)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("%s: the model has no chat template called %q", f.Path, name)
		}
		return Parse(source, bos, eos)
	}
	source, ok, err := f.String(key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrNoTemplate
	}
	t, err := Parse(source, bos, eos)
	if err != nil {
		return nil, err
	}
	if source, ok, err := f.String(key + ".tool_use"); err != nil {
		return nil, err
	} else if ok {
		t.tools, err = Parse(source, bos, eos)
		return t, err
	}
	return t, nil
}

// Named returns the template that a user names with --chat-template: a built-in format, or a template's source.
func Named(name string, f *gguf.File) (*Template, error) {
	bos, eos, err := ends(f)
	if err != nil {
		return nil, err
	}
	if f, ok := builtin[name]; ok {
		return Parse(f.template(), bos, eos)
	}
	if !strings.Contains(name, "{{") && !strings.Contains(name, "{%") {
		return nil, fmt.Errorf("there is no chat template called %q; there are %s", name, strings.Join(Builtins(), ", "))
	}
	return Parse(name, bos, eos)
}

// ends returns the texts of the tokens that begin and end a sequence.
func ends(f *gguf.File) (bos, eos string, err error) {
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return "", "", err
	}
	for key, text := range map[string]*string{"bos_token_id": &bos, "eos_token_id": &eos} {
		ids, _, err := f.IDs("tokenizer.ggml."+key, len(tokens))
		if err != nil {
			return "", "", err
		}
		if len(ids) > 0 {
			*text = tokens[ids[0]]
		}
	}
	return bos, eos, nil
}

// A Request is a conversation to render.
type Request struct {
	Messages []Message
	Tools    []Tool
	Kwargs   map[string]json.RawMessage // more variables for the template, such as enable_thinking

	AddGenerationPrompt  bool // end with what begins an answer
	ContinueFinalMessage bool // end inside the last message, so that the model continues it

	Context context.Context   // ends the rendering; nil: nothing does
	Now     time.Time         // for templates that print the date; zero for now
	Adapted func(note string) // gets a note when a conversation that the template refuses was changed; may be nil

	wholeTools bool // the tools' definitions are completed
}

// Can returns the template's capabilities, for conversations with tools or without.
func (t *Template) Can(tools bool) Capabilities { return t.forTools(tools).can }

// Source returns the template's source.
func (t *Template) Source() string { return t.source }

// WithThinking returns a template's variables with enable_thinking set to true, unless they have it, as in llama.cpp:
// in some templates a missing one means no.
func WithThinking(kwargs map[string]json.RawMessage) map[string]json.RawMessage {
	const name = "enable_thinking"
	if _, said := kwargs[name]; said {
		return kwargs
	}
	all := map[string]json.RawMessage{name: json.RawMessage("true")}
	maps.Copy(all, kwargs)
	return all
}

func (t *Template) forTools(tools bool) *Template {
	if tools && t.tools != nil {
		return t.tools
	}
	return t
}

// Render returns the text of a conversation without pictures: see RenderMarked.
func (t *Template) Render(q Request) (string, error) {
	m, err := t.RenderMarked(q)
	if err == nil && len(m.Pictures) > 0 {
		return "", errors.New("the conversation has pictures, but the prompt is text only")
	}
	return m.Text, err
}

// RenderMarked returns the text of a conversation, with the special tokens that the template writes and with marks in
// the places of its pictures. What the template cannot express is put into other words: see workaround.go and
// adaptation.go.
func (t *Template) RenderMarked(q Request) (Marked, error) {
	m := newMarks()
	q.Messages = m.put(q.Messages)
	text, err := t.renderText(q)
	if err != nil {
		return Marked{}, err
	}
	return m.collect(text)
}

// renderText returns the text of a conversation with marks for pictures.
func (t *Template) renderText(q Request) (string, error) {
	t = t.forTools(len(q.Tools) > 0)
	if q.ContinueFinalMessage && q.AddGenerationPrompt {
		return "", errors.New("a conversation cannot both continue its last message and begin a new one")
	}
	if len(q.Messages) == 0 {
		return "", errors.New("a conversation needs at least one message")
	}
	text, shown, notes, err := t.settle(t.adapted(q.Messages, q.Tools), &q)
	if err != nil {
		return "", fmt.Errorf("the chat template refuses the conversation: %w", err)
	}
	if q.Adapted != nil {
		for _, note := range notes {
			q.Adapted(note)
		}
	}
	if q.ContinueFinalMessage {
		return continued(text, shown[len(shown)-1].text())
	}
	return text, nil
}

// render renders messages as they are.
func (t *Template) render(messages []Message, q Request) (string, error) {
	if t.can.resultsWithCalls {
		messages = withResults(messages)
	}
	list := &jinja.List{}
	for i := range messages {
		list.Items = append(list.Items, messages[i].value(&t.can))
	}
	vars := dict("messages", list, "add_generation_prompt", q.AddGenerationPrompt, "bos_token", t.bos, "eos_token", t.eos)
	if len(q.Tools) > 0 && t.can.Tools {
		tools := &jinja.List{}
		for i, tool := range q.Tools {
			v, err := jinja.FromJSON(tool)
			if err != nil {
				return "", fmt.Errorf("tool %d is not JSON: %w", i, err)
			}
			if q.wholeTools {
				v = whole(v)
			}
			tools.Items = append(tools.Items, v)
		}
		vars.Set("tools", tools)
	}
	t.setOld(vars, &q)
	for name, value := range q.Kwargs {
		v, err := jinja.FromJSON(value)
		if err != nil {
			return "", fmt.Errorf("the template's variable %s is not JSON: %w", name, err)
		}
		vars.Set(name, v)
	}
	o := jinja.Options{Context: q.Context}
	if !q.Now.IsZero() {
		o.Now = func() time.Time { return q.Now }
	}
	return t.text.Render(vars, o)
}

// dates are variables in which templates of Llama 3 and Firefunction expect today's date. Firefunction's has the time
// of day, which would make every prompt different, so it is always midnight.
var dates = map[string]string{"date_string": "02 Jan 2006", "datetime": "Jan 02 2006 00:00:00 GMT"}

// setOld sets variables that older templates expect: dates, and the tools' functions as a text.
func (t *Template) setOld(vars *jinja.Dict, q *Request) {
	now := q.Now
	if now.IsZero() {
		now = time.Now()
	}
	for name, layout := range dates {
		if t.text.Names(name) {
			vars.Set(name, now.UTC().Format(layout))
		}
	}
	if !t.text.Names("functions") || t.text.Names("tools") {
		return
	}
	var list []json.RawMessage
	for _, tool := range q.Tools {
		var wrapped struct {
			Function json.RawMessage `json:"function"`
		}
		if json.Unmarshal(tool, &wrapped) == nil && wrapped.Function != nil {
			tool = wrapped.Function
		}
		list = append(list, tool)
	}
	text, err := json.MarshalIndent(list, "", "    ")
	if err != nil || len(list) == 0 {
		text = nil
	}
	vars.Set("functions", string(text))
}

// continued cuts text after its last message.
func continued(text, last string) (string, error) {
	last = strings.TrimSpace(last)
	i := strings.LastIndex(text, last)
	if last == "" || i < 0 {
		return "", errors.New("the last message cannot be continued: the chat template does not show its content as it is")
	}
	return text[:i+len(last)], nil
}

// Builtins returns the names of the built-in templates.
func Builtins() []string {
	names := make([]string, 0, len(builtin))
	for name := range builtin {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
