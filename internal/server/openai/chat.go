package openai

import (
	"encoding/json"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A chatRequest is a request for an answer, read and checked.
type chatRequest struct {
	output
	text    server.Generation
	reading *server.Reading
}

func applyTemplate(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	c := readConversation(m, f)
	if err := f.Close(); err != nil {
		return err
	}
	text, _, err := m.Render(r.Context(), c)
	if err == nil {
		server.WriteJSON(w, map[string]string{"prompt": text})
	}
	return err
}

// inputTokens counts the tokens of a chat completion's prompt.
func inputTokens(w http.ResponseWriter, _ *http.Request, f *server.Fields, m *server.Model) error {
	c, err := readChat(m, f)
	if err == nil {
		server.WriteJSON(w, server.InputTokens(len(c.text.Prompt)))
	}
	return err
}

func chatCompletion(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	c, err := readChat(m, f)
	if err != nil {
		return err
	}
	texts := server.Several(c.text, c.n)
	events, err := m.Generate(r.Context(), texts)
	if err != nil {
		return err
	}
	var debug *server.Completion
	if c.verbose {
		events, debug = recorded(m, texts, events)
	}
	if c.stream {
		s := chatStream{model: m, request: c, head: newHead(m, "chatcmpl-", "chat.completion.chunk"), debug: debug, out: server.NewEventStream(w)}
		return s.send(events)
	}
	return c.answer(w, m, events, debug)
}

// readChat reads the fields of a chat completion and makes its prompt.
func readChat(m *server.Model, f *server.Fields) (*chatRequest, error) {
	c := &chatRequest{text: m.ReadGeneration(f), output: readOutput(m, f)}
	g := &c.text
	f.Read("logprobs", &g.Logprobs)
	f.Read("top_logprobs", &g.TopLogprobs)
	switch {
	case g.TopLogprobs < 0 || g.TopLogprobs > maxLogprobs:
		f.Fail(server.Invalid("the field top_logprobs is not a number from 0 to %d", maxLogprobs))
	case g.TopLogprobs > 0 && !g.Logprobs:
		f.Fail(server.Invalid("the field top_logprobs needs logprobs to be true"))
	}
	q := readConversation(m, f)
	m.ReadConstraint(f, g)
	readFormat(m, f, g)
	readReasoning(f, &q.Reasoning)
	switch {
	case q.Choice.Excludes(g):
		f.Fail(server.Invalid("a grammar cannot be combined with tools"))
	case q.Choice != nil && g.Logprobs && c.stream:
		f.Fail(server.Invalid("the field logprobs cannot be combined with tools and stream"))
	}
	server.Unused[string](f, "verbosity")
	f.Only("response_fields", "[]")
	f.Only("modalities", `["text"]`)
	budget := -1
	if f.Read("reasoning_budget_tokens", &budget); budget >= 0 {
		q.ThinkingBudget = &budget
	}
	err := f.Close()
	if err == nil {
		c.reading, err = m.Prepare(q, g)
	}
	return c, err
}

// readFormat reads response_format.
func readFormat(m *server.Model, f *server.Fields, g *server.Generation) {
	var format struct {
		Type       string          `json:"type"`
		Schema     json.RawMessage `json:"schema"` // llama-server's form of json_object with a schema
		JSONSchema struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Strict      bool            `json:"strict"`
			Schema      json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if !f.Read("response_format", &format) {
		return
	}
	schema := format.Schema
	switch format.Type {
	case "text":
		return
	case "json_object":
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
	case "json_schema":
		if format.JSONSchema.Schema != nil {
			schema = format.JSONSchema.Schema
		}
		if schema == nil {
			f.Fail(server.Invalid("the field response_format has no schema"))
			return
		}
	default:
		f.Fail(server.Invalid("the field response_format is of type %.40q; there are text, json_object and json_schema", format.Type))
		return
	}
	if g.Constrain != nil {
		f.Fail(server.Invalid("the fields response_format and grammar or json_schema exclude each other"))
	} else if err := m.HoldSchema(g, schema, format.JSONSchema.Strict); err != nil {
		f.Fail(server.Unusable(err, "the field response_format has a schema that cannot be used"))
	}
}

// readReasoning reads where thoughts go.
func readReasoning(f *server.Fields, r *answer.ReasoningFormat) {
	var name string
	if !f.Read("reasoning_format", &name) {
		return
	}
	format, err := answer.ParseReasoningFormat(name)
	if err != nil {
		f.Fail(server.Invalid("the field reasoning_format: %s", err))
	}
	*r = format
}
