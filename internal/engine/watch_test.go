package engine_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

const tale = "Once upon a time there was a king who had three daughters, and the youngest was so fair that the sun himself wondered whenever he shone on her face"

func predicting(t *testing.T, mode model.SparseMode) *engine.Engine {
	return open(t, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 256}, Neurons: engine.Neurons{Sparse: mode}})
}

// TestWatch: a Watch sees the true counts, and nothing is measured before and after it.
func TestWatch(t *testing.T) {
	for _, mode := range []model.SparseMode{model.Predict, model.Exact} {
		t.Run(mode.String(), func(t *testing.T) {
			e := predicting(t, mode)
			prompt := e.Tokenizer().Encode(tale, true, true)
			greedy(t, e, prompt, 5)
			w := e.Watch()
			before := e.Neurons()
			const chosen = 20
			_, res := greedy(t, e, prompt, chosen)
			a := w.Read()
			if a.Single.Chosen+a.Prompts.Chosen != chosen || a.Single.Steps != a.Single.Tokens || a.Single.Tokens+a.Prompts.Tokens != int64(res.PromptTokens+chosen-1) {
				t.Errorf("%d tokens of %d were evaluated and %d chosen: %+v and %+v", chosen-1+res.PromptTokens, len(prompt), chosen, a.Single, a.Prompts)
			}
			var bytes, times int64
			for l, now := range e.Neurons() {
				if a.Neurons[l] != now.Since(before[l]) {
					t.Errorf("layer %d: %+v, want %+v", l, a.Neurons[l], now.Since(before[l]))
				}
				sum := int64(0)
				for _, n := range a.Bins[l] {
					sum += int64(n)
				}
				want := a.Neurons[l].Predicted
				if a.Neurons[l].Mode == model.Exact {
					want = a.Neurons[l].Gated
				}
				if sum != want || sum == 0 {
					t.Errorf("layer %d: the bins hold %d neurons, want %d", l, sum, want)
				}
				bytes += a.Neurons[l].Bytes
			}
			if read := a.Single.Read.All + a.Prompts.Read.All; read != bytes || a.Single.Read.RAM != a.Single.Read.All || a.Single.Read.Dense < a.Single.Read.All {
				t.Errorf("%d bytes were read, want %d: %+v", read, bytes, a.Single.Read)
			}
			for _, d := range a.Single.Work.CPU {
				times += int64(d)
			}
			if times <= 0 || times > int64(a.Single.Time) {
				t.Errorf("parts of %d ns in steps of %d ns", times, a.Single.Time)
			}
			if again := w.Read(); again.Single != (engine.Spent{}) || slices.Max(again.Bins[0]) != 0 {
				t.Errorf("nothing happened, and %+v is told", again.Single)
			}
			w.Close()
			greedy(t, e, prompt, 5)
			w = e.Watch()
			defer w.Close()
			if a := w.Read(); a.Single.Steps != 0 || slices.Max(a.Bins[0]) != 0 {
				t.Errorf("nobody looked, and %+v is told", a.Single)
			}
		})
	}
}

// TestSetThreshold: the next step uses the new threshold, and earlier keys and values are not reused.
func TestSetThreshold(t *testing.T) {
	e := predicting(t, model.Predict)
	prompt := e.Tokenizer().Encode(tale, true, true)
	share := func() float64 {
		before := e.Neurons()
		_, res := greedy(t, e, prompt, 10)
		if res.Reused != 0 {
			t.Errorf("%d tokens were taken over", res.Reused)
		}
		use := e.Neurons()[1].Since(before[1])
		return float64(use.Predicted) / float64(use.Tokens) / float64(use.Neurons)
	}
	usual := share()
	e.SetThreshold(-math.MaxFloat32)
	if all := share(); all != 1 || usual > 0.9 {
		t.Errorf("%g of the neurons are computed as usual, %g below the lowest threshold", usual, all)
	}
	if e.SetThreshold(3); e.Threshold() != 3 {
		t.Errorf("the threshold is %g", e.Threshold())
	}
	if few := share(); few >= usual {
		t.Errorf("%g of the neurons are computed as usual, %g above a high threshold", usual, few)
	}
}

// TestCompare: without prediction there is no difference, and with fewer neurons the difference is larger. Concurrent
// requests give the same text, and nothing is counted or cached.
func TestCompare(t *testing.T) {
	e := predicting(t, model.Predict)
	text := e.Tokenizer().Encode(tale, true, true)
	prompt := e.Tokenizer().Encode("The old king", true, true)
	want, _ := greedy(t, e, prompt, 40)
	compare := func() engine.Comparison {
		t.Helper()
		c, err := e.Compare(t.Context(), text, len(text)-12)
		if err != nil || c.Tokens != 12 || c.Time <= 0 || c.DenseTime <= 0 {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}
	var group sync.WaitGroup
	group.Go(func() {
		if got, _ := greedy(t, e, prompt, 40); !slices.Equal(got, want) {
			t.Error("a request says something else during a comparison")
		}
	})
	usual := compare()
	group.Wait()
	before := e.Neurons()
	w := e.Watch()
	defer w.Close()
	compared := compare()
	for l, now := range e.Neurons() {
		want := len(text)
		if l == e.Config().Layers-1 { // it computes only the rows with compared logits
			want = compared.Tokens
		}
		if use := now.Since(before[l]); use.Tokens != int64(want) {
			t.Errorf("layer %d: %d tokens were counted, want those that were not dense, %d", l, use.Tokens, want)
		}
	}
	e.SetThreshold(-math.MaxFloat32)
	if c := compare(); c.Divergence > 1e-9 || c.SameTop != 1 { // the same sums
		t.Errorf("every neuron beside every neuron: %+v", c)
	}
	e.SetThreshold(3)
	if c := compare(); c.Divergence <= usual.Divergence || usual.Divergence <= 0 {
		t.Errorf("a divergence of %g as usual, %g above a high threshold", usual.Divergence, c.Divergence)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0) // a later deadline could come after the comparison's end
	defer cancel()
	if _, err := e.Compare(ctx, text, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a comparison that was cancelled: %v", err)
	}
	var long *engine.ContextError
	if _, err := e.Compare(t.Context(), slices.Repeat(text, 8), 4); !errors.As(err, &long) {
		t.Errorf("a comparison that does not fit: %v", err)
	}
	e.SetThreshold(0)
}
