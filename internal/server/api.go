package server

import (
	"maps"
	"net/http"
	"slices"
)

// An API adds routes with one form of errors to a server.
type API struct {
	s    *Server
	form ErrorForm
}

// API returns an API with errors in a form.
func (s *Server) API(form ErrorForm) *API { return &API{s, form} }

// Default answers paths below prefix that have no route with an error in this form.
func (a *API) Default(prefix string) {
	a.handle(prefix, func(_ http.ResponseWriter, r *http.Request) error {
		return NotFound("there is no %s %s", r.Method, r.URL.Path)
	})
}

// Get registers handle for GET requests to path.
func (a *API) Get(path string, handle func(w http.ResponseWriter, r *http.Request) error) {
	a.handle("GET "+path, handle)
}

// Show registers handle for GET requests to path, with the model that the query's value model names, or the usual one.
// The model must be loaded already: a GET request changes nothing, so it loads no model and wakes none that sleeps.
func (a *API) Show(path string, handle func(w http.ResponseWriter, r *http.Request, m *Model) error) {
	a.Get(path, func(w http.ResponseWriter, r *http.Request) error {
		m, release, err := a.s.Models.Peek(r.URL.Query().Get("model"))
		if err != nil {
			return err
		}
		defer release()
		return handle(w, r, m)
	})
}

// Post registers handle for POST requests to path.
func (a *API) Post(path string, handle func(w http.ResponseWriter, r *http.Request, f *Fields) error) {
	a.Body("POST", path, handle)
}

// Body registers handle for requests to path with that method and a body.
func (a *API) Body(method, path string, handle func(w http.ResponseWriter, r *http.Request, f *Fields) error) {
	a.handle(method+" "+path, func(w http.ResponseWriter, r *http.Request) error {
		f, err := a.s.readBody(w, r)
		if err != nil {
			return err
		}
		return handle(w, r, f)
	})
}

// Delete registers handle for DELETE requests to path.
func (a *API) Delete(path string, handle func(w http.ResponseWriter, r *http.Request) error) {
	a.handle("DELETE "+path, handle)
}

// Ask registers handle for POST requests to path, with the model that the field model names, or the usual one. The
// model stays loaded until handle returns.
func (a *API) Ask(path string, handle func(w http.ResponseWriter, r *http.Request, f *Fields, m *Model) error) {
	a.Post(path, func(w http.ResponseWriter, r *http.Request, f *Fields) error {
		name := ""
		if f.Read("model", &name); f.err != nil {
			return f.err
		}
		return a.with(r, name, func(m *Model) error { return handle(w, r, f, m) })
	})
}

// Control registers handle for POST requests to path, with the model that the field or the query's value model names,
// or the usual one. The body may be empty.
func (a *API) Control(path string, handle func(w http.ResponseWriter, r *http.Request, f *Fields, m *Model) error) {
	a.handle("POST "+path, func(w http.ResponseWriter, r *http.Request) error {
		f, err := parseFields([]byte("{}"))
		if r.ContentLength != 0 {
			f, err = a.s.readBody(w, r)
		}
		if err != nil {
			return err
		}
		name := r.URL.Query().Get("model")
		if f.Read("model", &name); f.err != nil {
			return f.err
		}
		return a.with(r, name, func(m *Model) error { return handle(w, r, f, m) })
	})
}

// List registers handle for POST requests to path with a list as body. The query's value model names the model; without
// it the usual one answers. The list is the field name.
func (a *API) List(path, name string, handle func(w http.ResponseWriter, r *http.Request, f *Fields, m *Model) error) {
	a.handle("POST "+path, func(w http.ResponseWriter, r *http.Request) error {
		body, err := a.s.readAll(w, r)
		if err != nil {
			return err
		}
		f, err := parseList(body, name)
		if err != nil {
			return err
		}
		f.of(r)
		return a.with(r, r.URL.Query().Get("model"), func(m *Model) error { return handle(w, r, f, m) })
	})
}

// with calls do with the model of a name, which stays loaded meanwhile.
func (a *API) with(r *http.Request, name string, do func(m *Model) error) error {
	m, release, err := a.s.Models.Use(r.Context(), name)
	if err != nil {
		return err
	}
	defer release()
	return do(m)
}

// A variant answers requests of a route that have a header, because two APIs share the path.
type variant struct {
	header string
	form   ErrorForm
	handle func(w http.ResponseWriter, r *http.Request) error
}

// GetWith registers handle for GET requests to path that have the header; its errors have a's form. Another API answers
// the others.
func (a *API) GetWith(header, path string, handle func(w http.ResponseWriter, r *http.Request) error) {
	a.s.variants["GET "+path] = variant{header, a.form, handle}
}

// variant returns the variant of pattern that answers r, if r has a variant's header.
func (s *Server) variant(pattern string, r *http.Request) (variant, bool) {
	v, ok := s.variants[pattern]
	return v, ok && r.Header.Get(v.header) != ""
}

// handle registers a handler for requests that match pattern; errors are sent in the API's form.
func (a *API) handle(pattern string, handle func(w http.ResponseWriter, r *http.Request) error) {
	a.s.forms[pattern] = a.form
	a.s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		form, answer := a.form, handle
		if v, ok := a.s.variant(pattern, r); ok {
			form, answer = v.form, v.handle
		}
		err := answer(w, r)
		if status, ok := w.(*statusWriter); err != nil && !(ok && status.begun) {
			writeError(w, form, err)
		}
	})
}

// Routes returns the patterns of all routes, sorted.
func (s *Server) Routes() []string { return slices.Sorted(maps.Keys(s.forms)) }

// refuse answers a request before its route does, in the form of the API that the route belongs to.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	_, pattern := s.mux.Handler(r)
	form, ok := s.forms[pattern]
	if v, special := s.variant(pattern, r); special {
		form = v.form
	} else if !ok {
		form = CommonForm
	}
	writeError(w, form, err)
}
