// Package ollama answers Ollama's routes: generating, chat, embeddings, and the models.
package ollama

import (
	"io"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// version is the version of Ollama with this API. Clients ask for it and refuse old ones.
const version = "0.33.0"

// api answers for a server.
type api struct {
	s   *server.Server
	hub *hub.Hub // nil: models are neither fetched nor removed
}

// Register adds the routes to s. Models are fetched from h and removed from its cache; nil: they are not.
func Register(s *server.Server, h *hub.Hub) {
	a, r := &api{s, h}, s.API(form)
	r.Get("/{$}", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err := io.WriteString(w, "Ollama is running")
		return err
	})
	r.Get("/api/version", func(w http.ResponseWriter, _ *http.Request) error {
		server.WriteJSON(w, map[string]string{"version": version})
		return nil
	})
	r.Get("/api/tags", a.tags)
	r.Get("/api/ps", a.running)
	r.Post("/api/show", a.show)
	r.Post("/api/generate", a.generate)
	r.Post("/api/chat", a.chat)
	r.Post("/api/embed", a.embed)
	r.Post("/api/embeddings", a.embedOne)
	r.Post("/api/pull", a.pull)
	r.Body("DELETE", "/api/delete", a.remove)
	for _, name := range []string{"create", "copy", "push"} {
		r.Post("/api/"+name, func(http.ResponseWriter, *http.Request, *server.Fields) error {
			return server.NotSupported("this server does not %s models", name)
		})
	}
	r.Default("/api/")
}

// form is Ollama's form of errors.
func form(_ http.Header, e *server.Error) (status int, body any) {
	return e.Status, map[string]string{"error": e.Message}
}

// nameOf reads the name of a model, which old clients have in another field.
func nameOf(f *server.Fields) string {
	var name, old string
	f.Read("model", &name)
	if f.Read("name", &old); name == "" {
		name = old
	}
	return name
}
