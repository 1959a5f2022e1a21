package server

import (
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

// Handler returns the handler of all requests. It checks keys and origins, and logs each request without its content.
func (s *Server) Handler() http.Handler {
	inner := http.Handler(http.HandlerFunc(s.admit))
	if s.o.Page != nil {
		inner = s.o.Page(inner)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the last request's over the connection
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			s.held.Add(-status.held)
			took := time.Since(begin)
			if s.o.Meter != nil {
				_, route := s.mux.Handler(r)
				s.o.Meter.Request(route, status.status, took)
			}
			s.o.Log.Info("request", "method", r.Method, "path", r.URL.Path, "status", status.status, "ms", took.Milliseconds(), "from", r.RemoteAddr)
		}()
		err := fault.Guard(func() error { inner.ServeHTTP(status, r); return nil })
		switch {
		case err == nil:
		case status.begun:
			panic(http.ErrAbortHandler) // else the answer would seem whole
		default:
			s.refuse(status, r, err)
		}
	})
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

// checkOrigin refuses requests of web pages that may not ask, and answers preflights; one of such a page is answered
// without the headers by which a browser goes on. It reports whether to go on.
func (s *Server) checkOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !s.mayAsk(origin, r.Host) {
		if r.Method != http.MethodOptions {
			s.refuse(w, r, &Error{Status: http.StatusForbidden, Type: "permission_error", Message: "web pages of this origin may not ask; --cors-origin allows one"})
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

// mayAsk reports whether pages of an origin may ask. The server's own page may, and those on the list. Where keys keep
// strangers out, pages of this machine may, and without a list all pages. Where only this machine reaches the server,
// its pages may.
func (s *Server) mayAsk(origin, host string) bool {
	list := s.o.Origins
	if slices.Contains(list, "*") || slices.Contains(list, origin) || s.keys.wanted() && len(list) == 0 {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	if u.Host != "" && u.Host == host {
		return true
	}
	return (s.o.Local || s.keys.wanted() || slices.Contains(list, "localhost")) && isLocal(u)
}

// appSchemes are those of origins that no web page has: of programs with a browser in them, and of browsers'
// extensions.
var appSchemes = []string{
	"app", "file", "tauri", "vscode-webview", "vscode-file", "capacitor", "ionic", "wails", "chrome-extension", "moz-extension", "safari-web-extension",
}

// isLocal reports whether an origin is a page or a program of this machine.
func isLocal(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" {
		return slices.Contains(appSchemes, u.Scheme)
	}
	name := u.Hostname()
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // which browsers never ask a name server for
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// statusWriter remembers what became of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	begun  bool  // an answer has begun, which an error can no longer replace
	held   int64 // bytes of the request's body that the server holds
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
