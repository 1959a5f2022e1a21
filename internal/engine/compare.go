package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Comparison says how predicting neurons changes the results on a text, compared with computing every neuron.
type Comparison struct {
	Tokens          int           // tokens that were compared, each evaluated as a single token
	Divergence      float64       // mean Kullback-Leibler divergence of the next token's probabilities from the dense ones, in nats
	SameTop         float64       // share of tokens after which both have the same likeliest token
	Time, DenseTime time.Duration // time of these tokens
}

// Compare reads the first prompt tokens as a prompt, and then compares each of the other tokens. Its steps run between
// the steps of requests. It needs pages for twice as many tokens, and no request can reuse them.
func (e *Engine) Compare(ctx context.Context, tokens []int32, prompt int) (Comparison, error) {
	var c Comparison
	if prompt < 1 || prompt >= len(tokens) {
		return c, errors.New("there is nothing to compare: the text is too short")
	}
	if 2*len(tokens) > e.context {
		return c, &ContextError{Tokens: 2 * len(tokens), Context: e.context}
	}
	sparse, dense := e.NewSequence(), e.NewSequence()
	dense.t.dense = true
	for _, s := range []*Sequence{sparse, dense} {
		defer e.Release(s)
		defer context.AfterFunc(ctx, func() { e.sched.leave(s.t, ctx.Err()) })()
		if err := e.Evaluate(s, tokens[:prompt], nil, nil); err != nil {
			return c, err
		}
	}
	var rows [2][]float32 // logits of the sparse and of the dense step
	for i := prompt; i < len(tokens); i++ {
		for which, s := range []*Sequence{sparse, dense} {
			if err := ctx.Err(); err != nil {
				return c, err
			}
			begin := monotime.Now()
			err := e.Evaluate(s, tokens[i:i+1], func(int) bool { return true }, func(_ int, logits []float32) {
				rows[which] = append(rows[which][:0], logits...)
			})
			if err != nil {
				return c, err
			}
			if took := monotime.Since(begin); which == 0 {
				c.Time += took
			} else {
				c.DenseTime += took
			}
		}
		c.add(rows[0], rows[1])
	}
	c.Divergence /= float64(c.Tokens)
	c.SameTop /= float64(c.Tokens)
	return c, nil
}

// add compares the logits [n_vocab] after a token.
func (c *Comparison) add(sparse, dense []float32) {
	c.Tokens++
	c.Divergence += divergence(dense, sparse)
	if slices.Index(sparse, slices.Max(sparse)) == slices.Index(dense, slices.Max(dense)) {
		c.SameTop++
	}
}

// divergence returns Σ p·ln(p/q) for the probabilities of logits p and q.
func divergence(p, q []float32) float64 {
	lp, lq := logSum(p), logSum(q)
	sum := 0.0
	for i := range p {
		l := float64(p[i]) - lp
		sum += math.Exp(l) * (l - float64(q[i]) + lq)
	}
	return max(0, sum) // only rounding makes it negative
}

// logSum returns ln Σ exp(x).
func logSum(x []float32) float64 {
	top, sum := float64(slices.Max(x)), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}
