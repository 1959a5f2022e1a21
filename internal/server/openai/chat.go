package openai

import (
	"encoding/json"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A chatRequest is a request for an answer, read and checked.
type chatRequest struct {
	output
	text    server.Generation
	format  *answer.Format
	parsing answer.Options
}

func (a *api) applyTemplate(w http.ResponseWriter, _ *http.Request, f *server.Fields) error {
	q, _ := a.readConversation(f)
	f.Ignore("model")
	if err := f.Close(); err != nil {
		return err
	}
	text, _, err := a.render(q)
	if err == nil {
		server.WriteJSON(w, map[string]string{"prompt": text})
	}
	return err
}

func (a *api) chat(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	c, err := a.readChat(f)
	if err != nil {
		return err
	}
	texts := server.Several(c.text, c.n)
	events, err := a.Generate(r.Context(), texts)
	if err != nil {
		return err
	}
	if c.stream {
		s := chatStream{api: a, request: c, head: a.head("chatcmpl-", "chat.completion.chunk"), out: server.NewEventStream(w)}
		s.send(events)
		return nil
	}
	return a.answer(w, c, events)
}

// readChat reads the fields of a chat completion.
func (a *api) readChat(f *server.Fields) (*chatRequest, error) {
	c := &chatRequest{text: a.ReadGeneration(f), output: a.readOutput(f)}
	g := &c.text
	g.Special = true // calls are made of special tokens, too
	g.StopStrings = append(g.StopStrings, a.Options().Stop...)
	f.Read("logprobs", &g.Logprobs)
	f.Read("top_logprobs", &g.TopLogprobs)
	switch {
	case g.TopLogprobs < 0 || g.TopLogprobs > maxLogprobs:
		f.Fail(server.Invalid("the field top_logprobs is not a number from 0 to %d", maxLogprobs))
	case g.TopLogprobs > 0 && !g.Logprobs:
		f.Fail(server.Invalid("the field top_logprobs needs logprobs to be true"))
	}
	q, tools := a.readConversation(f)
	a.ReadConstraint(f, g)
	a.readFormat(f, g)
	readReasoning(f, &c.parsing)
	switch {
	case tools != nil && g.Constrain != nil:
		f.Fail(server.Invalid("a grammar or response_format cannot be combined with tools"))
	case tools != nil && g.Logprobs && c.stream:
		f.Fail(server.Invalid("the field logprobs cannot be combined with tools and stream"))
	}
	f.Ignore("verbosity")
	f.Only("modalities", `["text"]`)
	f.Only("reasoning_budget_tokens", "-1")
	if err := f.Close(); err != nil {
		return nil, err
	}
	return c, a.prepare(c, q, tools)
}

// prepare makes the prompt and the grammar of calls.
func (a *api) prepare(c *chatRequest, q chat.Request, tools *toolChoice) error {
	if _, said := q.Kwargs["enable_thinking"]; !said && c.text.Constrain != nil && a.Options().Template.Can(false).Thinking {
		q.Kwargs["enable_thinking"] = json.RawMessage("false") // a grammar leaves no room for thoughts
	}
	prompt, ids, err := a.render(q)
	if err != nil {
		return err
	}
	c.text.Prompt, c.parsing.Prompt = ids, prompt
	plain, withTools := a.formats()
	c.format = plain
	if tools == nil {
		return nil
	}
	c.format, c.parsing.Tools = withTools, tools.tools
	return a.hold(&c.text, tools, withTools, prompt)
}

// readFormat reads response_format.
func (a *api) readFormat(f *server.Fields, g *server.Generation) {
	var format struct {
		Type       string          `json:"type"`
		Schema     json.RawMessage `json:"schema"` // llama-server's form of json_object with a schema
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
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
	} else if err := a.HoldSchema(g, schema); err != nil {
		f.Fail(server.Invalid("the field response_format has a schema that cannot be used: %s", err))
	}
}

// readReasoning reads where thoughts go.
func readReasoning(f *server.Fields, o *answer.Options) {
	format := "auto"
	f.Read("reasoning_format", &format)
	switch format {
	case "auto", "deepseek":
	case "none":
		o.Reasoning = answer.ReasoningNone
	case "deepseek-legacy":
		o.Reasoning = answer.ReasoningBoth
	default:
		f.Fail(server.Invalid("the field reasoning_format is none of none, auto, deepseek and deepseek-legacy"))
	}
}
