package evaluate_test

import (
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/evaluate"
)

func open(t *testing.T) *powerinfer.Model {
	t.Helper()
	m, err := powerinfer.OpenBytes(t.Context(), demo.Name, demo.Model(), powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, CPU: powerinfer.CPU{Threads: 1}, Limits: powerinfer.Limits{Context: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestPerplexity: the perplexity over one window follows from the window's logits by definition.
func TestPerplexity(t *testing.T) {
	const window = 64
	m := open(t)
	text := strings.Repeat("Once upon a time there was a king who had three sons. ", 12)
	got, err := evaluate.Perplexity(t.Context(), m, text, evaluate.PerplexityOptions{Window: window, Windows: 1})
	if err != nil {
		t.Fatal(err)
	}
	tokens := m.Tokenize(text, true, false)[:window]
	sum, n := 0.0, 0
	err = m.Logits(t.Context(), tokens, func(i int) bool { return i >= window/2 && i < window-1 }, func(i int, logits []float32) error {
		total := 0.0
		for _, v := range logits {
			total += math.Exp(float64(v))
		}
		sum += math.Log(total) - float64(logits[tokens[i+1]])
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Exp(sum / float64(n)); got.Tokens != n || math.Abs(got.Value/want-1) > 1e-5 {
		t.Errorf("%+v, want %g of %d tokens", got, want, n)
	}
}

// TestErrorsNameFields: advice in errors names the API's fields.
func TestErrorsNameFields(t *testing.T) {
	m := open(t)
	for want, o := range map[string]evaluate.PerplexityOptions{
		"a smaller PerplexityOptions.Window":         {Window: 60},
		"give at least PerplexityOptions.Window = 3": {Window: 2},
		"raise it with Options.Limits.Context":       {Window: 65},
		"leave PerplexityOptions.Stride out":         {Window: 16, Stride: 8, Save: filepath.Join(t.TempDir(), "base")},
	} {
		text := "Once upon a time there was a king who had three sons."
		if o.Window > 64 || o.Stride > 0 {
			text = strings.Repeat(text, 20)
		}
		if _, err := evaluate.Perplexity(t.Context(), m, text, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestBenchmark: as many runs are timed as requested.
func TestBenchmark(t *testing.T) {
	b := evaluate.Benchmark{Prompt: 8, Generate: 4, Runs: 2}
	timing, err := b.Run(t.Context(), open(t))
	if err != nil || len(timing.Runs) != 2 || timing.Runs[0] <= 0 || timing.Neurons.Steps == 0 {
		t.Errorf("%+v %v", timing, err)
	}
}

// TestSeparate: a program that imports only package powerinfer links neither the sandbox nor packages for evaluation or
// preparation.
func TestSeparate(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/powerinfer-go/powerinfer").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, part := range []string{"seccomp", "landlock", "libcap", "powerinfer/evaluate", "internal/eval", "internal/prepare", "internal/sweep", "internal/train", "internal/server", "powerinfer/demo"} {
			if strings.Contains(dep, part) && dep != "github.com/powerinfer-go/powerinfer/internal/prepared" {
				t.Errorf("package powerinfer imports %s", dep)
			}
		}
	}
}
