package page_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/server/page"
)

// get asks for path and returns the answer and its body.
func get(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "next") })
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	page.Handler(next).ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

const html = "text/html,application/xhtml+xml,*/*;q=0.8" // what browsers take

func TestWhoGetsThePage(t *testing.T) {
	for _, c := range []struct{ path, accept, want string }{
		{"/", html, "<!doctype html>"},
		{"/index.html", "*/*", "<!doctype html>"},
		{"/licenses.txt", "*/*", "MIT"},
		{"/", "*/*", "next"},
		{"/", "application/json", "next"},
		{"/v1/models", html, "next"},
		{"/assets/absent.js", html, "next"},
	} {
		if _, body := get(t, c.path, "Accept", c.accept); !strings.Contains(body, c.want) {
			t.Errorf("%s for %s: %.60q, want %q", c.path, c.accept, body, c.want)
		}
	}
}

// TestFiles: every file that the page names exists with its type, may be cached forever, and is revalidated by its tag.
func TestFiles(t *testing.T) {
	res, body := get(t, "/", "Accept", html)
	if p := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'") || strings.Contains(p, "unsafe") ||
		!strings.Contains(p, "frame-ancestors 'none'") || !strings.Contains(p, "require-trusted-types-for 'script'") {
		t.Errorf("the policy is %q", p)
	}
	if res.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the page may be kept: %q", res.Header.Get("Cache-Control"))
	}
	names := regexp.MustCompile(`(?:src|href)="\.(/assets/[^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(names) != 2 {
		t.Fatalf("the page names %q", names)
	}
	if regexp.MustCompile(`(?:src|href)="(?:https?:)?//`).MatchString(body) {
		t.Error("the page loads from elsewhere")
	}
	_, style := get(t, names[1][1])
	if fonts := regexp.MustCompile(`url\(([^)]+\.woff2)\)`).FindStringSubmatch(style); fonts == nil {
		t.Error("the style has no font for formulas")
	} else if res, font := get(t, "/assets/"+strings.Trim(fonts[1], `./"`)); res.Header.Get("Content-Type") != "font/woff2" || !strings.HasPrefix(font, "wOF2") {
		t.Errorf("the font %s: %v", fonts[1], res.Header)
	}
	for _, n := range names {
		res, plain := get(t, n[1])
		kind := "text/javascript; charset=utf-8"
		if strings.HasSuffix(n[1], ".css") {
			kind = "text/css; charset=utf-8"
		}
		if res.Header.Get("Content-Type") != kind || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") || len(plain) < 1000 {
			t.Errorf("%s: %v, %d bytes", n[1], res.Header, len(plain))
		}
		if res, body := get(t, n[1], "If-None-Match", res.Header.Get("ETag")); res.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%s again: status %d, %d bytes", n[1], res.StatusCode, len(body))
		}
		res, packed := get(t, n[1], "Accept-Encoding", "br, gzip")
		r, err := gzip.NewReader(strings.NewReader(packed))
		if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %v, %v", n[1], res.Header, err)
		}
		if unpacked, err := io.ReadAll(r); err != nil || string(unpacked) != plain {
			t.Errorf("%s: %d bytes unpacked, %d plain: %v", n[1], len(unpacked), len(plain), err)
		}
	}
}

// TestPacked: scripts and styles are embedded with gzip only.
func TestPacked(t *testing.T) {
	for _, kind := range []string{"js", "css"} {
		if plain, err := filepath.Glob("dist/assets/*." + kind); err != nil || len(plain) > 0 {
			t.Errorf("%v, %v: remove them, and run make page", plain, err)
		}
	}
}
