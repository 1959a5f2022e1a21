// Package responses answers OpenAI's Responses: answers made of items, with every event of their stream. Nothing is
// stored, so that a conversation is sent whole with each request.
package responses

import (
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Register adds the routes to s.
func Register(s *server.Server) {
	api := s.API(server.CommonForm)
	for _, path := range []string{"/v1/responses", "/responses"} {
		api.Ask(path, create)
		api.Ask(path+"/input_tokens", inputTokens)
	}
}

func create(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	q, err := read(m, f)
	if err != nil {
		return err
	}
	if err := q.prepare(r.Context(), m); err != nil {
		return err
	}
	events, err := m.Generate(r.Context(), []server.Generation{q.text})
	if err != nil {
		return err
	}
	out := newWriter(m, q)
	if q.stream {
		return out.stream(server.NewEventStream(w), events)
	}
	return out.answer(w, events)
}

// inputTokens counts the tokens of a request's prompt.
func inputTokens(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	q, err := read(m, f)
	if err != nil {
		return err
	}
	_, ids, err := m.Render(r.Context(), q.conversation)
	if err == nil {
		server.WriteJSON(w, server.InputTokens(len(ids)))
	}
	return err
}
