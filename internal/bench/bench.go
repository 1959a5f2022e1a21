// Package bench times prompts and generation as llama-bench does, with its tests and field names.
package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
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

// Tokens is the context that the test needs.
func (t Test) Tokens() int { return t.Prompt + t.Gen + t.Depth }

// Run times t reps times after one warm-up; samples are nanoseconds. Token ids are random, as in llama-bench.
func Run(ctx context.Context, e *engine.Engine, t Test, reps int, progress func(done, total int)) ([]int64, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	vocab := e.Config().Vocab
	tokens := make([]int32, max(t.Prompt, t.Depth, 1))
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocab))
	}
	var samples []int64
	for rep := -1; rep < reps; rep++ {
		if err := ctx.Err(); err != nil {
			return samples, err
		}
		s := e.NewSequence()
		ns, err := once(ctx, e, s, t, tokens, rep < 0)
		e.Release(s)
		if err != nil {
			return samples, err
		}
		if rep >= 0 {
			samples = append(samples, ns)
		}
		if progress != nil {
			progress(rep+2, reps+1)
		}
	}
	return samples, nil
}

// warmUp is the tokens generated before the first counted run: pages, clocks and caches settle.
const warmUp = 4

func once(ctx context.Context, e *engine.Engine, s *engine.Sequence, t Test, tokens []int32, warm bool) (int64, error) {
	ignore := func(int, []float32) {}
	last := func(n int) func(int) bool { return func(i int) bool { return i == n-1 } }
	if t.Depth > 0 {
		if err := e.Evaluate(s, tokens[:t.Depth], nil, ignore); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if t.Prompt > 0 {
		if err := e.Evaluate(s, tokens[:t.Prompt], last(t.Prompt), ignore); err != nil {
			return 0, err
		}
	}
	gen := t.Gen
	if warm {
		gen = min(gen, warmUp)
	}
	for i := range gen {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := e.Evaluate(s, tokens[i%len(tokens):][:1], last(1), ignore); err != nil {
			return 0, err
		}
	}
	return time.Since(begin).Nanoseconds(), nil
}

// Rate is the mean and standard deviation of a test's tokens per second over its samples.
func (t Test) Rate(samples []int64) (mean, sd float64, each []float64) {
	for _, ns := range samples {
		each = append(each, float64(t.Prompt+t.Gen)/(float64(ns)/1e9))
	}
	mean, sd = MeanSD(each)
	return mean, sd, each
}

// MeanSD is the mean and the sample standard deviation of x.
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
