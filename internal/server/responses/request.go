package responses

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// maxLogprobs is the largest number of likeliest tokens that an answer lists, as in OpenAI's own API.
const maxLogprobs = 20

// request is a request for a response, read and checked.
type request struct {
	text         server.Generation
	conversation *server.Conversation
	reading      *server.Reading       // set by prepare
	custom       map[string]bool       // tools that take a text
	strict       map[string]bool       // tools with schemas that must hold in every part
	spaced       map[string]spacedName // tools of namespaces, by the names that the model knows
	stream       bool
	logprobs     bool // wanted; counting them costs nothing more
	thoughts     bool // are given in encrypted_content, too
	cut          bool // the oldest items may be left out where the context is too short
	echo         echoed
}

// echoed are the request's fields that its response repeats.
type echoed struct {
	Instructions    *string           `json:"instructions"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Metadata        map[string]string `json:"metadata"`
	Parallel        bool              `json:"parallel_tool_calls"`
	CacheKey        *string           `json:"prompt_cache_key,omitempty"`
	Reasoning       reasoning         `json:"reasoning"`
	Safety          *string           `json:"safety_identifier,omitempty"`
	Temperature     float32           `json:"temperature"`
	Text            textConfig        `json:"text"`
	ToolChoice      any               `json:"tool_choice"`
	Tools           []json.RawMessage `json:"tools"`
	TopLogprobs     int               `json:"top_logprobs"`
	TopP            float32           `json:"top_p"`
	Truncation      string            `json:"truncation"`
	User            *string           `json:"user,omitempty"`
}

type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type textConfig struct {
	Format    json.RawMessage `json:"format"`
	Verbosity *string         `json:"verbosity,omitempty"`
}

// read reads the fields of a request.
func read(m *server.Model, f *server.Fields) (*request, error) {
	q := &request{text: m.ReadGeneration(f), conversation: m.NewConversation(), custom: map[string]bool{}, strict: map[string]bool{}, spaced: map[string]spacedName{}}
	e := &q.echo
	f.Read("instructions", &e.Instructions)
	if e.Instructions != nil && *e.Instructions != "" {
		q.conversation.Messages = append(q.conversation.Messages, chat.Message{Role: "system", Content: *e.Instructions})
	}
	messages, tools := readInput(m, f)
	q.conversation.Messages = append(q.conversation.Messages, messages...)
	if f.Read("max_output_tokens", &e.MaxOutputTokens) {
		if *e.MaxOutputTokens < 1 || *e.MaxOutputTokens > math.MaxInt32 {
			f.Fail(server.Invalid("the field max_output_tokens is not a number of tokens"))
		}
		q.text.Max = *e.MaxOutputTokens
	}
	q.readTools(f, tools)
	m.ReadConstraint(f, &q.text)
	q.readText(m, f)
	q.readReasoning(f)
	q.readIncluded(f)
	q.readRest(f)
	if q.conversation.Choice.Excludes(&q.text) {
		f.Fail(server.Invalid("a grammar cannot be combined with tools"))
	}
	e.Temperature, e.TopP = q.text.Sampling.Temperature, q.text.Sampling.TopP
	return q, f.Close()
}

// readRest reads the fields about sending and storing a response, and those with only one accepted value.
func (q *request) readRest(f *server.Fields) {
	e := &q.echo
	e.Metadata, e.Truncation = map[string]string{}, "disabled"
	f.Read("stream", &q.stream)
	f.Read("metadata", &e.Metadata)
	f.Read("user", &e.User)
	f.Read("prompt_cache_key", &e.CacheKey)
	f.Read("safety_identifier", &e.Safety)
	switch f.Read("truncation", &e.Truncation); e.Truncation {
	case "auto":
		q.cut = true
	case "disabled":
	default:
		f.Fail(server.Invalid("the field truncation is neither auto nor disabled"))
	}
	for _, name := range []string{"previous_response_id", "conversation", "prompt"} {
		if v := f.Raw(name); v != nil && string(v) != `""` {
			f.Fail(server.Invalid("the field %s is not supported: the server stores nothing, so send the whole conversation as input", name))
		}
	}
	f.Only("background", "false")
	f.Only("verbose", "false")
	f.Only("response_fields", "[]")
	server.Unused[bool](f, "store")
	server.Unused[uint32](f, "max_tool_calls")
	server.Unused[string](f, "service_tier", "prompt_cache_retention")
	server.Unused[map[string]any](f, "prompt_cache_options", "client_metadata")
	server.Unused[struct {
		Obfuscation bool `json:"include_obfuscation"` // there is none
	}](f, "stream_options")
}

// readText reads the form of the answer's text.
func (q *request) readText(m *server.Model, f *server.Fields) {
	t := &q.echo.Text
	f.Read("text", t)
	if t.Format == nil {
		t.Format = json.RawMessage(`{"type":"text"}`)
	}
	var format struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      bool            `json:"strict"`
		Schema      json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(t.Format, &format) != nil {
		f.Fail(server.Invalid("the field text.format cannot be read"))
		return
	}
	switch format.Type {
	case "text":
		return
	case "json_object":
		format.Schema = json.RawMessage(`{"type":"object"}`)
	case "json_schema":
		if format.Schema == nil {
			f.Fail(server.Invalid("the field text.format has no schema"))
			return
		}
	default:
		f.Fail(server.Invalid("the field text.format is of type %.40q; there are text, json_object and json_schema", format.Type))
		return
	}
	if q.text.Constrain != nil {
		f.Fail(server.Invalid("the fields text.format and grammar or json_schema exclude each other"))
	} else if err := m.HoldSchema(&q.text, format.Schema, format.Strict); err != nil {
		f.Fail(server.Unusable(err, "the field text.format has a schema that cannot be used"))
	}
}

// readReasoning reads how much the model should think. There are no summaries: thoughts are sent as they are.
func (q *request) readReasoning(f *server.Fields) {
	r := &q.echo.Reasoning
	f.Read("reasoning", r)
	if r.Effort == nil {
		return
	}
	kwargs := q.conversation.Kwargs
	if *r.Effort == "none" {
		kwargs["enable_thinking"] = json.RawMessage("false")
		return
	}
	effort, _ := json.Marshal(*r.Effort)
	kwargs["reasoning_effort"] = effort
}

// included are the names that the field include may have. Of what the others name there is nothing.
var included = []string{
	"reasoning.encrypted_content", "message.output_text.logprobs", "message.input_image.image_url", "file_search_call.results",
	"web_search_call.results", "web_search_call.action.sources", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
}

func (q *request) readIncluded(f *server.Fields) {
	var names []string
	f.Read("include", &names)
	for _, n := range names {
		if !slices.Contains(included, n) {
			f.Fail(server.Invalid("the field include has %.60q, which is none of %s", n, strings.Join(included, ", ")))
		}
	}
	q.thoughts = slices.Contains(names, included[0])
	top := &q.echo.TopLogprobs
	f.Read("top_logprobs", top)
	if *top < 0 || *top > maxLogprobs {
		f.Fail(server.Invalid("the field top_logprobs is not a number from 0 to %d", maxLogprobs))
	}
	q.logprobs = slices.Contains(names, included[1]) || *top > 0
	q.text.Logprobs, q.text.TopLogprobs = q.logprobs, *top
}

// prepare makes the prompt.
func (q *request) prepare(ctx context.Context, m *server.Model) error {
	if q.cut {
		if err := m.Shorten(ctx, q.conversation); err != nil {
			return err
		}
	}
	var err error
	q.reading, err = m.Prepare(q.conversation, &q.text)
	return err
}
