// Package page holds the web page that a server shows: a chat, and the neurons at work. Its sources are in web; "make
// page" builds them. Scripts and styles are embedded with gzip.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// policy lets the page load its own script and style and ask its own server; nothing else, whatever a model writes.
// Text becomes elements only through DOMPurify. The page has two instances of it, hence allow-duplicates.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify 'allow-duplicates'"

// A file of the page.
type file struct {
	body   []byte
	packed []byte // with gzip; nil where that is not embedded
	kind   string // of content
	tag    string // changes with the content
	hashed bool   // its name changes with its content, too
}

// kinds are the types of content by the names' extensions.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}

// files returns the page's files by their paths. They are unpacked once, when a browser first asks.
var files = sync.OnceValue(func() map[string]*file {
	all := map[string]*file{}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		f := &file{body: body}
		at, packed := strings.CutSuffix(strings.TrimPrefix(name, "dist"), ".gz")
		if packed {
			f.packed = body
			if f.body, err = unpack(body); err != nil {
				return err
			}
		}
		sum := sha256.Sum256(f.body)
		f.kind, f.hashed, f.tag = kinds[path.Ext(at)], strings.HasPrefix(at, "/assets/"), `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
		all[at] = f
		return nil
	})
	if err != nil {
		panic(err) // the files are compiled in
	}
	all["/"] = all["/index.html"]
	return all
})

// most is more than any file of the page has.
const most = 1 << 26

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, most))
}

// Handler answers a browser's requests for the page and hands all others to next. At / that is a request that takes
// HTML: clients of Ollama's API and of others ask there, too.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := fileOf(r)
		if f == nil {
			next.ServeHTTP(w, r)
			return
		}
		f.serve(w, r)
	})
}

// fileOf returns the file that a browser asks for, or nil.
func fileOf(r *http.Request) *file {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	if r.URL.Path == "/" && !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return nil
	}
	return files()[r.URL.Path]
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("ETag", f.tag)
	h.Add("Vary", "Accept-Encoding, Accept")
	if h.Set("Cache-Control", "no-cache"); f.hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.body
	if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		w.Write(body)
	}
}
