package anthropic

import (
	"encoding/json"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// request is a request for a message, read and checked.
type request struct {
	text         server.Generation
	conversation *server.Conversation
	stops        []string // stop_sequences
	stream       bool
}

// readRequest reads the fields of a request for a message.
func readRequest(m *server.Model, f *server.Fields) (*request, error) {
	limited := f.Peek("max_tokens") != nil
	r := &request{text: m.ReadGeneration(f)}
	g := &r.text
	if limited && g.Max < 0 {
		f.Fail(server.Invalid("max_tokens: it is not a number of tokens"))
	}
	if stops := f.Peek("stop_sequences"); stops != nil && stops[0] != '[' {
		f.Fail(server.Invalid("stop_sequences: it is not a list of texts"))
	}
	r.stops = server.ReadStops(f, "stop_sequences")
	g.StopStrings = append(g.StopStrings, r.stops...)
	f.Read("stream", &r.stream)
	r.conversation = readConversation(m, f)
	readOutput(m, f, r)
	readThinking(f, r)
	server.Unused[string](f, "service_tier", "inference_geo", "speed")
	server.Unused[[]string](f, "betas")
	server.Unused[map[string]any](f, "cache_control", "context_management")
	server.Unused[struct {
		UserID string `json:"user_id"`
	}](f, "metadata")
	f.Ignore("diagnostics", "user_profile_id", "workspace_id", "billing_policy", "compaction")
	f.Only("mcp_servers", "[]")
	f.Only("fallbacks", "[]")
	return r, f.Close()
}

// readConversation reads the fields that make a prompt.
func readConversation(m *server.Model, f *server.Fields) *server.Conversation {
	c := m.NewConversation()
	convert := converter{names: map[string]string{}, pictures: m.Pictures(f)}
	if raw := f.Raw("system"); raw != nil {
		text, err := systemOf(raw)
		if err != nil {
			f.Fail(err)
		}
		if text != "" {
			convert.out = append(convert.out, chat.Message{Role: "system", Content: text})
		}
	}
	var messages []message
	if f.Read("messages", &messages); len(messages) == 0 {
		f.Fail(server.Invalid("messages: at least one message is required"))
	}
	for i := range messages {
		if err := convert.add(&messages[i]); err != nil {
			f.Fail(server.Invalid("messages.%d: %s", i, err))
		}
	}
	c.Messages = convert.out
	c.Continue()
	readTools(f, c)
	var kwargs server.Kwargs
	f.Read("chat_template_kwargs", &kwargs)
	for name, value := range kwargs {
		c.Kwargs[name] = value
	}
	return c
}

// readOutput reads output_config, and output_format, which was its beginning.
func readOutput(m *server.Model, f *server.Fields, r *request) {
	type format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	var output struct {
		Effort string  `json:"effort"`
		Format *format `json:"format"`
	}
	f.Read("output_config", &output)
	if output.Format == nil {
		f.Read("output_format", &output.Format)
	}
	switch output.Effort {
	case "":
	case "low", "medium", "high":
		r.conversation.Kwargs["reasoning_effort"] = json.RawMessage(`"` + output.Effort + `"`)
	default: // xhigh and max, which few templates know
		r.conversation.Kwargs["reasoning_effort"] = json.RawMessage(`"high"`)
	}
	if output.Format == nil {
		return
	}
	if output.Format.Type != "json_schema" || len(output.Format.Schema) == 0 || output.Format.Schema[0] != '{' {
		f.Fail(server.Invalid("output_config.format is not of type json_schema with a schema"))
		return
	}
	if err := m.HoldSchema(&r.text, output.Format.Schema, false); err != nil {
		f.Fail(server.Unusable(err, "output_config.format: the schema cannot be used"))
	}
}

// readThinking reads the field thinking. Without it models think if their templates have them think.
func readThinking(f *server.Fields, r *request) {
	var t struct {
		Type   string `json:"type"`
		Budget *int   `json:"budget_tokens"`
	}
	if !f.Read("thinking", &t) {
		return
	}
	switch t.Type {
	case "enabled", "adaptive", "between_tools", "disabled":
	default:
		f.Fail(server.Invalid("thinking is of type %.40q; there are enabled, adaptive, between_tools and disabled", t.Type))
	}
	if t.Budget != nil && *t.Budget < 0 {
		f.Fail(server.Invalid("thinking.budget_tokens %d is not a number of tokens", *t.Budget))
	}
	r.conversation.Think(t.Type != "disabled")
	r.conversation.ThinkingBudget = t.Budget
}

func countTokens(w http.ResponseWriter, hr *http.Request, f *server.Fields, m *server.Model) error {
	requestID(w.Header())
	r, err := readRequest(m, f)
	if err != nil {
		return err
	}
	_, ids, err := m.Render(hr.Context(), r.conversation)
	if err == nil {
		server.WriteJSON(w, map[string]int{"input_tokens": len(ids)})
	}
	return err
}

func answerMessages(w http.ResponseWriter, hr *http.Request, f *server.Fields, m *server.Model) error {
	requestID(w.Header())
	r, err := readRequest(m, f)
	if err != nil {
		return err
	}
	reading, err := m.Prepare(r.conversation, &r.text)
	if err != nil {
		return err
	}
	r.text.ReportProgress = r.stream // a message's beginning says how much of the prompt was in the cache
	events, err := m.Generate(hr.Context(), []server.Generation{r.text})
	if err != nil {
		return err
	}
	a := newAnswer(m, r, reading)
	defer a.close()
	if r.stream {
		return a.stream(w, events)
	}
	return a.send(w, events)
}
