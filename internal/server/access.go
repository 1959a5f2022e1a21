package server

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/fault"
)

// public are the paths that need no key.
var public = []string{"/health", "/v1/health"}

// Handler returns the handler of all requests. It checks names, origins and keys, and logs each request without its
// content.
func (s *Server) Handler() http.Handler {
	inner := http.Handler(http.HandlerFunc(s.admit))
	if s.o.Page != nil {
		inner = s.o.Page(inner)
	}
	return s.timely(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			took := time.Since(begin)
			if s.o.Meter != nil {
				_, route := s.mux.Handler(r)
				s.o.Meter.Request(route, status.status, took)
			}
			if text := hiddenText(status.failed); text != "" {
				s.o.Log.Warn("a request failed", "path", r.URL.Path, "error", text)
			}
			s.o.Log.Info("request", "method", r.Method, "path", r.URL.Path, "status", status.status, "ms", took.Milliseconds(), "from", r.RemoteAddr)
		}()
		if !s.checkHost(status, r) {
			return
		}
		err := fault.Guard(func() error { inner.ServeHTTP(status, r); return nil })
		switch {
		case err == nil:
		case status.begun:
			panic(http.ErrAbortHandler) // else the answer would seem whole
		default:
			s.refuse(status, r, err)
		}
	}))
}

// admit checks a request's origin and key, and has its route answer it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	if !s.checkOrigin(w, r) {
		return
	}
	if !slices.Contains(public, r.URL.Path) && !s.hasKey(r) {
		s.refuse(w, r, &Error{Status: http.StatusUnauthorized, Type: "authentication_error", Message: "the API key is missing or wrong"})
		return
	}
	if r.RequestURI == "*" { // the mux would answer it without a reason
		s.refuse(w, r, NotFound("there is no %s *", r.Method))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// hasKey reports whether the request has one of the keys, or none is needed.
func (s *Server) hasKey(r *http.Request) bool {
	if !s.keys.wanted() {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		given = r.Header.Get("X-Api-Key")
	}
	return s.keys.has(given)
}

// checkOrigin refuses requests of web pages that may not ask, and answers preflights. A preflight of such a page is
// answered without the headers that a browser needs to go on. It reports whether to go on.
func (s *Server) checkOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		if s.allMayAsk() || !ofAnotherPage(r) {
			return true
		}
		s.refuse(w, r, errOrigin)
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !s.mayAsk(origin, r) {
		if r.Method != http.MethodOptions {
			s.refuse(w, r, errOrigin)
		}
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	if r.Method != http.MethodOptions {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
	headers := r.Header.Get("Access-Control-Request-Headers") // named, since * does not stand for Authorization
	if headers == "" {
		headers = "Authorization, Content-Type, X-Api-Key"
	}
	h.Set("Access-Control-Allow-Headers", headers)
	return false
}

var errOrigin = &Error{Status: http.StatusForbidden, Type: "permission_error", Message: "web pages of this origin may not ask; --cors-origin allows one"}

// ofAnotherPage reports whether a browser sent a request for a page of another origin without naming that origin, as it
// does for forms and pictures. A link that a user follows does not count: it only shows what the server answers anyone.
func ofAnotherPage(r *http.Request) bool {
	h := r.Header
	if site := h.Get("Sec-Fetch-Site"); site != "cross-site" && site != "same-site" {
		return false // a program, the server's own page, or what a user typed
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return true
	}
	return !slices.Contains(public, r.URL.Path) && (h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document")
}

// allMayAsk reports whether pages of all origins may ask: they are allowed, or have to know a key.
func (s *Server) allMayAsk() bool {
	return slices.Contains(s.o.Origins, "*") || s.keys.wanted() && len(s.o.Origins) == 0
}

// mayAsk reports whether pages of an origin may ask. The server's own page may, and those on the list. Where keys keep
// strangers out, pages of this machine may, and without a list all pages. Where only this machine reaches the server,
// its pages may.
func (s *Server) mayAsk(origin string, r *http.Request) bool {
	if s.allMayAsk() || slices.Contains(s.o.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	return isOwn(u, r) || (s.o.Local || s.keys.wanted() || slices.Contains(s.o.Origins, "localhost")) && isLocal(u)
}

// isOwn reports whether an origin is the server's own page: it has the scheme, host and port that the request was sent
// to. checkHost has accepted the host. The port may differ from the one that the server listens on, because a container
// or a proxy may map it. If a proxy terminates TLS, only the browser knows the scheme; Sec-Fetch-Site then says whether
// all three are the same.
func isOwn(u *url.URL, r *http.Request) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
	case "same-origin":
		scheme = u.Scheme
	default:
		return false
	}
	usual := map[string]string{"http": "80", "https": "443"}[scheme]
	name, port, ok := splitHost(u.Host)
	asked, at, valid := splitHost(r.Host)
	return usual != "" && u.Scheme == scheme && ok && valid && name != "" && name == asked && cmp.Or(port, usual) == cmp.Or(at, usual)
}

// appSchemes are schemes of origins that no web page has: programs with a browser in them, and browser extensions.
var appSchemes = []string{
	"app", "file", "tauri", "vscode-webview", "vscode-file", "capacitor", "ionic", "wails", "chrome-extension", "moz-extension", "safari-web-extension",
}

// isLocal reports whether an origin is a page or a program of this machine.
func isLocal(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" {
		return slices.Contains(appSchemes, u.Scheme)
	}
	name := u.Hostname()
	ip := net.ParseIP(name)
	return isLocalhost(name) || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// statusWriter remembers what became of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	begun  bool  // an answer has begun, which an error can no longer replace
	failed error // what the request is answered with, see noteError
}

func (w *statusWriter) WriteHeader(status int) {
	w.status, w.begun = status, true
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(data []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
