package eval

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

const (
	// sumTolerance is what two orders of summing float64 may differ by.
	sumTolerance = 1e-9
	// kernelTolerance is what kernels that round weights or activations may differ from float32 by.
	kernelTolerance = 5e-3
)

// surprises is −ln p of every token of chunk that follows token first or a later one, by the definition of softmax.
func surprises(t *testing.T, e *engine.Engine, chunk []int32, bos int32, first int) []float64 {
	t.Helper()
	input := slices.Clone(chunk)
	input[0] = bos
	s := e.NewSequence()
	defer e.Release(s)
	var nll []float64
	err := e.Evaluate(s, input, func(int) bool { return true }, func(i int, logits []float32) {
		if i < first || i == len(chunk)-1 {
			return
		}
		sum := 0.0
		for _, v := range logits {
			sum += math.Exp(float64(v))
		}
		nll = append(nll, -math.Log(math.Exp(float64(logits[chunk[i+1]]))/sum))
	})
	if err != nil {
		t.Fatal(err)
	}
	return nll
}

// estimateOf is exp of the mean, and its error as that of the mean times the derivative.
func estimateOf(nll []float64) Estimate {
	n, mean, square := float64(len(nll)), 0.0, 0.0
	for _, v := range nll {
		mean += v / n
	}
	for _, v := range nll {
		square += (v - mean) * (v - mean)
	}
	return Estimate{PPL: math.Exp(mean), Error: math.Sqrt(square/(n-1)/n) * math.Exp(mean), Count: len(nll)}
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(b) }

// The figure is what llama.cpp defines: of each window of n tokens the second half counts, or of strided ones the last
// stride tokens.
func TestPerplexityByDefinition(t *testing.T) {
	e := openDemo(t, "")
	tok := e.Tokenizer()
	tokens := tok.Encode(tale, true, false)
	for _, c := range []struct {
		name                    string
		context, stride, chunks int
		starts                  []int
		first                   int
	}{
		{"disjoint", 24, 0, -1, []int{0, 24, 48, 72, 96}, 12},
		{"odd", 25, 0, 2, []int{0, 25}, 12},
		{"strided", 24, 16, 3, []int{0, 16, 32}, 7},
	} {
		var nll []float64
		var running []float64
		for _, at := range c.starts {
			nll = append(nll, surprises(t, e, tokens[at:at+c.context], tok.BOS(), c.first)...)
			running = append(running, estimateOf(nll).PPL)
		}
		p := Perplexity{Tokens: tokens, Context: c.context, Stride: c.stride, Chunks: c.chunks, BOS: tok.BOS()}
		p.Chunk = func(done, _ int, ppl float64) {
			if done <= len(running) && !near(ppl, running[done-1], sumTolerance) {
				t.Errorf("%s: after %d windows %g, not %g", c.name, done, ppl, running[done-1])
			}
		}
		got, err := p.Run(context.Background(), e)
		if err != nil {
			t.Fatal(err)
		}
		if c.chunks < 0 { // all there are
			for at := c.starts[len(c.starts)-1] + c.context; at+c.context <= len(tokens); at += c.context {
				nll = append(nll, surprises(t, e, tokens[at:at+c.context], tok.BOS(), c.first)...)
			}
		}
		want := estimateOf(nll)
		if got.Count != want.Count || !near(got.PPL, want.PPL, sumTolerance) || !near(got.Error, want.Error, sumTolerance) {
			t.Errorf("%s: %+v, by definition %+v", c.name, got, want)
		}
	}
}

// TestExpect: if there is much to read, the time of all chunks is reported once, before the first of them. Figures do
// not change.
func TestExpect(t *testing.T) {
	e := openDemo(t, "")
	tokens := e.Tokenizer().Encode(strings.Repeat(tale, 40), true, false)
	p := Perplexity{Tokens: tokens, Context: 60, Chunks: worthTrial * trialTokens / 60, BOS: e.Tokenizer().BOS()}
	var told []int
	p.Expect = func(chunks int, whole time.Duration) {
		if told = append(told, chunks); whole <= 0 {
			t.Errorf("it takes %s", whole)
		}
	}
	p.Chunk = func(done, total int, _ float64) {
		if len(told) != 1 || told[0] != total {
			t.Fatalf("%d of %d chunks done; told %v", done, total, told)
		}
	}
	p.Chunks++
	want, err := p.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if told[0] != p.Chunks {
		t.Errorf("told of %d chunks, not %d", told[0], p.Chunks)
	}
	p.Expect, p.Chunk = nil, nil
	if got, err := p.Run(t.Context(), e); err != nil || got != want {
		t.Errorf("%+v, %v; with Expect %+v", got, err, want)
	}
	p.Chunks = worthTrial * trialTokens / 60
	p.Expect = func(int, time.Duration) { t.Error("a short text is timed") }
	if _, err := p.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// The reference's surprises, computed by other code in float32, make the same perplexity.
func TestPerplexityOfTheReference(t *testing.T) {
	data, err := os.ReadFile(testenv.Shared(t, "demo-model/reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		IDs []int32   `json:"ids"`
		NLL []float64 `json:"nll_per_position"`
	}
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	e := openDemo(t, "")
	n := len(ref.IDs)
	p := Perplexity{Tokens: slices.Concat(ref.IDs, ref.IDs), Context: n, Chunks: -1, BOS: ref.IDs[0]}
	got, err := p.Run(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	half := ref.NLL[n/2:]
	want := estimateOf(slices.Concat(half, half))
	if got.Count != want.Count || !near(got.PPL, want.PPL, kernelTolerance) || !near(got.Error, want.Error, kernelTolerance) {
		t.Errorf("%+v, the reference %+v", got, want)
	}
}

func TestPerplexityRefusals(t *testing.T) {
	e := openDemo(t, "")
	tokens := make([]int32, 60)
	for want, p := range map[string]Perplexity{
		"the text has 60 tokens; at a context of 32 perplexity needs at least 64": {Tokens: tokens, Context: 32, Chunks: -1},
		"fewer than one window of 61":                         {Tokens: tokens, Context: 61, Stride: 4, Chunks: -1},
		"a stride of 16 is not smaller than the window of 16": {Tokens: tokens, Context: 16, Stride: 16, Chunks: -1},
		"raise --chunks":                                      {Tokens: tokens, Context: 16},
		"predicts nothing":                                    {Tokens: tokens, Context: 1, Chunks: -1},
		"token 99999 is not in the vocabulary":                {Tokens: append([]int32{1, 99999}, tokens...), Context: 16, Chunks: -1},
		"the context of 64 tokens is full; raise it with -c":  {Tokens: append(tokens, tokens...), Context: 65, Stride: 8, Chunks: -1},
		"token -5 is not in the vocabulary of 4096":           {Tokens: append([]int32{1, -5}, tokens...), Context: 16, Chunks: -1},
	} {
		p.BOS = -1
		_, err := p.Run(context.Background(), e)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&Perplexity{Tokens: tokens, Context: 16, Chunks: -1, BOS: -1}).Run(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
