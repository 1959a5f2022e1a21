// Package server answers requests over HTTP with models: a queue with a limit, keys, origins, bodies within bounds,
// streams of events. The APIs that clients speak are the packages below it.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Bounds of what clients send.
const (
	maxBody       = 32 << 20 // bytes
	maxBodies     = 1 << 30  // bytes of the bodies of all requests that are being answered
	maxHeader     = 64 << 10 // bytes
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Options are the choices made when a server is started.
type Options struct {
	Keys    []string // one of which a request must have, or one of KeyFile; where there are neither all may ask
	KeyFile string   // is read again when it changes, see ReadKeys
	Origins []string // of web pages that may ask; "*" for all, "localhost" for those of this machine
	Router  *Router  // of a server of several models; else nil
	Local   bool     // only programs of this machine reach the server
	Timeout time.Duration
	Log     *slog.Logger
	Page    func(next http.Handler) http.Handler // answers what browsers load, without a key, and hands on the rest; nil: nothing does
	Meter   Meter                                // nil: nobody counts
	Fetches bool                                 // /api/pull fetches models
	Known   []Published                          // that it can fetch, for users to choose from
	TLS     *tls.Config                          // nil: requests come in plain text
}

// Published is a model of the hub.
type Published struct {
	Name  string `json:"name"`
	At    string `json:"at"` // its name at the hub
	Bytes int64  `json:"bytes"`
	About string `json:"about,omitempty"`
}

// A Router is a server of several models, as llama-server calls it.
type Router struct {
	Most     int  // models that are loaded at a time; 0: as many as fit
	Autoload bool // a request loads the model that it names
}

// A Server answers requests with its models.
type Server struct {
	Models Models
	Asleep atomic.Pointer[map[string]any] // properties of the only model, told while it sleeps; nil: it never does
	o      Options
	mux    *http.ServeMux
	keys   *keys
	began  time.Time

	unknown unknownFields

	held     atomic.Int64 // bytes of bodies
	mostHeld int64        // maxBodies, but in tests

	stopping context.Context // ends when Serve takes no new requests any more
	stop     context.CancelFunc

	forms    map[string]ErrorForm // by the pattern of a route
	variants map[string]variant   // by the pattern of a route that has one
}

// New returns a server of models, which stay the caller's. Routes are added by API.
func New(models Models, o Options) *Server {
	s := &Server{Models: renamed{models}, o: o, mux: http.NewServeMux(), forms: map[string]ErrorForm{}, variants: map[string]variant{}, began: time.Now(), mostHeld: maxBodies}
	s.keys = newKeys(&o)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.API(CommonForm).handle("/", func(_ http.ResponseWriter, r *http.Request) error {
		return NotFound("there is no %s %s", r.Method, r.URL.Path)
	})
	return s
}

// Options returns what the server was started with.
func (s *Server) Options() *Options { return &s.o }

// Began returns when the server was made.
func (s *Server) Began() time.Time { return s.began }

// Stopping is closed when the server is being stopped. Answers that have no end of their own end then.
func (s *Server) Stopping() <-chan struct{} { return s.stopping.Done() }

// readBody reads a request's body, which must come within the timeout.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*Fields, error) {
	body, err := s.readAll(w, r)
	if err != nil {
		return nil, err
	}
	f, err := parseFields(body)
	if err == nil {
		f.unknown = func(name string) { s.unknown.tell(s.o.Log, r.URL.Path, name) }
		f.of(r)
	}
	return f, err
}

// errHeld refuses a body where the server holds too many.
var errHeld = Unavailable("the requests that are being answered are too large together; try again later")

// holding counts the bytes of a body as they are read. The request's statusWriter gives them back.
type holding struct {
	io.Reader
	s *Server
	w http.ResponseWriter
}

func (h holding) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if w, ok := h.w.(*statusWriter); ok {
		w.held += int64(n)
		if h.s.held.Add(int64(n)) > h.s.mostHeld {
			return n, errHeld
		}
	}
	return n, err
}

// readAll reads a request's body.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(s.o.Timeout)) // a recorder of tests has none
	body, err := io.ReadAll(holding{http.MaxBytesReader(w, r.Body, maxBody), s, w})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Message: "the body is larger than 32 MiB"}
	case errors.Is(err, errHeld):
		return nil, errHeld
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Error{Status: http.StatusRequestTimeout, Type: "invalid_request_error", Message: fmt.Sprintf("the body did not come within %v", s.o.Timeout)}
	case err != nil:
		return nil, Invalid("the body could not be read: %s", err)
	}
	control.SetReadDeadline(time.Time{}) // else the request would end with it
	return body, nil
}

// Serve answers what comes in at l until ctx ends. Requests that run then have the time of patience to end.
func (s *Server) Serve(ctx context.Context, l net.Listener, patience time.Duration) error {
	running, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	h := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return running },
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			h.TLSConfig = s.o.TLS
			ended <- h.ServeTLS(l, "", "")
			return
		}
		ended <- h.Serve(l)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.o.Log.Info("stopping: no new requests are taken")
	s.stop()
	limit, cancel := context.WithTimeout(running, patience)
	defer cancel()
	err := h.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		cut()
		limit, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(limit) != nil {
			h.Close()
		}
		err = nil
	}
	<-ended
	return err
}
