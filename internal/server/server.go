// Package server answers requests over HTTP with models: a queue with a limit, keys, origins, bodies within bounds,
// streams of events. The APIs that clients speak are the packages below it.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of what clients send, and how.
const (
	maxBody       = 32 << 20 // bytes
	maxHeader     = 64 << 10 // bytes
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	usualTimeout  = 30 * time.Second
	usualGrace    = 30 * time.Second
	lastTime      = 2 * time.Second // the end of Options.Grace, in which clients learn that their requests were cut
	maxStreams    = 100             // concurrent requests of an HTTP/2 connection
)

// Options are the choices made when a server is started.
type Options struct {
	Keys    []string      // a request must have one of these or one of KeyFile; without keys every client may ask
	KeyFile string        // read again when it changes, see ReadKeys
	Origins []string      // web pages that may ask; "*" is all, "localhost" all pages of this machine
	Hosts   []string      // further names that the server answers to without keys, see ParseHost
	Router  *Router       // set if the server has several models
	Local   bool          // only programs of this machine reach the server
	Timeout time.Duration // how long a client may send nothing of a request, or read nothing of its answer; 0: 30 s
	Log     *slog.Logger
	Page    func(next http.Handler) http.Handler // serves the page, which browsers load without a key, and forwards other requests; nil: there is no page
	Meter   Meter                                // nil: nothing is counted
	Fetches bool                                 // /api/pull downloads models
	Known   []Published                          // models that it can download, for users to choose from
	RAM     int64                                // bytes of the machine's memory; 0: unknown
	TLS     *tls.Config                          // nil: plain HTTP

	MediaDomains []string // hosts that pictures may be fetched from, such as a.org and *.b.org; none: pictures come in requests only

	Grace       time.Duration // Serve ends within this time; 0: 30 s
	Memory      int64         // bytes that all requests together may take; 0: 1 GiB
	Connections int           // connections that may be open; 0: 1024
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
	Most     int  // models loaded at a time; 0: as many as fit
	Autoload bool // a request loads the model that it names
}

// A Server answers requests with its models.
type Server struct {
	Models Models
	Asleep atomic.Pointer[map[string]any] // properties of the only model, told while it sleeps; nil: it never does
	o      Options
	mux    *http.ServeMux
	keys   *keys
	hosts  *hosts
	began  time.Time

	unknown unknownFields
	web     *web

	memory *pool // the memory that requests take

	stopping context.Context // ends when Serve stops taking new requests
	stop     context.CancelFunc

	forms    map[string]ErrorForm // by the pattern of a route
	variants map[string]variant   // by the pattern of a route that has one
}

// New returns a server of models, which stay the caller's. Routes are added by API.
func New(models Models, o Options) *Server {
	s := &Server{Models: renamed{models}, o: o, mux: http.NewServeMux(), forms: map[string]ErrorForm{}, variants: map[string]variant{}, began: time.Now(), memory: newPool(o.Memory), web: newWeb(o.MediaDomains)}
	s.o.Timeout, s.o.Grace = cmp.Or(o.Timeout, usualTimeout), cmp.Or(o.Grace, usualGrace)
	s.keys, s.hosts = newKeys(&o), newHosts(&o)
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

// UntilStop returns a context that ends with ctx and when the server is being stopped, for work that another request goes
// on with later.
func (s *Server) UntilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() {
		unhook()
		cancel()
	}
}

// Serve answers requests at l until ctx ends. Then it returns within Options.Grace, whatever clients do. Running
// requests may finish until lastTime before that; the others are cut, and their clients are told.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	running, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	g := newGate(l, &s.o)
	defer g.endAll(time.Time{})
	h := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: min(headerTimeout, s.o.Timeout), IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: s.o.Timeout},
		BaseContext: func(net.Listener) context.Context { return running },
		ConnContext: withConn,
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),

		DisableGeneralOptionsHandler: true, // it would answer "OPTIONS *" without deadlines and checks
	}
	ended := make(chan error, 1)
	go func() {
		if s.o.TLS != nil {
			h.TLSConfig = s.o.TLS
			ended <- h.ServeTLS(g, "", "")
			return
		}
		ended <- h.Serve(g)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.o.Log.Info("stopping: no new requests are taken")
	s.stop()
	last := min(lastTime, s.o.Grace/4)
	limit, cancel := context.WithTimeout(running, s.o.Grace-last)
	defer cancel()
	go g.drain(limit)
	err := h.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		cut()
		limit, cancel := context.WithTimeout(context.Background(), last/2)
		defer cancel()
		if h.Shutdown(limit) != nil {
			h.Close()
		}
		err = nil
	}
	<-ended
	return err
}
