// Package eval measures a model's quality on text.
package eval

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// Perplexity asks for the perplexity of Tokens by llama.cpp's method, so that figures compare.
type Perplexity struct {
	Tokens  []int32 // the text, tokenised with BOS
	Context int     // tokens of a chunk
	Chunks  int     // at most this many; negative: all
	Stride  int     // > 0: strided windows instead of disjoint chunks
	BOS     int32   // replaces each chunk's first token; -1: none
	// Chunk, if set, is told the running estimate after each chunk.
	Chunk func(done, total int, ppl float64)
}

// Estimate is a perplexity with its standard error.
type Estimate struct {
	PPL, Error float64
	Count      int // predicted tokens
}

// window is the part of the text evaluated at once: predictions of tokens[start+first+1 : start+end].
func (p *Perplexity) windows() (count, step, first int, err error) {
	if p.Context < 2 {
		return 0, 0, 0, fmt.Errorf("a context of %d tokens predicts nothing; give at least -c 2", p.Context)
	}
	if p.Stride > 0 {
		if len(p.Tokens) < p.Context {
			return 0, 0, 0, fmt.Errorf("the text has %d tokens, fewer than one window of %d", len(p.Tokens), p.Context)
		}
		if p.Stride >= p.Context {
			return 0, 0, 0, fmt.Errorf("a stride of %d is not smaller than the window of %d", p.Stride, p.Context)
		}
		return (len(p.Tokens)-p.Context)/p.Stride + 1, p.Stride, p.Context - p.Stride - 1, nil
	}
	if len(p.Tokens) < 2*p.Context {
		return 0, 0, 0, fmt.Errorf("the text has %d tokens; at a context of %d perplexity needs at least %d: give a longer text or a smaller -c", len(p.Tokens), p.Context, 2*p.Context)
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
		return Estimate{}, errors.New("no chunk to evaluate: raise --chunks")
	}
	var nll, nll2 float64
	n := 0
	chunk := make([]int32, p.Context)
	for c := range count {
		if err := ctx.Err(); err != nil {
			return Estimate{}, err
		}
		copy(chunk, p.Tokens[c*step:])
		next := p.Tokens[c*step+1 : c*step+p.Context]
		if p.BOS >= 0 {
			chunk[0] = p.BOS
		}
		s := e.NewSequence()
		err := e.Evaluate(s, chunk, func(i int) bool { return i >= first && i < p.Context-1 },
			func(i int, logits []float32) {
				v := logSumExp(logits) - float64(logits[next[i]])
				nll += v
				nll2 += v * v
				n++
			})
		e.Release(s)
		if err != nil {
			return Estimate{}, err
		}
		if p.Chunk != nil {
			p.Chunk(c+1, count, math.Exp(nll/float64(n)))
		}
	}
	mean := nll / float64(n)
	est := Estimate{PPL: math.Exp(mean), Count: n}
	if variance := nll2/float64(n) - mean*mean; variance > 0 && n > 1 {
		est.Error = math.Sqrt(variance/float64(n-1)) * est.PPL
	}
	return est, nil
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
