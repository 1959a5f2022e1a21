package powerinfer_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/powerinfer-go/powerinfer"
)

func open(t *testing.T, o powerinfer.Options) *powerinfer.Model {
	t.Helper()
	o.GPU.Devices = powerinfer.NoGPU
	m, err := powerinfer.Open(t.Context(), model, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func greedy() *powerinfer.Sampling {
	o := powerinfer.DefaultSampling()
	o.Temperature = 0
	return &o
}

func text(t *testing.T, m *powerinfer.Model, prompt string, g powerinfer.Generation) string {
	t.Helper()
	var b strings.Builder
	for token, err := range m.Generate(t.Context(), prompt, g) {
		if err != nil {
			t.Error(err)
			break
		}
		b.WriteString(token.Text)
	}
	return b.String()
}

// TestFileSampling: the sampling settings of a model's file are the defaults.
func TestFileSampling(t *testing.T) {
	plain := open(t, powerinfer.Options{})
	want := text(t, plain, "Once upon a time", powerinfer.Generation{Max: 8, Sampling: greedy()})
	m := open(t, powerinfer.Options{Overrides: []string{"general.sampling.temp=float:0", "general.sampling.top_k=int:7"}})
	if s := m.Sampling(); s.Temperature != 0 || s.TopK != 7 || s.TopP != powerinfer.DefaultSampling().TopP {
		t.Errorf("%+v", s)
	}
	if got := text(t, m, "Once upon a time", powerinfer.Generation{Max: 8}); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestSources: a file, a file of a file system, one in memory and mapped weights give the same text.
func TestSources(t *testing.T) {
	data, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	o := powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}}
	mapped := o
	mapped.Limits.Mapped = true
	g := powerinfer.Generation{Max: 30, Sampling: greedy()}
	want := text(t, open(t, powerinfer.Options{}), "The king", g)
	for name, open := range map[string]func() (*powerinfer.Model, error){
		"mapped": func() (*powerinfer.Model, error) { return powerinfer.Open(t.Context(), model, mapped) },
		"operating system": func() (*powerinfer.Model, error) {
			return powerinfer.OpenFS(t.Context(), os.DirFS("demo"), "tales-relu.gguf", o)
		},
		"memory's files": func() (*powerinfer.Model, error) {
			return powerinfer.OpenFS(t.Context(), fstest.MapFS{"m": {Data: data}}, "m", o)
		},
		"bytes of a memory": func() (*powerinfer.Model, error) { return powerinfer.OpenBytes(t.Context(), "m", data, o) },
	} {
		m, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := text(t, m, "The king", g); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if err := m.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTogether: concurrent generations give the same texts as each alone.
func TestTogether(t *testing.T) {
	m := open(t, powerinfer.Options{Limits: powerinfer.Limits{Sequences: 4}})
	prompts := []string{"Once upon a time", "The king", "A fox", "In the wood", "She said", "Now the wolf"}
	alone := make([]string, len(prompts))
	g := powerinfer.Generation{Max: 40, Sampling: greedy()}
	for i, p := range prompts {
		alone[i] = text(t, m, p, g)
	}
	var wg sync.WaitGroup
	for i, p := range prompts {
		wg.Go(func() {
			if got := text(t, m, p, g); got != alone[i] {
				t.Errorf("%q: %q in company, %q alone", p, got, alone[i])
			}
		})
	}
	wg.Wait()
}

// TestStop: a stop text is not part of the text, however tokens split it, and the result says why the generation ended.
func TestStop(t *testing.T) {
	m := open(t, powerinfer.Options{})
	whole := text(t, m, "Once upon a time", powerinfer.Generation{Max: 40, Sampling: greedy()})
	stop := whole[len(whole)/2 : len(whole)/2+5]
	s, err := m.Start(t.Context(), m.Tokenize("Once upon a time", true, true), powerinfer.Generation{Max: 40, Sampling: greedy(), Stop: []string{stop}})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for token, err := range s.Tokens() {
		if err != nil {
			t.Fatal(err)
		}
		got += token.Text
	}
	if want, _, _ := strings.Cut(whole, stop); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if r := s.Result(); r.Stopped != powerinfer.StoppedText || r.Tokens == 0 || r.Prompt+r.Cached != len(m.Tokenize("Once upon a time", true, true)) {
		t.Errorf("%+v", r)
	}
}

// TestEnds: contexts end loading and generating, Close ends generations, and errors can be distinguished.
func TestEnds(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := powerinfer.Open(ended, model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}}); !errors.Is(err, context.Canceled) {
		t.Errorf("loading with a context that has ended: %v", err)
	}
	if _, err := powerinfer.Open(t.Context(), "missing.gguf", powerinfer.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := powerinfer.Open(t.Context(), model, powerinfer.Options{CPU: powerinfer.CPU{Threads: -1}}); err == nil || !strings.Contains(err.Error(), "Options.CPU.Threads is -1") {
		t.Errorf("a negative number of threads: %v", err)
	}
	if _, err := powerinfer.Open(t.Context(), model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Limits: powerinfer.Limits{Context: 1 << 30}}); err != nil {
		var memory *powerinfer.MemoryError
		if !errors.As(err, &memory) || memory.Need <= memory.Available {
			t.Errorf("a context that does not fit: %v", err)
		}
	}
	m := open(t, powerinfer.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s, err := m.Start(ctx, m.Tokenize("Once upon a time", true, true), powerinfer.Generation{IgnoreEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range s.Tokens() {
		if n++; n == 3 {
			stop()
		}
	}
	if r := s.Result(); r.Stopped != powerinfer.StoppedByCtx || n > 4 {
		t.Errorf("after %d tokens: %+v", n, r)
	}
	s, err = m.Start(t.Context(), m.Tokenize("Once upon a time", true, true), powerinfer.Generation{IgnoreEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Next()
	m.Close()
	for _, ok := s.Next(); ok; _, ok = s.Next() {
	}
	if err := s.Err(); !errors.Is(err, powerinfer.ErrClosed) {
		t.Errorf("a generation whose model was closed: %v", err)
	}
	if _, err := m.Start(t.Context(), []int32{1}, powerinfer.Generation{}); !errors.Is(err, powerinfer.ErrClosed) {
		t.Errorf("a generation of a closed model: %v", err)
	}
}

// TestErrorsNameFields: advice in errors names the API's fields.
func TestErrorsNameFields(t *testing.T) {
	none := powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Limits: powerinfer.Limits{Context: 64}}
	opened := func(change func(*powerinfer.Options)) error {
		o := none
		change(&o)
		m, err := powerinfer.Open(t.Context(), model, o)
		if err == nil {
			m.Close()
		}
		return err
	}
	m := open(t, powerinfer.Options{Limits: powerinfer.Limits{Context: 64}})
	wrong := powerinfer.DefaultSampling()
	wrong.TopP = 2
	_, long := m.Start(t.Context(), make([]int32, 100), powerinfer.Generation{})
	_, sampled := m.Start(t.Context(), []int32{1}, powerinfer.Generation{Sampling: &wrong})
	for want, err := range map[string]error{
		"raise it with Options.Limits.Context": long,
		"Sampling.TopP 2 is not in [0, 1]":     sampled,
		"Sampling.TopP 2 is not in":            wrong.Validate(100),
		`Options.Neurons.Sparse = "exact"`:     opened(func(o *powerinfer.Options) { o.Neurons.Sparse = powerinfer.SparseMagnitude }),
		`Options.Overrides "general"`:          opened(func(o *powerinfer.Options) { o.Overrides = []string{"general"} }),
		"Options.Adapters is for adapters":     opened(func(o *powerinfer.Options) { o.Adapters = []powerinfer.Adapter{{Path: model, Scale: 1}} }),
		`Options.Statistics = "stats.gguf"`:    opened(func(o *powerinfer.Options) { o.Statistics = "stats.gguf" }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	var context *powerinfer.ContextError
	if !errors.As(long, &context) || !strings.Contains(context.Error(), "Options.Limits.Context") {
		t.Error(context)
	}
}

// TestLogits: the likeliest token after a prompt is the first of a greedy generation, and its log-probability is the
// softmax of the logits.
func TestLogits(t *testing.T) {
	m := open(t, powerinfer.Options{})
	prompt := m.Tokenize("Once upon a time", true, true)
	var best int32
	var logprob float64
	err := m.Logits(t.Context(), prompt, func(i int) bool { return i == len(prompt)-1 }, func(_ int, logits []float32) error {
		sum := 0.0
		for id, v := range logits {
			if v > logits[best] {
				best = int32(id)
			}
			sum += math.Exp(float64(v))
		}
		logprob = float64(logits[best]) - math.Log(sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Start(t.Context(), prompt, powerinfer.Generation{Max: 1, Sampling: greedy(), Logprobs: true, TopLogprobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	token, ok := s.Next()
	const rounding = 1e-3 // of logits near 10: rows of prompts and single tokens round differently (docs/architecture.md)
	if !ok || token.ID != best || math.Abs(float64(token.Logprob)-logprob) > rounding || len(token.Top) != 2 || token.Top[0].ID != best {
		t.Errorf("%+v %v, want token %d with %g", token, ok, best, logprob)
	}
}

// TestInspect: Info agrees with other readers of the file, and a model on the CPU has a plan without GPUs.
func TestInspect(t *testing.T) {
	trace := powerinfer.NewTrace()
	m := open(t, powerinfer.Options{Trace: trace, Limits: powerinfer.Limits{Context: 128}})
	if i := m.Info(); i.Architecture != "llama" || i.Layers != 6 || i.Embedding != 192 || i.Vocabulary != 4096 || i.Trained != 512 || i.Context != 128 || !i.Prepared || i.Sparse != powerinfer.SparsePredict {
		t.Errorf("%+v", i) // demo/README.md says the same
	}
	frequencies := m.Frequencies()
	if len(frequencies) != 6 || len(frequencies[0]) != 768 {
		t.Fatalf("%d layers of frequencies", len(frequencies))
	}
	for l, f := range frequencies {
		for i := 1; i < len(f); i++ {
			if f[i] > f[i-1] {
				t.Fatalf("layer %d: neuron %d is hotter than the one before it", l, i)
			}
		}
	}
	for name, plan := range map[string]func() (powerinfer.Plan, error){
		"open": m.Plan,
		"file": func() (powerinfer.Plan, error) {
			return powerinfer.PlanFile(t.Context(), model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
		},
	} {
		if p, err := plan(); err != nil || len(p.GPUs) != 0 {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
	if !trace.Empty() {
		t.Error("a trace of a model that has computed nothing is not empty")
	}
	text(t, m, "A fox", powerinfer.Generation{Max: 3})
	var b bytes.Buffer
	if err := trace.Write(&b); err != nil || trace.Empty() || !strings.Contains(b.String(), `"name":"token"`) {
		t.Errorf("the trace %.200s %v", b.String(), err)
	}
}

// TestTemplates: a grammar applies after a thought that the prompt's template opened.
func TestTemplates(t *testing.T) {
	m := open(t, powerinfer.Options{})
	const template = "{{ messages[0].content }}<think>"
	for prompt, held := range map[string]bool{"Is it?<think>": false, "Is it?<think></think>": true} {
		text := ""
		for token, err := range m.Generate(t.Context(), prompt, powerinfer.Generation{Max: 4, Grammar: `root ::= "ok"`, Template: template, Sampling: greedy()}) {
			if err != nil {
				t.Fatal(err)
			}
			text += token.Text
		}
		if (text == "ok") != held {
			t.Errorf("%q is continued by %q", prompt, text)
		}
	}
}
