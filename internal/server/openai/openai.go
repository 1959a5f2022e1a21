// Package openai answers OpenAI's routes: models, completions and chat completions.
package openai

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// api is the routes over one server.
type api struct {
	*server.Server
	formats func() (plain, tools *answer.Format) // of answers in conversations without tools and with them
}

// Register adds the routes to s, whose options have a template.
func Register(s *server.Server) {
	a := &api{Server: s}
	a.formats = sync.OnceValues(func() (plain, tools *answer.Format) {
		t := s.Options().Template
		return formatOf(t, false), formatOf(t, true)
	})
	for _, path := range []string{"/v1/models", "/models"} {
		s.Get(path, a.models)
	}
	s.Post("/v1/completions", a.completion)
	s.Post("/v1/chat/completions", a.chat)
	s.Post("/chat/completions", a.chat)
	s.Post("/apply-template", a.applyTemplate)
}

func formatOf(t *chat.Template, tools bool) *answer.Format {
	can := t.Can(tools)
	return answer.FormatOf(t.Source(), can.Tools, can.ToolCalls)
}

func (a *api) models(w http.ResponseWriter, _ *http.Request) {
	c := a.Engine.Config()
	server.WriteJSON(w, map[string]any{"object": "list", "data": []map[string]any{{
		"id": a.Options().Name, "object": "model", "created": a.Began().Unix(), "owned_by": "powerinfer",
		"meta": map[string]int{"n_vocab": c.Vocab, "n_ctx": a.Engine.Context(), "n_ctx_train": c.Context, "n_embd": c.Embd},
	}}})
}

// Usage counts tokens.
type usage struct {
	Completion int `json:"completion_tokens"`
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// add counts a text whose prompt is the same as that of those before.
func (u *usage) add(r *engine.Result) {
	u.Completion += r.Tokens
	u.Prompt = r.Reused + r.PromptTokens
	u.Details.Cached = max(u.Details.Cached, r.Reused)
	u.Total = u.Prompt + u.Completion
}

// head is what all answers and chunks of a request begin with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

func (a *api) head(prefix, object string) head {
	return head{prefix + strings.ToLower(rand.Text()), object, time.Now().Unix(), a.Options().Name}
}

// An output is what the routes that generate share of a request.
type output struct {
	stream, usage bool
	n             int
}

func (a *api) readOutput(f *server.Fields) output {
	o := output{n: 1}
	f.Read("stream", &o.stream)
	var options struct {
		Include bool `json:"include_usage"`
	}
	f.Read("stream_options", &options)
	o.usage = options.Include
	for _, name := range []string{"n_cmpl", "n"} {
		f.Read(name, &o.n)
	}
	if slots := a.Options().Slots; o.n < 1 || o.n > slots {
		f.Fail(server.Invalid("the field n is not a number from 1 to %d, the number of slots", slots))
	}
	f.Ignore("metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
	return o
}

// finish returns why a text ended, in OpenAI's words.
func finish(r *engine.Result) string {
	if r.Stop == engine.StopLength || r.Stop == engine.StopContext {
		return "length"
	}
	return "stop"
}
