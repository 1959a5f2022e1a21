// Package ollama answers Ollama's routes: generating, chat, embeddings, and the models.
package ollama

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// version is the version of Ollama whose API this is. Clients ask for it and refuse old ones.
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

// known returns a model's name as the server has it, given one as Ollama's users write it: with its tag "latest", with
// the hub's address.
func (a *api) known(name string) string {
	bare := strings.TrimSuffix(name, ":latest")
	for _, host := range []string{"hf.co/", "huggingface.co/"} {
		bare = strings.TrimPrefix(bare, host)
	}
	all := a.s.Models.List()
	for _, n := range []string{name, bare} {
		i := slices.IndexFunc(all, func(l server.Listed) bool { return strings.EqualFold(l.Name, n) })
		if i >= 0 {
			return all[i].Name
		}
	}
	return bare
}

// failureOf returns an error of the hub as clients are told it.
func failureOf(err error) error {
	for is, status := range map[error]int{
		hub.ErrNotFound: http.StatusNotFound, hub.ErrDenied: http.StatusForbidden, hub.ErrInUse: http.StatusConflict,
		hub.ErrOffline: http.StatusBadGateway, hub.ErrDamaged: http.StatusBadGateway, hub.ErrNoRoom: http.StatusInsufficientStorage,
		context.Canceled: http.StatusServiceUnavailable,
	} {
		if errors.Is(err, is) {
			message := err.Error()
			if is == hub.ErrOffline {
				message += "; look at the network of the machine that the server runs on"
			}
			return &server.Error{Status: status, Type: "server_error", Message: message}
		}
	}
	return err
}
