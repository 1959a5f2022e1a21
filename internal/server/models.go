package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Models are the models of a server. Its methods may be called from several goroutines.
type Models interface {
	// Use returns the model that a request names, loaded, and keeps it loaded until release is called. The empty name
	// means the usual one.
	Use(ctx context.Context, name string) (m *Model, release func(), err error)
	// Peek returns a model, if it is loaded, for inspection, and keeps it loaded until release is called. It is not a
	// request: it loads nothing, and the model's idle time continues.
	Peek(name string) (m *Model, release func(), err error)
	// List returns all models, by name.
	List() []Listed
	// Ready returns why no request can be answered yet, or nil.
	Ready() error
	// Load loads a model, without a request for it.
	Load(ctx context.Context, name string) error
	// Unload frees a model when the requests that it answers have ended.
	Unload(ctx context.Context, name string) error
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
	Aliases  []string // other names, for requests
	Tags     []string // for lists; they mean nothing here
	Path     string   // path of its file
	Size     int64    // size of its files, in bytes
	Modified time.Time
	Sees     bool // it can be shown pictures, as far as is known while it is not loaded
	State    State
	Model    *Model    // nil unless loaded; use only what cannot change, because it may be freed at any time
	Memory   int64     // bytes that it takes, as planned, with its KV cache; 0: unknown
	GPU      int64     // bytes of Memory on GPUs
	Expires  time.Time // when it is freed if nobody asks; zero: never
	Err      error     // why State is Failed
}

// CanSee reports whether the model can be shown pictures.
func (l *Listed) CanSee() bool {
	if l.Model != nil {
		return l.Model.Sees()
	}
	return l.Sees
}

// Listed returns the model of a name.
func (s *Server) Listed(name string) (*Listed, error) {
	known := s.Known(name)
	for _, m := range s.Models.List() {
		if m.Name == known {
			return &m, nil
		}
	}
	return nil, NotFound("there is no model %.100q", name)
}

// Known returns a model's name as the server has it, given one as Ollama's users write it: with its tag "latest", with
// the hub's address, in other cases of letters. A name that is none of the server's stays, without them.
func (s *Server) Known(name string) string { return knownOf(s.Models.List(), name) }

func knownOf(all []Listed, name string) string {
	bare := bareName(name)
	for _, n := range []string{name, bare} {
		i := slices.IndexFunc(all, func(l Listed) bool { return l.Name == n || slices.Contains(l.Aliases, n) })
		if i < 0 {
			i = slices.IndexFunc(all, func(l Listed) bool { return strings.EqualFold(l.Name, n) })
		}
		if i >= 0 {
			return all[i].Name
		}
	}
	return bare
}

// bareName returns a model's name without the tag latest and the hub's address.
func bareName(name string) string {
	name = strings.TrimSuffix(name, ":latest")
	for _, host := range []string{"hf.co/", "huggingface.co/"} {
		name = strings.TrimPrefix(name, host)
	}
	return name
}

// renamed are models that requests may call as Known knows them.
type renamed struct{ Models }

func (r renamed) known(name string) string {
	if bareName(name) == name {
		return name // without a look at all models, which may be in folders
	}
	return knownOf(r.List(), name)
}

func (r renamed) Use(ctx context.Context, name string) (*Model, func(), error) {
	return r.Models.Use(ctx, r.known(name))
}

func (r renamed) Peek(name string) (*Model, func(), error) { return r.Models.Peek(r.known(name)) }

func (r renamed) Load(ctx context.Context, name string) error {
	return r.Models.Load(ctx, r.known(name))
}

func (r renamed) Unload(ctx context.Context, name string) error {
	return r.Models.Unload(ctx, r.known(name))
}

func (r renamed) Keep(name string, d time.Duration) error { return r.Models.Keep(r.known(name), d) }

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
func (s *Single) Peek(name string) (*Model, func(), error) {
	return s.Use(context.Background(), name)
}

// ErrLoading refuses a request while the model is being loaded.
var ErrLoading = &Error{Status: http.StatusServiceUnavailable, Type: "unavailable_error", Message: "Loading model", RetryAfter: retryAfter}

// NotLoaded refuses a look at a model that is not loaded. why is the error of loading it, if that failed.
func NotLoaded(name string, why error) *Error {
	e := Unavailable("the model %.200q is not loaded, and looking at it does not load it; POST /models/load does", name)
	if why != nil {
		e = Unavailable("the model %.200q could not be loaded: %s; looking at it does not try again, POST /models/load does", name, why)
	}
	e.RetryAfter = 0 // which would not help
	return e
}

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
func (s *Single) Load(context.Context, string) error { return ErrStays }

// Unload reports that the model stays.
func (s *Single) Unload(context.Context, string) error { return ErrStays }

// Keep does nothing: the model stays loaded.
func (s *Single) Keep(string, time.Duration) error { return nil }

// ErrStays refuses to load or unload the only model.
var ErrStays = NotSupported("the server was started with one model, which stays loaded; --models-dir serves several")
