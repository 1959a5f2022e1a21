package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// notices are lines for the user.
type notices struct {
	mu    sync.Mutex
	lines []string
}

func (y *notices) note(line string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lines = append(y.lines, line)
}

// count returns how many lines contain text.
func (y *notices) count(text string) (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, l := range y.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// TestFileChanges: a request fails with an error if the disk does not give its experts. Later requests succeed once the
// file has them again. The server continues to read a file that was replaced.
func TestFileChanges(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is in use cannot change there")
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	s := synth.Spec{Arch: "qwen3moe", Layers: 4, Embd: 256, FF: 512, Heads: 4, KVHeads: 2, Type: quant.Q8_0, Experts: 16, Used: 1, Activation: "silu", Seed: 5}
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := func() (*live, *notices) {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := &notices{}
		l := start(t, func(o *choices) {
			o.file, o.context = f, 256
			o.engine = func(e *engine.Options) {
				least, err := e.Least(f, placement.Layout{})
				if err != nil {
					t.Fatal(err)
				}
				e.RAM = &least.Need
			}
			o.notice = lines.note
		})
		if lines.count("stay on the disk") != 1 {
			t.Fatalf("nothing stays on the disk: %v", lines.lines)
		}
		return l, lines
	}
	ask := func(prompt string) string {
		return `{"prompt":"` + prompt + `","n_predict":40,"temperature":0,"ignore_eos":true,"cache_prompt":false}`
	}
	l, lines := begin()
	prompts := []string{"Once upon a time", "There was a king", "Far away"}
	var want []any
	for _, p := range prompts {
		want = append(want, l.good("/completion", ask(p))["content"])
	}
	if slices.Contains(want, any("")) {
		t.Fatalf("the model says nothing: %v", want)
	}
	same := func(l *live, when string) {
		t.Helper()
		for i, p := range prompts {
			if got := l.good("/completion", ask(p))["content"]; got != want[i] {
				t.Errorf("%s the answer is %q, and was %q", when, got, want[i])
			}
		}
	}

	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		doc, status := l.ask("/completion", ask("A dark forest"))
		message, _ := at(t, doc, "error", "message").(string)
		if status != http.StatusInternalServerError || !strings.Contains(message, "model.gguf ends at byte") {
			t.Errorf("from a file that was cut: status %d: %v", status, doc)
		}
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	same(l, "once the file is whole again")
	if n := lines.count("was written to"); n != 1 {
		t.Errorf("%d lines say that the file was written to: %v", n, lines.lines)
	}

	l, lines = begin()
	other := path + ".new"
	if err := os.WriteFile(other, make([]byte, len(content)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	same(l, "once another file has its name")
	if n := lines.count("was replaced"); n != 1 {
		t.Errorf("%d lines say that the file was replaced: %v", n, lines.lines)
	}
}
