// Package bench times prompts and generation as llama-bench does, with its tests and field names.
package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Test is one row: a prompt of Prompt tokens, or Gen generated ones, after Depth tokens of context.
type Test struct {
	Prompt, Gen, Depth int
}

// Name is llama-bench's name of the test.
func (t Test) Name() string {
	name := fmt.Sprintf("tg%d", t.Gen)
	if t.Prompt > 0 {
		name = fmt.Sprintf("pp%d", t.Prompt)
		if t.Gen > 0 {
			name += fmt.Sprintf("+tg%d", t.Gen)
		}
	}
	if t.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.Depth)
	}
	return name
}

// Tokens returns the context that the test needs.
func (t Test) Tokens() int { return t.Prompt + t.Gen + t.Depth }

// Result is what Run measured: counted runs only, and of these only what was timed.
type Result struct {
	Samples []int64 // nanoseconds
	Neurons Neurons
	Disk    compute.DiskUse
}

// Run times t reps times after one warm-up. Tokens are text's, repeated if necessary; an empty text gives random ones,
// like llama-bench's. Random tokens leave fewer neurons at zero than a text does.
func Run(ctx context.Context, e *engine.Engine, t Test, text []int32, reps int, progress func(done, total int)) (Result, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	tokens := make([]int32, t.Tokens())
	for i := range tokens {
		if len(text) > 0 {
			tokens[i] = text[i%len(text)]
		} else {
			tokens[i] = int32(rng.IntN(e.Config().Vocab))
		}
	}
	r := Result{Neurons: Neurons{Mode: e.Config().Sparse.String()}}
	for rep := -1; rep < reps; rep++ {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		run, err := once(ctx, e, t, tokens, rep < 0)
		if err != nil {
			return r, err
		}
		if rep >= 0 {
			r.Samples = append(r.Samples, run.ns)
			r.Neurons.add(run.neurons)
			r.Disk.Add(run.units.Disk())
		}
		if progress != nil {
			progress(rep+2, reps+1)
		}
	}
	return r, nil
}

// warmUp is the tokens generated before the first counted run: pages, clocks and caches settle.
const warmUp = 4

// timed holds the cost of one run of a test.
type timed struct {
	ns      int64
	neurons []model.NeuronUse // [layers]
	units   compute.UnitUse
}

// once runs t in a new sequence.
func once(ctx context.Context, e *engine.Engine, t Test, tokens []int32, warm bool) (r timed, err error) {
	s := e.NewSequence()
	defer e.Release(s)
	if t.Depth > 0 {
		if err := e.Evaluate(s, tokens[:t.Depth], nil, func(int, []float32) {}); err != nil {
			return r, err
		}
	}
	before, units := e.Neurons(), e.UnitUse()
	begin := monotime.Now()
	if err := t.evaluate(ctx, e, s, tokens[t.Depth:], warm); err != nil {
		return r, err
	}
	r.ns = monotime.Since(begin).Nanoseconds()
	r.neurons, r.units = e.Neurons(), e.UnitUse().Since(units)
	for l := range r.neurons {
		r.neurons[l] = r.neurons[l].Since(before[l])
	}
	return r, nil
}

// evaluate runs the timed part. tokens [Prompt+Gen]
func (t Test) evaluate(ctx context.Context, e *engine.Engine, s *engine.Sequence, tokens []int32, warm bool) error {
	ignore := func(int, []float32) {}
	last := func(n int) func(int) bool { return func(i int) bool { return i == n-1 } }
	if t.Prompt > 0 {
		if err := e.Evaluate(s, tokens[:t.Prompt], last(t.Prompt), ignore); err != nil {
			return err
		}
	}
	gen := t.Gen
	if warm {
		gen = min(gen, warmUp)
	}
	for i := range gen {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.Evaluate(s, tokens[t.Prompt+i:][:1], last(1), ignore); err != nil {
			return err
		}
	}
	return nil
}

// Rate returns the mean and standard deviation of a test's tokens per second over its samples.
func (t Test) Rate(samples []int64) (mean, sd float64, each []float64) {
	for _, ns := range samples {
		each = append(each, float64(t.Prompt+t.Gen)/(float64(ns)/1e9))
	}
	mean, sd = MeanSD(each)
	return mean, sd, each
}

// MeanSD returns the mean and the sample standard deviation of x.
func MeanSD(x []float64) (mean, sd float64) {
	if len(x) == 0 {
		return 0, 0
	}
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(sd)
}
