// Package openai answers OpenAI's routes: models, completions and chat completions.
package openai

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Register adds the routes to s.
func Register(s *server.Server) {
	api := s.API(server.CommonForm)
	l := list{s}
	for _, path := range []string{"/v1/models", "/models"} {
		api.Get(path, l.models)
	}
	api.Get("/v1/models/{id...}", l.model)
	api.Ask("/v1/completions", completion)
	for _, path := range []string{"/v1/chat/completions", "/chat/completions"} {
		api.Ask(path, chatCompletion)
		api.Ask(path+"/input_tokens", inputTokens)
	}
	api.Ask("/v1/embeddings", embeddings)
	api.Ask("/apply-template", applyTemplate)
}

// list answers with the models of a server.
type list struct{ s *server.Server }

// entry is a model of the list.
type entry struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	OwnedBy string         `json:"owned_by"`
	Aliases []string       `json:"aliases"`
	Tags    []string       `json:"tags"`
	Status  status         `json:"status"`
	Meta    map[string]int `json:"meta,omitempty"` // for a loaded model

	Architecture architecture `json:"architecture"`
	Can          []string     `json:"capabilities"`
}

// architecture says what the model reads and writes.
type architecture struct {
	Input  []string `json:"input_modalities"`
	Output []string `json:"output_modalities"`
}

type status struct {
	Value server.State `json:"value"`
}

func (l list) entry(m *server.Listed) entry {
	e := entry{ID: m.Name, Object: "model", Created: l.s.Began().Unix(), OwnedBy: "powerinfer", Aliases: append([]string{}, m.Aliases...), Tags: append([]string{}, m.Tags...), Status: status{m.State}}
	e.Architecture, e.Can = architecture{[]string{"text"}, []string{"text"}}, []string{"completion"}
	if m.CanSee() { // in llama-server's words
		e.Architecture.Input, e.Can = append(e.Architecture.Input, "image"), append(e.Can, "multimodal")
	}
	if m.Model != nil {
		c := m.Model.Engine.Config()
		e.Meta = map[string]int{"n_vocab": c.Vocab, "n_ctx": m.Model.Context(), "n_ctx_train": c.Context, "n_embd": c.Embd}
	}
	return e
}

func (l list) models(w http.ResponseWriter, _ *http.Request) error {
	all := []entry{}
	for _, m := range l.s.Models.List() {
		all = append(all, l.entry(&m))
	}
	server.WriteJSON(w, map[string]any{"object": "list", "data": all})
	return nil
}

// model answers with one of the models.
func (l list) model(w http.ResponseWriter, r *http.Request) error {
	m, err := l.s.Listed(r.PathValue("id"))
	if err != nil {
		return err
	}
	server.WriteJSON(w, l.entry(m))
	return nil
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

// add counts a text. Several texts of one prompt count it once.
func (u *usage) add(r *engine.Result, first bool) {
	u.Completion += r.Tokens
	if first {
		u.Prompt += r.Reused + r.PromptTokens
		u.Details.Cached += r.Reused
	}
	u.Total = u.Prompt + u.Completion
}

// head holds the fields that all answers and chunks of a request begin with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	System  string `json:"system_fingerprint"`
}

// fingerprint stands for what computes the answers; llama.cpp's begin with b, too.
const fingerprint = "b-powerinfer"

func newHead(m *server.Model, prefix, object string) head {
	return head{prefix + strings.ToLower(rand.Text()), object, time.Now().Unix(), m.Name, fingerprint}
}

// An output is what the routes that generate share of a request.
type output struct {
	stream, usage bool
	verbose       bool // the answer has its texts in llama-server's own form, too
	n             int
}

func readOutput(m *server.Model, f *server.Fields) output {
	o := output{n: 1, verbose: m.Verbose}
	f.Read("stream", &o.stream)
	f.Read("verbose", &o.verbose)
	var options struct {
		Include     bool `json:"include_usage"`
		Obfuscation bool `json:"include_obfuscation"` // there is none
	}
	f.Read("stream_options", &options)
	o.usage = options.Include
	for _, name := range []string{"n_cmpl", "n"} {
		f.Read(name, &o.n)
	}
	if slots := m.Slots; o.n < 1 || o.n > slots {
		f.Fail(server.Invalid("the field n is not a number from 1 to %d, the number of slots", slots))
	}
	server.Unused[bool](f, "store")
	server.Unused[map[string]any](f, "metadata")
	server.Unused[string](f, "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
	return o
}

// finish returns why a text ended, in OpenAI's words.
func finish(r *engine.Result) string {
	if r.Stop == engine.StopLength || r.Stop == engine.StopContext {
		return "length"
	}
	return "stop"
}
