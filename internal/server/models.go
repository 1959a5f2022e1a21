package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Models are those that a server answers with. Its methods may be called from several goroutines.
type Models interface {
	// Use returns the model that a request names, loaded, and keeps it loaded until release is called. The empty name
	// means the usual one.
	Use(ctx context.Context, name string) (m *Model, release func(), err error)
	// Peek returns a model, if it is loaded, to a caller that only looks at it, and keeps it loaded until release is
	// called. That is no request: it loads nothing, and the time after which the model is freed goes on.
	Peek(name string) (m *Model, release func(), ok bool)
	// List returns all models, by name.
	List() []Listed
	// Ready returns why no request can be answered yet, or nil.
	Ready() error
	// Load loads a model, without a request for it.
	Load(ctx context.Context, name string) error
	// Unload frees a model when the requests that it answers have ended.
	Unload(ctx context.Context, name string) error
	// Several reports whether models are loaded and freed by their names; else there is one, which stays.
	Several() bool
	// Keep says how long a model stays loaded after its last request; negative: until its memory is needed.
	Keep(name string, d time.Duration) error
}

// State says where a model stands.
type State string

// The states.
const (
	Unloaded State = "unloaded"
	Loading  State = "loading"
	Loaded   State = "loaded"
	Failed   State = "failed" // to load; the next request tries again
)

// Listed is a model of a list.
type Listed struct {
	Name     string
	Path     string // of its file
	Size     int64  // of its files, bytes
	Modified time.Time
	State    State
	Model    *Model    // nil unless loaded; only what cannot change may be asked of it: it may be freed meanwhile
	Memory   int64     // bytes that it takes, as planned, with its KV cache; 0 where it is not known
	GPU      int64     // bytes of them on GPUs
	Expires  time.Time // when it is freed if nobody asks; zero: never
	Err      error     // of State Failed
}

// Listed returns the model of a name.
func (s *Server) Listed(name string) (*Listed, error) {
	for _, m := range s.Models.List() {
		if m.Name == name {
			return &m, nil
		}
	}
	return nil, NotFound("there is no model %.100q", name)
}

// Single is a server's only model, which answers under every name, as llama-server's does. The zero value is still
// being loaded.
type Single struct{ listed atomic.Pointer[Listed] }

// Set has requests answered by l.Model from now on.
func (s *Single) Set(l Listed) {
	l.State = Loaded
	s.listed.Store(&l)
}

// Use returns the model.
func (s *Single) Use(context.Context, string) (*Model, func(), error) {
	l := s.listed.Load()
	if l == nil {
		return nil, nil, ErrLoading
	}
	return l.Model, func() {}, nil
}

// Peek returns the model, if it is loaded.
func (s *Single) Peek(string) (*Model, func(), bool) {
	l := s.listed.Load()
	if l == nil {
		return nil, nil, false
	}
	return l.Model, func() {}, true
}

// ErrLoading refuses a request while the model is being loaded.
var ErrLoading = &Error{Status: http.StatusServiceUnavailable, Type: "unavailable_error", Message: "Loading model", RetryAfter: retryAfter}

// List returns the model, or nothing while it is being loaded.
func (s *Single) List() []Listed {
	if l := s.listed.Load(); l != nil {
		return []Listed{*l}
	}
	return nil
}

// Ready returns ErrLoading until there is a model.
func (s *Single) Ready() error {
	if s.listed.Load() == nil {
		return ErrLoading
	}
	return nil
}

// Load reports that there is nothing to load.
func (s *Single) Load(context.Context, string) error { return errSingle }

// Unload reports that the model stays.
func (s *Single) Unload(context.Context, string) error { return errSingle }

// Several reports that there is one.
func (s *Single) Several() bool { return false }

// Keep does nothing: the model stays loaded.
func (s *Single) Keep(string, time.Duration) error { return nil }

var errSingle = NotSupported("the server was started with one model, which stays loaded; --models-dir serves several")
