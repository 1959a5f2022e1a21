package page_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/library"
	"github.com/powerinfer-go/powerinfer/internal/server/llamacpp"
	"github.com/powerinfer-go/powerinfer/internal/server/neurons"
	"github.com/powerinfer-go/powerinfer/internal/server/ollama"
	"github.com/powerinfer-go/powerinfer/internal/server/openai"
	"github.com/powerinfer-go/powerinfer/internal/server/page"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// tokenTime is the shortest time of a piece of an answer: an answer that fills the context takes longer than a minute
// on any machine, and can be stopped before it ends.
const tokenTime = 8 * time.Millisecond

// quiet is a log that nobody reads.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// open returns the embedded model under a name, and what frees it.
func open(ctx context.Context, name string, context int) (*server.Model, io.Closer, error) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		return nil, nil, err
	}
	template, err := chat.Named("chatml", f)
	if err != nil {
		return nil, nil, err
	}
	sampling := sample.DefaultOptions()
	sampling.Seed = 1 // what the model says is the same each time
	e, err := session.Open(ctx, f, session.Options{
		Engine:  engine.Options{Limits: engine.Limits{Sequences: 2, Context: context}, Neurons: engine.Neurons{Sparse: model.Predict}},
		Planner: planner.Options{GPUs: planner.GPUs{Devices: "none"}, Processor: planner.Processor{Threads: 1, Kernels: planner.KernelsAuto}, Notice: func(string) {}},
	})
	if err != nil {
		return nil, nil, err
	}
	return server.NewModel(e.Engine, server.ModelOptions{
		Name: name, Slots: 2, Queue: 4, Predict: -1, Sampling: sampling, Template: template, Stop: []string{"<|im_end|>"}, Log: quiet,
		Demo: name == "tales",
	}), e, nil
}

// serve returns the address of a server of the embedded model, which takes its time.
func serve(t *testing.T) string {
	m, e, err := open(t.Context(), "tales", 16384)
	if err != nil {
		t.Fatal(err)
	}
	single := &server.Single{}
	single.Set(server.Listed{Name: "tales", Model: m, Size: int64(len(demo.Model()))})
	s := server.New(single, server.Options{Timeout: time.Hour, Log: quiet, Page: page.Handler})
	return listen(t, s, nil, func() {}, func() { e.Close() })
}

// listen returns the address of s, which closes with the test, and then calls close. Where a client
// stops the download of tales/small, it calls stopped. A client may leave any other download as soon as it failed.
func listen(t *testing.T, s *server.Server, h *hub.Hub, stopped, close func()) string {
	llamacpp.Register(s, h)
	neurons.Register(s)
	openai.Register(s)
	ollama.Register(s, h)
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/pull" {
			s.Handler().ServeHTTP(slow{w}, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Handler().ServeHTTP(slow{w}, r)
		if bytes.Contains(body, []byte("tales/small")) && r.Context().Err() != nil {
			stopped()
		}
	}))
	t.Cleanup(func() {
		l.Close()
		close()
	})
	return l.URL
}

// opener opens the embedded model in place of every file.
type opener struct{}

func (opener) Need(context.Context, string) (session.Need, error) {
	return session.Need{RAM: 1, Least: 1}, nil
}

func (opener) Free() (int64, error) { return 1 << 40, nil }

func (opener) Open(ctx context.Context, name, _ string) (*server.Model, io.Closer, error) {
	return open(ctx, name, 256)
}

// serveLibrary returns the address of a server of two models, which fetches others from a hub. There downloads come to a
// halt until one was stopped.
func serveLibrary(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"first.gguf", "second.gguf"} {
		if err := os.WriteFile(filepath.Join(dir, name), demo.Model(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published := hubtest.New()
	published.Repos["tales/small"] = &hubtest.Repo{Files: map[string][]byte{"small-Q8_0.gguf": demo.Model()}}
	silence := make(chan struct{})
	published.Cut, published.Cuts, published.Silence = 1_500_000, math.MaxInt, silence
	h, err := hub.New(hub.Options{Endpoint: published.URL, Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	models := library.New(library.Options{Opener: opener{}, Keep: time.Hour, Log: quiet, Scan: func() ([]library.Source, error) {
		all, err := h.List(dir)
		var sources []library.Source
		for _, m := range all {
			if m.Complete {
				sources = append(sources, library.Source{Name: m.Name, Path: m.Path(), Size: m.Size, Modified: m.Modified})
			}
		}
		return sources, err
	}})
	s := server.New(models, server.Options{Timeout: time.Hour, Log: quiet, Page: page.Handler, Router: &server.Router{Autoload: true}, Fetches: true, RAM: 4 << 30, Known: []server.Published{
		{Name: "tales:small", At: "tales/small:Q8_0", Bytes: int64(len(demo.Model())), About: "tales"},
		{Name: "qwen3:8b", At: "ggml-org/Qwen3-8B-GGUF:Q4_K_M", Bytes: 5.03e9},
	}})
	return listen(t, s, h, sync.OnceFunc(func() { close(silence) }), func() {
		models.Close()
		published.Close()
	})
}

// slow takes a while for each write.
type slow struct{ http.ResponseWriter }

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(tokenTime)
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s slow) Unwrap() http.ResponseWriter { return s.ResponseWriter }
