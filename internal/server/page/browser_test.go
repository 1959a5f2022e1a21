package page_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/llamacpp"
	"github.com/powerinfer-go/powerinfer/internal/server/neurons"
	"github.com/powerinfer-go/powerinfer/internal/server/openai"
	"github.com/powerinfer-go/powerinfer/internal/server/page"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// tokenTime is the shortest time that a piece of an answer takes: an answer that fills the context goes on for longer
// than a minute, on any machine, and can be stopped before it ends.
const tokenTime = 8 * time.Millisecond

// TestBrowser: the page in Chromium, with a server of the embedded model. PAGE_PICTURES names a folder for pictures of
// it.
func TestBrowser(t *testing.T) {
	browser := programOf(t, "chromium", "chromium", "chromium-browser", "google-chrome")
	programOf(t, "npm", "node")
	programOf(t, "npm", "npm")
	web := filepath.Join(testenv.Root(t), "web")
	if _, err := os.Stat(filepath.Join(web, "node_modules", "axe-core")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline")
		install.Dir = web
		if out, err := install.CombinedOutput(); err != nil {
			testenv.Missing(t, "npm", "npm ci fails in web: "+string(out))
		}
	}
	try := exec.CommandContext(t.Context(), "node", "test/page.mjs", serve(t)+"/", browser, os.Getenv("PAGE_PICTURES"))
	try.Dir = web
	out, err := try.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Fatal(err)
	}
}

// programOf returns the path of the first of names that is a program here; without any the test is skipped, or fails
// where what is required.
func programOf(t *testing.T, what string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	testenv.Missing(t, what, names[0]+" is absent")
	return ""
}

// serve returns the address of a server of the embedded model, which takes its time.
func serve(t *testing.T) string {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	template, err := chat.Named("chatml", f)
	if err != nil {
		t.Fatal(err)
	}
	sampling := sample.DefaultOptions()
	sampling.Seed = 1 // what the model says is the same each time
	e, err := session.Open(t.Context(), f, session.Options{
		Engine:  engine.Options{Outputs: 2, Context: 16384, Sparse: model.Predict},
		Planner: planner.Options{Device: "none", Processor: planner.Processor{Threads: 1, Kernels: planner.KernelsAuto}, Notice: func(string) {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	single := &server.Single{}
	single.Set(server.Listed{Name: "tales", Model: server.NewModel(e.Engine, server.ModelOptions{
		Name: "tales", Slots: 2, Queue: 4, Predict: -1, Sampling: sampling, Template: template, Stop: []string{"<|im_end|>"}, Log: log,
	})})
	s := server.New(single, server.Options{Timeout: time.Minute, Log: log, Page: page.Handler})
	llamacpp.Register(s, nil)
	neurons.Register(s)
	openai.Register(s)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(slow{w}, r) }))
	t.Cleanup(func() {
		h.Close()
		e.Close()
	})
	return h.URL
}

// slow takes a while for each write.
type slow struct{ http.ResponseWriter }

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(tokenTime)
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s slow) Unwrap() http.ResponseWriter { return s.ResponseWriter }
