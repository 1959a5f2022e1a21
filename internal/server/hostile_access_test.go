package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
	neuronapi "github.com/powerinfer-go/powerinfer/internal/server/neurons"
	"github.com/powerinfer-go/powerinfer/internal/server/page"
)

// raw sends lines as a request, as no client of the standard library would, and returns the answer.
func (l *live) raw(lines ...string) *http.Response {
	l.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		l.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		l.t.Fatalf("%q: %v", lines, err)
	}
	return res
}

// TestHosts: without a key the server accepts only host names that no web site can own.
func TestHosts(t *testing.T) {
	anywhere := []string{
		"localhost", "localhost:8080", "LocalHost.", "localhost:", "a.localhost:1", "127.0.0.1", "127.0.0.1:3000", "127.0.0.1.", "127.1:80", "10.1.2.3",
		"8.8.8.8:80", "[::1]", "[::1]:8080", "[2001:DB8::1]:1", "[fe80::1%25eth0]:8080", "host.docker.internal:8080", "Gateway.docker.internal", "host.containers.internal.:80", "chat.example.org", "CHAT.Example.ORG.:443",
		"a.b.listed.example", "given.example",
	}
	network := []string{
		"powerinfer", "powerinfer:8080", "desk.local", "powerinfer.models.svc.cluster.local:80", "desk.home.arpa", "desk.lan:8080", "evil.internal",
		"x.host.docker.internal:8080", "desk.localdomain", "powerinfer.models.svc:80",
	}
	strangers := []string{
		"evil.example", "evil.example:8080", "EVIL.example.", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost.example", "evillocalhost.example:80",
		"local.example", "internal.example", "chat.example.org.evil.example", "listed.example", "xlisted.example", "evil.example:80:80", "evil.example:x", "127.0.0.1:x", "powerinfer.models", "svc.example",
		"[::1", "[::1]x", "[::1].evil.example", "[evil.example]", "[127.0.0.1]", "::1", ":8080", ".", "..", "localhost..", "1.2.3.4.5", "0x7f.0.0.1.evil",
	}
	for name, k := range map[string]struct {
		change              func(*choices)
		network, all, every bool
	}{
		"loopback":    {func(o *choices) { o.Local = true }, false, false, false},
		"a network":   {func(o *choices) {}, true, false, false},
		"keys":        {func(o *choices) { o.Keys = []string{"k"} }, true, true, true},
		"every name":  {func(o *choices) { o.Local, o.Hosts = true, []string{"*"} }, true, true, true},
		"with a page": {func(o *choices) { o.Local, o.Page = true, page.Handler }, false, false, false},
	} {
		l := start(t, func(o *choices) {
			o.Hosts = []string{"Chat.example.org", "*.listed.example", "given.example."}
			k.change(o)
		})
		check := func(want bool, lines ...string) {
			t.Helper()
			res := l.raw(lines...)
			text, _ := io.ReadAll(res.Body)
			if got := res.StatusCode == http.StatusMisdirectedRequest; got == want || got && !strings.Contains(string(text), "--allowed-hosts") && lines[0] != "HEAD /v1/models HTTP/1.1" {
				t.Errorf("%s: %q: status %d: %s", name, lines, res.StatusCode, text)
			}
		}
		request := func(host string) []string {
			return []string{"GET /v1/models HTTP/1.1", "Authorization: Bearer k", "Host: " + host, "Connection: close"}
		}
		for _, host := range anywhere {
			check(true, request(host)...)
		}
		for _, host := range network {
			check(k.network || k.all, request(host)...)
		}
		for _, host := range strangers {
			check(k.all, request(host)...)
		}
		check(true, "GET /v1/models HTTP/1.0")                                        // has no name
		check(k.all, "GET http://evil.example/v1/models HTTP/1.1", "Host: localhost") // the first counts
		check(k.all, "GET /v1/models HTTP/1.1", "Host: evil.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost", "X-Real-Host: localhost")
		if res := l.raw("GET /v1/models HTTP/1.1", "Host: localhost", "Host: evil.example"); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: two names: status %d", name, res.StatusCode)
		}
		for _, line := range []string{
			"GET /", "GET /index.html", "GET /health", "GET /metrics", "GET /props", "GET /nowhere", "HEAD /v1/models", "OPTIONS /v1/models", "DELETE /api/delete",
			"POST /v1/chat/completions", "POST /api/pull", "POST /models/load", "PUT /x", "PATCH /x", "TRACE /x",
		} {
			check(k.every, line+" HTTP/1.1", "Host: evil.example", "Origin: http://evil.example", "Accept: text/html", "Content-Length: 0", "Connection: close")
		}
	}
}

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"chat.example.org": "chat.example.org", "Chat.Example.org.": "chat.example.org", "chat.example.org:8443": "chat.example.org", "*": "*", "*.example.org": "*.example.org",
		"[::1]:80": "::1", "https://chat.example.org": "", "": "", "a/b": "", "*.*.x": "", "a*": "", "a b": "", ":80": "", "x:y": "", "u@x": "",
	} {
		if got, err := server.ParseHost(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
}

// TestSocketHasNoNames: browsers do not reach a socket in the file system, so its clients may use any host name.
func TestSocketHasNoNames(t *testing.T) {
	l := start(t, func(o *choices) { o.Local = true })
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("there are no such sockets here:", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.s.Serve(ctx, listener) }()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	res, err := client.Get("http://any.example/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOwnPage: scheme, host and port distinguish the server's own page from others.
func TestOwnPage(t *testing.T) {
	l := start(t, func(o *choices) { o.Hosts = []string{"chat.example.org", "10.0.0.1"} }) // pages of this machine may not ask
	for _, k := range []struct {
		host, origin, site string
		may                bool
	}{
		{"10.0.0.1:8080", "http://10.0.0.1:8080", "", true},
		{"10.0.0.1:8080", "http://10.0.0.1:8080", "same-origin", true},
		{"10.0.0.1:3000", "http://10.0.0.1:3000", "", true}, // a container's port, shown by another
		{"10.0.0.1", "http://10.0.0.1", "", true},
		{"10.0.0.1", "http://10.0.0.1:80", "", true},
		{"10.0.0.1:80", "http://10.0.0.1", "", true},
		{"[fd00::1]:8080", "http://[fd00::1]:8080", "", true},
		{"chat.example.org", "https://chat.example.org", "same-origin", true}, // a proxy speaks TLS
		{"chat.example.org", "https://chat.example.org", "", false},
		{"10.0.0.1:8080", "https://10.0.0.1:8080", "", false},
		{"10.0.0.1:443", "https://10.0.0.1", "", false},
		{"10.0.0.1:8080", "http://10.0.0.1:8081", "", false},
		{"10.0.0.1:8080", "http://10.0.0.1:8081", "same-site", false},
		{"10.0.0.1:8080", "http://10.0.0.1", "", false},
		{"10.0.0.1", "http://10.0.0.1:443", "", false},
		{"10.0.0.1:8080", "http://10.0.0.1:8080", "cross-site", false},
		{"10.0.0.1:8080", "http://10.0.0.1:8080", "none", false},
		{"10.0.0.1:8080", "http://10.0.0.2:8080", "same-origin", false},
		{"localhost:8080", "http://127.0.0.1:8080", "cross-site", false},
		{"localhost:8080", "http://localhost:8080", "", true},
		{"localhost:8080", "http://localhost:3000", "same-site", false},
		{"10.0.0.1:8080", "null", "same-origin", false},
		{"10.0.0.1:8080", "file://10.0.0.1:8080", "same-origin", false},
		{"10.0.0.1:8080", "//10.0.0.1:8080", "same-origin", false},
		{"10.0.0.1:8080", "http://10.0.0.1:8080:8080", "", false},
	} {
		lines := []string{"POST /tokenize HTTP/1.1", "Host: " + k.host, "Origin: " + k.origin, "Content-Length: 15", "Connection: close"}
		if k.site != "" {
			lines = append(lines, "Sec-Fetch-Site: "+k.site)
		}
		res := l.raw(append(lines, "", `{"content":"a"}`)...)
		if may := res.StatusCode == http.StatusOK; may != k.may || !may && res.StatusCode != http.StatusForbidden {
			t.Errorf("%q: status %d", lines, res.StatusCode)
		}
	}
}

// TestPagesThatHide: a browser's request for a page of another origin is refused even without an Origin header, unless
// it only shows something to its user.
func TestPagesThatHide(t *testing.T) {
	servers := map[string]*live{
		"local":  start(t, func(o *choices) { o.Local = true }),
		"listed": start(t, func(o *choices) { o.Local, o.Origins = true, []string{"https://page.example"} }),
		"all":    start(t, func(o *choices) { o.Origins = []string{"*"} }),
		"keys":   start(t, func(o *choices) { o.Keys = []string{"k"} }),
	}
	for _, k := range []struct {
		server  string
		method  string
		path    string
		headers []string
		may     bool
	}{
		{"local", "POST", "/tokenize", nil, true},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "none"}, true},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"}, false},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, false},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "same-site"}, false},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Origin", "null"}, false},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://page.example"}, false},
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Origin", "http://localhost:3000"}, true}, // this machine's
		{"local", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Origin", "app://obsidian.md"}, true},
		{"local", "GET", "/v1/models", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
		{"local", "GET", "/v1/models", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		{"local", "GET", "/v1/models", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true}, // a link
		{"local", "GET", "/health", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, true},
		{"listed", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://page.example"}, true},
		{"all", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site"}, true},
		{"keys", "POST", "/tokenize", []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer k"}, true},
	} {
		body := ""
		if k.method == "POST" {
			body = `{"content":"a"}`
		}
		res := servers[k.server].request(t.Context(), k.method, k.path, body, k.headers...)
		res.Body.Close()
		if may := res.StatusCode == http.StatusOK; may != k.may || !may && res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s %s with %q: status %d", k.server, k.method, k.path, k.headers, res.StatusCode)
		}
	}
}

// onlyLooked are models that nothing may be done to.
type onlyLooked struct {
	server.Models
	t *testing.T
}

func (o onlyLooked) Peek(name string) (*server.Model, func(), error) {
	return nil, nil, server.NotLoaded(name, nil)
}

func (o onlyLooked) fail() error {
	o.t.Helper()
	o.t.Error("a request that may change nothing does something to a model")
	return fmt.Errorf("not allowed")
}

func (o onlyLooked) Use(context.Context, string) (*server.Model, func(), error) {
	return nil, nil, o.fail()
}
func (o onlyLooked) Load(context.Context, string) error   { return o.fail() }
func (o onlyLooked) Unload(context.Context, string) error { return o.fail() }
func (o onlyLooked) Keep(string, time.Duration) error     { return o.fail() }

// TestLooking: GET, HEAD and OPTIONS change no model on any route.
func TestLooking(t *testing.T) {
	l := start(t, func(o *choices) { o.Local, o.Router = true, &server.Router{Autoload: true} })
	neuronapi.Register(l.s)
	l.s.Models = onlyLooked{l.s.Models, t}
	gone, cancel := context.WithCancel(t.Context()) // some answers are endless
	cancel()
	for _, route := range l.s.Routes() {
		_, path, found := strings.Cut(route, " ")
		if !found {
			path = route
		}
		path = strings.NewReplacer("{id...}", "tales", "{id}", "0", "{$}", "").Replace(path)
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			for _, query := range []string{"", "?model=tales", "?model=tales&autoload=true&action=save"} {
				w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(gone, method, "http://localhost"+path+query, nil)
				l.s.Handler().ServeHTTP(w, r)
				if path == "/props" && method == "GET" && query != "" && w.Code != http.StatusServiceUnavailable {
					t.Errorf("GET %s%s: status %d", path, query, w.Code)
				}
			}
		}
	}
}
