package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

func open(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// greedySampler returns a sampler that chooses the likeliest token.
func greedySampler(t *testing.T, e *engine.Engine) engine.Sampler {
	t.Helper()
	o := sample.DefaultOptions()
	o.Temperature = 0
	s, err := sample.New(o, e.Config().Vocab)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func greedy(t *testing.T, e *engine.Engine, prompt []int32, n int) ([]int32, engine.Result) {
	t.Helper()
	var out []int32
	res, err := e.Generate(context.Background(), engine.Request{Prompt: prompt, Max: n, Sampler: greedySampler(t, e), Reuse: engine.ReuseAny}, func(tok engine.Token) bool {
		out = append(out, tok.ID)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, res
}

// TestPrefixReuse: a prompt that continues an earlier one evaluates only the new tokens, and gives the same text.
func TestPrefixReuse(t *testing.T) {
	e := open(t, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 256}})
	prompt := e.Tokenizer().Encode("Once upon a time there was a king who had three daughters, and the youngest", true, true)
	first, _ := greedy(t, e, prompt, 70)
	longer := append(slices.Clone(prompt), first[:60]...)
	got, res := greedy(t, e, longer, 10)
	if res.Reused != len(longer)-1 || res.PromptTokens != 1 {
		t.Errorf("%d tokens reused and %d evaluated of %d", res.Reused, res.PromptTokens, len(longer))
	}
	if !slices.Equal(got, first[60:]) {
		t.Errorf("the continuation is %v, without reuse %v", got, first[60:])
	}
	if again, _ := greedy(t, e, prompt, 70); !slices.Equal(again, first) {
		t.Error("the first prompt gives another text the second time: a shared page was written")
	}
}

func TestStops(t *testing.T) {
	e := open(t, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 70}})
	prompt := e.Tokenizer().Encode("The old witch", true, true)
	out, res := greedy(t, e, prompt, -1)
	if res.Stop != engine.StopContext && res.Stop != engine.StopEOG || len(prompt)+len(out) > 71 {
		t.Errorf("stopped by %q after %d + %d tokens of a context of 70", res.Stop, len(prompt), len(out))
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := sample.New(sample.DefaultOptions(), e.Config().Vocab)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	res, err = e.Generate(ctx, engine.Request{Prompt: prompt, Max: 50, Sampler: s, IgnoreEOG: true}, func(engine.Token) bool {
		if n++; n == 3 {
			cancel()
		}
		return true
	})
	if err != nil || res.Stop != engine.StopCancelled || n != 3 {
		t.Errorf("cancelled at token 3: %q after %d, %v", res.Stop, n, err)
	}
	if _, err := e.Generate(context.Background(), engine.Request{Prompt: make([]int32, 71), Sampler: s}, nil); err == nil {
		t.Error("a prompt longer than the context is accepted")
	}
	var full *engine.ContextError
	if err := e.Evaluate(e.NewSequence(), make([]int32, 71), nil, nil); !errors.As(err, &full) {
		t.Errorf("evaluating beyond the context: %v", err)
	}
}

// TestNotFinite: a model with logits that are not finite gives an error, with greedy and random sampling.
func TestNotFinite(t *testing.T) {
	for _, last := range []byte{0x7f, 0xff} { // infinite or no number, with 0x80 or 0xff before it
		f, err := gguf.Parse("damaged.gguf", slices.Clone(demo.Model()))
		if err != nil {
			t.Fatal(err)
		}
		norm := f.Tensor("output_norm.weight").Data
		for i := 0; i < len(norm); i += 4 {
			copy(norm[i:], []byte{0, 0, 0x80 | last<<1, last})
		}
		e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 64}})
		if err != nil {
			t.Fatal(err)
		}
		for _, temperature := range []float32{0, 0.8} {
			o := sample.DefaultOptions()
			o.Temperature = temperature
			s, err := sample.New(o, e.Config().Vocab)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Generate(context.Background(), engine.Request{Prompt: []int32{1, 300}, Max: 4, Sampler: s}, nil)
			if err == nil || !strings.Contains(err.Error(), "damaged.gguf: the model's outputs are not finite") {
				t.Errorf("temperature %g: %v", temperature, err)
			}
		}
		e.Close()
	}
}

// TestNoAllocation: a generated token allocates nothing.
func TestNoAllocation(t *testing.T) {
	e := open(t, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 512}})
	s := e.NewSequence()
	token, always, ignore := []int32{300}, func(int) bool { return true }, func(int, []float32) {}
	step := func() {
		if err := e.Evaluate(s, token, always, ignore); err != nil {
			t.Fatal(err)
		}
	}
	for range 130 { // until scratch memory has grown for a chunk
		step()
	}
	if n := testing.AllocsPerRun(50, step); n > 0 {
		t.Errorf("%g allocations a token", n)
	}
}
