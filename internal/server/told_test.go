package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

func TestWithoutFolders(t *testing.T) {
	for text, want := range map[string]string{
		"/home/jane/models/a.gguf: offset 3: no string": "a.gguf: offset 3: no string",
		"open /home/jane/a.gguf: no such file":          "open a.gguf: no such file",
		"/home/jane doe/my models/a b.gguf: damaged":    "a b.gguf: damaged",
		`"/home/jane/x" is a folder; name a file in it`: `"x" is a folder; name a file in it`,
		`writing "/home/jane/a:b c": full`:              `writing "a:b c": full`,
		"(/home/jane/x)":                                "(x)",
		"rename /home/a/x /home/b/y: busy":              "rename x y: busy",
		"--grammar-file=/home/jane/x.gbnf":              "--grammar-file=x.gbnf",
		"read:/home/jane/x":                             "read:x",
		"one of /home/a, /home/b and /home/c":           "one of a, b and c",
		`C:\Users\jane\a.gguf: damaged`:                 "a.gguf: damaged",
		`open C:\Users\jane doe\a.gguf: damaged`:        "open a.gguf: damaged",
		`D:/models/a.gguf is not there`:                 "a.gguf is not there",
		`\\host\share\a.gguf: x`:                        "a.gguf: x",
		"~/models/a.gguf and ../x/y and ./z/w":          "a.gguf and y and w",
		"file:///home/jane/x.gguf":                      "x.gguf",
		"/home/jane/":                                   "jane",
		"/home/jane/é.gguf: \xff":                       "é.gguf: \xff",
		// Text that is not a path stays.
		"https://huggingface.co/api/models/x answers 500": "https://huggingface.co/api/models/x answers 500",
		"http://127.0.0.1:8080/x: refused":                "http://127.0.0.1:8080/x: refused",
		"#/properties/a: a schema belongs here":           "#/properties/a: a schema belongs here",
		"user/repo, user/repo:Q4_K_M or user/repo/f.gguf": "user/repo, user/repo:Q4_K_M or user/repo/f.gguf",
		`the pattern "^/a/b" / 3 tokens/s, 1/2, a / b`:    `the pattern "^/a/b" / 3 tokens/s, 1/2, a / b`,
		"": "",
	} {
		if got := server.WithoutFolders(text, false); got != want {
			t.Errorf("%q is told as %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"models/sub/a.gguf: damaged":       "a.gguf: damaged",
		`models\sub\a.gguf: damaged`:       "a.gguf: damaged",
		"of F16/F32 at 3.5/4.5 tokens/s":   "of F16/F32 at 3.5/4.5 tokens/s",
		"https://hub.example/a/b.json: no": "https://hub.example/a/b.json: no",
	} {
		if got := server.WithoutFolders(text, true); got != want {
			t.Errorf("of the machine: %q is told as %q, want %q", text, got, want)
		}
	}
}

// secret is part of the path of every file that the errors below are about.
const secret = "sekret"

// leaks are errors as packages make them.
func leaks() []error {
	path := "/srv/" + secret + " folder/models/a.gguf"
	relative := filepath.Join(secret, "slots", "x")
	return []error{
		&fs.PathError{Op: "open", Path: path, Err: syscall.ENOSPC},
		&fs.PathError{Op: "open", Path: relative, Err: syscall.EACCES},
		&os.LinkError{Op: "rename", Old: path, New: relative, Err: syscall.EXDEV},
		fmt.Errorf("%s: offset 12: a string of 3 bytes", path),
		fmt.Errorf("%s/a.gguf: damaged", secret),
		fmt.Errorf("the model was not loaded: %w", errors.Join(errors.New("first"), &fs.PathError{Op: "read", Path: relative, Err: syscall.EIO})),
		server.About(relative, fmt.Errorf("%s is not a file of keys and values", relative)),
		fmt.Errorf("%w in %s", hub.ErrNoRoom, path),
		server.Invalid("it cannot be read: %s", &fs.PathError{Op: "open", Path: path, Err: syscall.EIO}),
		server.HubError(fmt.Errorf("%w: %s", hub.ErrDamaged, path)),
		fmt.Errorf("asked: %w", server.Unavailable("later: %v", fmt.Errorf("%s is gone", path))),
	}
}

// failing are models with methods that fail.
type failing struct {
	server.Models
	err error
}

func (f failing) Use(context.Context, string) (*server.Model, func(), error) { return nil, nil, f.err }

func (f failing) Peek(string) (*server.Model, func(), error) { return nil, nil, f.err }
func (f failing) Ready() error                               { return f.err }
func (f failing) Load(context.Context, string) error         { return f.err }
func (f failing) Unload(context.Context, string) error       { return f.err }
func (f failing) Keep(string, time.Duration) error           { return f.err }
func (f failing) List() []server.Listed {
	return []server.Listed{{Name: "tales", Path: "/srv/" + secret + "/tales.gguf", State: server.Failed, Err: f.err}}
}

// TestErrorsNameNoFolder: whatever fails, on every route and in every form, clients see no folder, and the log has it.
func TestErrorsNameNoFolder(t *testing.T) {
	l := start(t, func(o *choices) { o.Local = true })
	models := l.s.Models
	for _, err := range leaks() {
		l.s.Models, l.logs.text = failing{models, err}, bytes.Buffer{}
		asked := 0
		for _, route := range l.s.Routes() {
			method, path, found := strings.Cut(route, " ")
			if !found {
				continue
			}
			path = strings.NewReplacer("{id...}", "tales", "{id}", "0", "{$}", "").Replace(path)
			w := httptest.NewRecorder()
			body := `{"model":"tales","prompt":"A","input":"A","content":"A","messages":[{"role":"user","content":"A"}],"max_tokens":1}`
			r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
			l.s.Handler().ServeHTTP(w, r)
			if strings.Contains(w.Body.String(), secret) || strings.Contains(fmt.Sprint(w.Header()), secret) {
				t.Errorf("%s tells %s", route, w.Body)
			}
			if w.Code >= http.StatusInternalServerError || w.Code == http.StatusBadRequest {
				asked++
			}
		}
		if asked < 20 {
			t.Errorf("%v: only %d routes failed", err, asked)
		}
		if log := l.logs.String(); !strings.Contains(log, secret) {
			t.Errorf("the log does not have %q: %.1000s", err, log)
		}
	}
}

// TestStreamsNameNoFolder is TestErrorsNameNoFolder for answers that have begun.
func TestStreamsNameNoFolder(t *testing.T) {
	for _, err := range leaks() {
		w := httptest.NewRecorder()
		out := server.NewEventStream(w)
		if e := out.Send("begun"); e != nil {
			t.Fatal(e)
		}
		out.Fail(err)
		if lines := server.NewLineStream(w); lines.Send(lines.Told(err)) != nil || strings.Contains(w.Body.String(), secret) || !strings.Contains(w.Body.String(), "error") {
			t.Errorf("the stream is %s", w.Body)
		}
	}
}

// TestSlotsNameNoFolder: files of slots that cannot be read or written.
func TestSlotsNameNoFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), secret)
	l := start(t, func(o *choices) { o.model.SlotPath = folder })
	l.tale(0)
	check := func(action, name string) {
		t.Helper()
		doc, status := l.ask("/slots/0?action="+action, fmt.Sprintf(`{"filename":%q}`, name))
		if text := fmt.Sprint(doc); status < 400 || strings.Contains(text, secret) || strings.Contains(text, os.TempDir()) {
			t.Errorf("%s %s: status %d: %s", action, name, status, text)
		}
	}
	check("save", "absent")
	check("restore", "absent")
	if err := os.MkdirAll(filepath.Join(folder, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "damaged"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("save", "inner")
	check("restore", "inner")
	check("restore", "damaged")
}

// TestHubNamesNoFolder: a cache that cannot be written, in one piece and as a stream.
func TestHubNamesNoFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), secret)
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(hub.Options{Endpoint: "http://127.0.0.1:1", Folder: filepath.Join(folder, "hub")})
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, func(o *choices) { o.hub = h })
	for _, k := range [][3]string{
		{"POST", "/api/pull", `{"model":"u/r"}`},
		{"POST", "/api/pull", `{"model":"u/r","stream":false}`},
		{"DELETE", "/api/delete", `{"model":"u/r"}`},
		{"DELETE", "/models?model=u/r", ""},
	} {
		res := l.request(t.Context(), k[0], k[1], k[2])
		text := new(strings.Builder)
		res.Write(text)
		res.Body.Close()
		if strings.Contains(text.String(), secret) || !strings.Contains(text.String(), "error") {
			t.Errorf("%q: %s", k, text)
		}
	}
}

// TestErrorsAreTold: the server's packages return errors as values, which are sent without folders; only error.go and
// told.go make texts of them.
func TestErrorsAreTold(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, below...) {
		if strings.HasSuffix(name, "_test.go") || name == "error.go" || name == "told.go" || name == "keys.go" {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if f.Sel.Name == "Error" && len(call.Args) == 0 {
				t.Errorf("%s: hand the error itself to Invalid and its like, not its text", set.Position(n.Pos()))
			}
			if x, ok := f.X.(*ast.Ident); ok && x.Name == "fmt" && strings.HasPrefix(f.Sel.Name, "Sprint") {
				for _, a := range call.Args {
					if id, ok := a.(*ast.Ident); ok && id.Name == "err" && name != "fields.go" {
						t.Errorf("%s: hand the error itself to Invalid and its like, not its text", set.Position(n.Pos()))
					}
				}
			}
			return true
		})
	}
}

// TestErrorsOfTheHub: an error of two kinds always gives the same answer.
func TestErrorsOfTheHub(t *testing.T) {
	for range 50 {
		for _, k := range []struct {
			err    error
			status int
		}{
			{errors.Join(hub.ErrOffline, hub.ErrNotFound), 404},
			{errors.Join(hub.ErrOffline, hub.ErrDamaged, hub.ErrNoRoom), 507},
			{errors.Join(hub.ErrOffline, context.Canceled), 503},
			{errors.Join(hub.ErrOffline, hub.ErrDenied), 403},
		} {
			e, ok := errors.AsType[*server.Error](server.HubError(k.err))
			if !ok || e.Status != k.status {
				t.Fatalf("%v is told as %+v, want status %d", k.err, e, k.status)
			}
		}
	}
}
