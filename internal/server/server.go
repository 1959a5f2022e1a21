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
	lastTime      = 2 * time.Second // of Options.Grace, in which clients are told that their requests were cut
	maxStreams    = 100             // requests at a time over a connection of HTTP/2
)

// Options are the choices made when a server is started.
type Options struct {
	Keys    []string      // one of which a request must have, or one of KeyFile; where there are neither all may ask
	KeyFile string        // is read again when it changes, see ReadKeys
	Origins []string      // of web pages that may ask; "*" for all, "localhost" for those of this machine
	Hosts   []string      // names that the server goes by where there are no keys, besides those that no site can own, see ParseHost
	Router  *Router       // of a server of several models; else nil
	Local   bool          // only programs of this machine reach the server
	Timeout time.Duration // in which a client must send something of a request, or take something of its answer; 0: 30 s
	Log     *slog.Logger
	Page    func(next http.Handler) http.Handler // answers what browsers load, without a key, and hands on the rest; nil: nothing does
	Meter   Meter                                // nil: nobody counts
	Fetches bool                                 // /api/pull fetches models
	Known   []Published                          // that it can fetch, for users to choose from
	RAM     int64                                // bytes of the machine's memory, with which users compare models; 0: not known
	TLS     *tls.Config                          // nil: requests come in plain text

	Grace       time.Duration // in which Serve ends; 0: 30 s
	Memory      int64         // bytes that all requests may take together; 0: 1 GiB
	Connections int           // that may be open; 0: 1024
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
	hosts  *hosts
	began  time.Time

	unknown unknownFields

	memory *pool // that requests take

	stopping context.Context // ends when Serve takes no new requests any more
	stop     context.CancelFunc

	forms    map[string]ErrorForm // by the pattern of a route
	variants map[string]variant   // by the pattern of a route that has one
}

// New returns a server of models, which stay the caller's. Routes are added by API.
func New(models Models, o Options) *Server {
	s := &Server{Models: renamed{models}, o: o, mux: http.NewServeMux(), forms: map[string]ErrorForm{}, variants: map[string]variant{}, began: time.Now(), memory: newPool(o.Memory)}
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

// Serve answers what comes in at l until ctx ends. It returns within Options.Grace then, whatever clients do: requests
// that run may end until a moment before, in which clients of the others are told that they were cut.
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
