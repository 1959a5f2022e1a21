// Package eval measures a model's quality on text.
package eval

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Perplexity computes the perplexity of Tokens by llama.cpp's method, so that figures can be compared.
type Perplexity struct {
	Tokens  []int32 // the text, tokenised with BOS
	Name    string  // of the text, for messages; may be empty
	Context int     // tokens of a chunk
	Chunks  int     // at most this many; negative: all
	Stride  int     // > 0: strided windows instead of disjoint chunks
	BOS     int32   // replaces each chunk's first token; -1: none
	// Base, if not empty, is the path of a file for the log-probabilities of every prediction, for KLDivergence.
	Base string
	// Expect, if set, is called before the first chunk with the number of chunks and their expected time, unless the
	// text is short.
	Expect func(chunks int, whole time.Duration)
	// Chunk, if set, gets the running estimate after each chunk.
	Chunk func(done, total int, ppl float64)
}

// Estimate is a perplexity with its standard error.
type Estimate struct {
	PPL, Error float64
	Count      int // predicted tokens
}

// window is the setting of Perplexity.Context.
const window setting.Setting = "-c|PerplexityOptions.Window"

// leastContext is the least window with a token in its second half that has both a context and a successor.
const leastContext = 3

var errNoChunk = setting.Errorf("no chunk to evaluate: raise %s", setting.Setting("--chunks|PerplexityOptions.Windows"))

func (p *Perplexity) name() string {
	if p.Name == "" {
		return "the text"
	}
	return p.Name
}

// windows returns the number of windows, their step, and the first token of each with a prediction that counts.
func (p *Perplexity) windows() (count, step, first int, err error) {
	if p.Context < leastContext {
		return 0, 0, 0, setting.Errorf("a context of %d tokens predicts nothing; give at least %s", p.Context, window.To(leastContext))
	}
	if p.Stride > 0 {
		if len(p.Tokens) < p.Context {
			return 0, 0, 0, setting.Errorf("%s has %d tokens, fewer than one window of %d: give a longer text or a smaller %s", p.name(), len(p.Tokens), p.Context, window)
		}
		if p.Stride >= p.Context {
			return 0, 0, 0, fmt.Errorf("a stride of %d is not smaller than the window of %d", p.Stride, p.Context)
		}
		return (len(p.Tokens)-p.Context)/p.Stride + 1, p.Stride, p.Context - p.Stride - 1, nil
	}
	if len(p.Tokens) < 2*p.Context {
		return 0, 0, 0, setting.Errorf("%s has %d tokens; at a context of %d perplexity needs at least %d: give a longer text or a smaller %s", p.name(), len(p.Tokens), p.Context, 2*p.Context, window)
	}
	return len(p.Tokens) / p.Context, p.Context, p.Context / 2, nil
}

// Run evaluates p. The first half of each chunk is context only, as in llama.cpp.
func (p *Perplexity) Run(ctx context.Context, e *engine.Engine) (Estimate, error) {
	count, step, first, err := p.windows()
	if err != nil {
		return Estimate{}, err
	}
	if p.Chunks >= 0 {
		count = min(count, p.Chunks)
	}
	if count == 0 {
		return Estimate{}, errNoChunk
	}
	save, err := p.createBase(e, count)
	if err != nil {
		return Estimate{}, err
	}
	if save != nil {
		defer save.abort()
	}
	if err := foretell(e, p.Tokens[:p.Context], p.BOS, first, count, p.Expect); err != nil {
		return Estimate{}, err
	}
	var nll, nll2 float64
	n := 0
	for c := range count {
		if err := ctx.Err(); err != nil {
			return Estimate{}, err
		}
		var rowErr error
		err := evaluateChunk(e, p.Tokens[c*step:][:p.Context], p.BOS, first, func(logits []float32, next int32) {
			v := logSumExp(logits) - float64(logits[next])
			nll += v
			nll2 += v * v
			n++
			switch {
			case rowErr != nil:
			case v-v != 0:
				rowErr = e.ErrNotFinite()
			case save != nil:
				rowErr = save.add(logits)
			}
		})
		if err == nil {
			err = rowErr
		}
		if err != nil {
			return Estimate{}, err
		}
		if p.Chunk != nil {
			p.Chunk(c+1, count, math.Exp(nll/float64(n)))
		}
	}
	if save != nil {
		if err := save.commit(); err != nil {
			return Estimate{}, err
		}
	}
	mean := nll / float64(n)
	est := Estimate{PPL: math.Exp(mean), Count: n}
	if variance := nll2/float64(n) - mean*mean; variance > 0 && n > 1 {
		est.Error = math.Sqrt(variance/float64(n-1)) * est.PPL
	}
	return est, nil
}

// createBase begins the file p.Base, if it is set, for the first count chunks.
func (p *Perplexity) createBase(e *engine.Engine, count int) (*baseWriter, error) {
	if p.Base == "" {
		return nil, nil
	}
	if p.Stride > 0 {
		return nil, setting.Errorf("%s: log-probabilities are saved of disjoint windows only; leave %s out", p.Base, setting.Setting("--ppl-stride|PerplexityOptions.Stride"))
	}
	return createBase(p.Base, p.Context, e.Config().Vocab, p.Tokens[:count*p.Context])
}

// evaluateChunk evaluates tokens as a sequence of their own, the first replaced by bos unless that is negative. each
// gets the logits [n_vocab] of every token from first on that has a successor, in order, and that successor.
func evaluateChunk(e *engine.Engine, tokens []int32, bos int32, first int, each func(logits []float32, next int32)) error {
	chunk := slices.Clone(tokens)
	if bos >= 0 {
		chunk[0] = bos
	}
	s := e.NewSequence()
	defer e.Release(s)
	return e.Evaluate(s, chunk, func(i int) bool { return i >= first && i < len(chunk)-1 },
		func(i int, logits []float32) { each(logits, tokens[i+1]) })
}

// logSumExp is log Σ exp(x), shifted by the maximum so that nothing overflows.
func logSumExp(x []float32) float64 {
	top := x[0]
	for _, v := range x {
		top = max(top, v)
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v - top))
	}
	return float64(top) + math.Log(sum)
}
