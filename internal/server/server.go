// Package server answers requests over HTTP with one model: a queue with a limit, keys, origins, bodies within bounds, streams of events.
// The APIs that clients speak are the packages below it.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Bounds of what clients send.
const (
	maxBody       = 32 << 20 // bytes
	maxHeader     = 64 << 10 // bytes
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Options are the choices made when a server is started.
type Options struct {
	Name     string         // of the model, for clients
	Path     string         // of the model's file
	Slots    int            // requests that generate at a time
	Queue    int            // requests that may wait besides
	Predict  int            // tokens that an answer has at most where a request does not say; -1: no limit
	Sampling sample.Options // where a request says nothing else
	Template *chat.Template
	Stop     []string // texts that end every answer of a chat
	Kwargs   Kwargs   // variables of the chat template
	Keys     []string // one of which a request must have; none: all may ask
	Origins  []string // of web pages that may ask; "*" for all
	Timeout  time.Duration
	Log      *slog.Logger
}

// A Server has a model and answers requests.
type Server struct {
	Engine  *engine.Engine
	o       Options
	mux     *http.ServeMux
	keys    [][keySize]byte
	slots   chan int // free ones, by number
	busy    []atomic.Bool
	waiting atomic.Int64 // requests within, those that generate included
	ends    []int32      // tokens that end a text
	began   time.Time

	vocabulary func() (*grammar.Vocabulary, error)
}

// New returns a server of e's model, which stays the caller's.
func New(e *engine.Engine, o Options) *Server {
	s := &Server{Engine: e, o: o, mux: http.NewServeMux(), slots: make(chan int, o.Slots), busy: make([]atomic.Bool, o.Slots), began: time.Now()}
	for i := range o.Slots {
		s.slots <- i
	}
	s.keys = hashes(o.Keys)
	tok := e.Tokenizer()
	for id := range int32(tok.Size()) {
		if tok.IsEOG(id) {
			s.ends = append(s.ends, id)
		}
	}
	s.vocabulary = sync.OnceValues(func() (*grammar.Vocabulary, error) { return session.Vocabulary(tok) })
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		WriteError(w, &Error{Status: http.StatusNotFound, Type: "not_found_error", Message: "there is no " + r.Method + " " + r.URL.Path})
	})
	return s
}

// Options returns what the server was started with.
func (s *Server) Options() *Options { return &s.o }

// Began returns when the server was made.
func (s *Server) Began() time.Time { return s.began }

// Busy reports of each slot whether a request generates in it.
func (s *Server) Busy() []bool {
	all := make([]bool, len(s.busy))
	for i := range s.busy {
		all[i] = s.busy[i].Load()
	}
	return all
}

// Get has path answered by handle.
func (s *Server) Get(path string, handle func(w http.ResponseWriter, r *http.Request)) {
	s.mux.HandleFunc("GET "+path, handle)
}

// Post has what is posted to path answered by handle. An error is told to the client in the common form.
func (s *Server) Post(path string, handle func(w http.ResponseWriter, r *http.Request, f *Fields) error) {
	s.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		f, err := s.readBody(w, r)
		if err != nil {
			WriteError(w, err)
			return
		}
		if err := handle(w, r, f); err != nil && r.Context().Err() == nil {
			WriteError(w, err)
		}
	})
}

// readBody reads a request's body, which must come within the timeout.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*Fields, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(s.o.Timeout)) // a recorder of tests has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Message: "the body is larger than 32 MiB"}
	case err != nil:
		return nil, &Error{Status: http.StatusRequestTimeout, Type: "invalid_request_error", Message: "the body could not be read"}
	}
	control.SetReadDeadline(time.Time{}) // else the request would end with it
	return parseFields(body)
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
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.o.Log.Info("stopping: no new requests are taken")
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
