// Package hubtest stands in for the Hugging Face hub in tests: the routes that lead to a model's files, the redirect to
// a distributor at another address, access by token, and the faults of networks.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hub is a stand-in. Its fields may be changed between requests, under Lock.
type Hub struct {
	sync.Mutex
	URL   string           // of the hub
	Repos map[string]*Repo // by user/repo
	Token string           // of a user who may read everything

	PageSize int                                // files on a page of a list; 0: all
	Answer   func(path string) (status int)     // of routes of the API; nil or 0: as usual
	NoRanges bool                               // the distributor always sends all
	Cut      int64                              // bytes after which the distributor drops a connection; 0: never
	Cuts     int                                // how often it does
	Silence  <-chan struct{}                    // instead, it sends nothing more until this is closed or the client leaves; nil: it does drop it
	Content  func(path string, b []byte) []byte // what the distributor sends instead; nil: b
	Location func(address string) string        // where the hub redirects to; nil: to the distributor

	Requests []Request // received requests

	hub, distributor *httptest.Server
}

// Repo is a repository with all files at one commit.
type Repo struct {
	Files map[string][]byte
	Gated bool // readable only with Hub.Token
}

// Request is a request that came.
type Request struct {
	Distributor bool
	Path        string
	Token       string // of Authorization
	Range       string
	IfRange     string
}

// New starts a hub; Close ends it.
func New() *Hub {
	h := &Hub{Repos: map[string]*Repo{}}
	h.hub = httptest.NewServer(http.HandlerFunc(h.serve))
	h.distributor = httptest.NewServer(http.HandlerFunc(h.distribute))
	h.URL = h.hub.URL
	return h
}

// Close ends the hub, and the connections to it.
func (h *Hub) Close() {
	for _, s := range []*httptest.Server{h.hub, h.distributor} {
		s.CloseClientConnections()
		s.Close()
	}
}

// Log returns the requests that came so far.
func (h *Hub) Log() []Request {
	h.Lock()
	defer h.Unlock()
	return slices.Clone(h.Requests)
}

func (h *Hub) log(r *http.Request, distributor bool) {
	h.Requests = append(h.Requests, Request{
		distributor, r.URL.Path, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Range"), r.Header.Get("If-Range"),
	})
}

// Commit returns the name of the commit that a repository's files are at.
func (r *Repo) Commit() string {
	names := make([]string, 0, len(r.Files))
	for name, b := range r.Files {
		names = append(names, name+SHA256(b))
	}
	slices.Sort(names)
	return gitSHA1([]byte(strings.Join(names, "\n")))
}

// SHA256 returns the hash by which a file is kept.
func SHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func gitSHA1(b []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
	return hex.EncodeToString(sum[:])
}

// large reports whether a file is stored outside Git.
func large(path string) bool { return strings.HasSuffix(path, ".gguf") }

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	h.Lock()
	defer h.Unlock()
	h.log(r, false)
	path, api := strings.CutPrefix(r.URL.Path, "/api/models")
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 4)
	if len(parts) < 2 {
		http.NotFound(w, r)
		return
	}
	if h.Answer != nil && api {
		if status := h.Answer(r.URL.Path); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	name := parts[0] + "/" + parts[1]
	repo, token := h.Repos[name], strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case repo == nil && token == "":
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Invalid username or password.")
		return
	case repo == nil:
		refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return
	}
	allowed := !repo.Gated || token != "" && token == h.Token
	verb, rest := "", ""
	if len(parts) > 2 {
		verb, rest = parts[2], strings.Join(parts[3:], "/")
	}
	switch {
	case api && (verb == "" || verb == "revision"):
		h.info(w, name, repo, rest)
	case api && verb == "refs":
		reply(w, map[string]any{"branches": []any{map[string]string{"name": "main", "ref": "refs/heads/main", "targetCommit": repo.Commit()}}})
	case api && verb == "tree":
		h.tree(w, r, name, repo)
	case api && verb == "paths-info":
		paths(w, r, repo)
	case !api && verb == "resolve" && !allowed && token == "":
		refuse(w, http.StatusUnauthorized, "GatedRepo", "Access to model "+name+" is restricted.")
	case !api && verb == "resolve" && !allowed:
		refuse(w, http.StatusForbidden, "GatedRepo", "Access to model "+name+" is restricted and you are not in the authorized list.")
	case !api && verb == "resolve":
		_, file, _ := strings.Cut(rest, "/")
		h.resolve(w, r, name, repo, file)
	default:
		http.NotFound(w, r)
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func (h *Hub) info(w http.ResponseWriter, name string, repo *Repo, revision string) {
	if revision != "" && revision != "main" && revision != repo.Commit() {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	}
	var siblings []any
	for _, path := range repo.paths() {
		siblings = append(siblings, map[string]any{"rfilename": path})
	}
	gated := any(false)
	if repo.Gated {
		gated = "manual"
	}
	reply(w, map[string]any{"id": name, "modelId": name, "sha": repo.Commit(), "private": false, "gated": gated, "siblings": siblings})
}

func (r *Repo) paths() []string {
	var list []string
	for path := range r.Files {
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// item is a file in a list of files.
func (r *Repo) item(path string) map[string]any {
	b := r.Files[path]
	e := map[string]any{"type": "file", "path": path, "size": len(b), "oid": gitSHA1(b)}
	if large(path) {
		e["oid"] = gitSHA1([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:" + SHA256(b)))
		e["lfs"] = map[string]any{"oid": SHA256(b), "size": len(b), "pointerSize": 134}
	}
	return e
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request, name string, repo *Repo) {
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	list := []any{map[string]any{"type": "directory", "path": "folder", "size": 0, "oid": gitSHA1(nil)}}
	all := repo.paths()
	to := len(all)
	if h.PageSize > 0 && from+h.PageSize < to {
		to = from + h.PageSize
		next := fmt.Sprintf("%s/api/models/%s/tree/%s?recursive=true&cursor=%d", h.URL, name, repo.Commit(), to)
		w.Header().Set("Link", fmt.Sprintf("<%s>; rel=\"next\"", next))
	}
	for _, path := range all[min(from, to):to] {
		list = append(list, repo.item(path))
	}
	reply(w, list)
}

// paths answers about single files, which the hub's own JavaScript client asks for.
func paths(w http.ResponseWriter, r *http.Request, repo *Repo) {
	var q struct{ Paths []string }
	_ = json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q)
	list := []any{}
	for _, path := range q.Paths {
		if _, ok := repo.Files[path]; ok {
			e := repo.item(path)
			e["lastCommit"] = map[string]any{"id": repo.Commit(), "title": "files", "date": "2026-01-01T00:00:00.000Z"}
			list = append(list, e)
		}
	}
	reply(w, list)
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, name string, repo *Repo, file string) {
	b, ok := repo.Files[file]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	head := w.Header()
	head.Set("X-Repo-Commit", repo.Commit())
	head.Set("Accept-Ranges", "bytes")
	if !large(file) {
		head.Set("ETag", `"`+gitSHA1(b)+`"`)
		http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(b))
		return
	}
	head.Set("X-Linked-Size", strconv.Itoa(len(b)))
	head.Set("X-Linked-Etag", `"`+SHA256(b)+`"`)
	address := h.distributor.URL + "/" + url.PathEscape(name+"/"+file) + "?Signature=s3cret"
	if h.Location != nil {
		address = h.Location(address)
	}
	http.Redirect(w, r, address, http.StatusFound)
}

// distribute sends files.
func (h *Hub) distribute(w http.ResponseWriter, r *http.Request) {
	h.Lock()
	h.log(r, true)
	name, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/"))
	parts := strings.SplitN(name, "/", 3)
	var b []byte
	if len(parts) == 3 && h.Repos[parts[0]+"/"+parts[1]] != nil {
		b = h.Repos[parts[0]+"/"+parts[1]].Files[parts[2]]
	}
	tag := `"` + SHA256(b)[:32] + `-7"` // of the distributor's own
	if h.Content != nil {
		b = h.Content(parts[len(parts)-1], b)
	}
	out := &faulty{ResponseWriter: w, left: r.Context().Done(), cut: -1}
	if h.Cut > 0 && h.Cuts > 0 {
		h.Cuts--
		out.cut, out.silence = h.Cut, h.Silence
	}
	if h.NoRanges {
		r.Header.Del("Range")
	}
	h.Unlock()
	if b == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", tag)
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(b))
}

// faulty is a connection that is lost, or on which nothing more comes.
type faulty struct {
	http.ResponseWriter
	cut     int64           // bytes that still go through; -1: all
	silence <-chan struct{} // see Hub.Silence
	left    <-chan struct{} // closed when the client leaves
}

func (f *faulty) Write(b []byte) (int, error) {
	if f.cut < 0 || int64(len(b)) < f.cut {
		n, err := f.ResponseWriter.Write(b)
		if f.cut > 0 {
			f.cut -= int64(n)
		}
		return n, err
	}
	n, err := f.ResponseWriter.Write(b[:f.cut])
	if err != nil {
		return n, err
	}
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	if f.silence == nil {
		panic(http.ErrAbortHandler)
	}
	select {
	case <-f.left:
		panic(http.ErrAbortHandler)
	case <-f.silence:
		f.cut = -1
	}
	rest, err := f.ResponseWriter.Write(b[n:])
	return n + rest, err
}
