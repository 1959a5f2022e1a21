package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// depth is the context that decoding begins with.
const depth = 32

func (c *check) tokens() int {
	if c.tiny {
		return 2
	}
	return 32
}

// prompt returns how long a prompt is.
func (c *check) prompt() int {
	if c.tiny {
		return depth // steps of one length less to record
	}
	return 128
}

// checked returns how many tokens are decoded to verify.
func (c *check) checked() int {
	if c.tiny {
		return 4
	}
	return 16
}

func (c *check) repetitions() int {
	if c.tiny {
		return 1
	}
	return 3
}

// text is the models' prompt. It leaves the share of neurons at zero that they were made for; random tokens would not.
const text = "The old king had three daughters, and the youngest of them was so fair that the sun itself, which had seen so much, wondered " +
	"whenever it shone on her face. Near the castle lay a great dark forest, and in the forest under an old lime tree was a well."

// logits are the logits of a few decoded tokens, and how they agree with others.
type logits struct {
	rows  [][]float32
	again bool    // a second time gave the same bytes
	share float64 // the largest difference from the reference's, by the largest logit
	other int     // rows with another likeliest token
	of    bool    // they were compared
}

// decode verifies and times.
func (t *trial) decode(ctx context.Context, c *check, e *engine.Engine) error {
	tokens := e.Tokenizer().Encode(text, true, false)
	for _, again := range []bool{false, true} {
		rows, err := decoded(e, tokens[:min(c.checked(), len(tokens))])
		if err != nil {
			return err
		}
		if again {
			t.logits.again = slices.EqualFunc(rows, t.logits.rows, sameBits)
		}
		t.logits.rows = rows
	}
	test := bench.Test{Gen: c.tokens(), Depth: depth}
	r, err := bench.Run(ctx, e, test, tokens, c.repetitions(), nil)
	if err != nil {
		return err
	}
	t.rate, t.dev, _ = test.Rate(r.Samples)
	if r.Neurons.Dense > 0 {
		t.read = float64(r.Neurons.Bytes) / float64(r.Neurons.Dense)
	}
	prompt := bench.Test{Prompt: c.prompt()}
	if r, err = bench.Run(ctx, e, prompt, tokens, 1, nil); err != nil {
		return err
	}
	t.prompt, _, _ = prompt.Rate(r.Samples)
	return nil
}

// decoded returns the logits after each of tokens, one token a step.
func decoded(e *engine.Engine, tokens []int32) ([][]float32, error) {
	s := e.NewSequence()
	defer e.Release(s)
	var rows [][]float32
	for i := range tokens {
		err := e.Evaluate(s, tokens[i:i+1], func(int) bool { return true }, func(_ int, logits []float32) { rows = append(rows, slices.Clone(logits)) })
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// compare compares l with the reference's.
func (l *logits) compare(to *logits) {
	if len(l.rows) != len(to.rows) || len(l.rows) == 0 {
		return
	}
	l.of = true
	var top, most float64
	for i, row := range l.rows {
		for j, v := range row {
			top = max(top, math.Abs(float64(to.rows[i][j])))
			most = math.Max(most, math.Abs(float64(v)-float64(to.rows[i][j]))) // stays NaN
		}
		if likeliest(row) != likeliest(to.rows[i]) {
			l.other++
		}
	}
	l.share = most / top
}

func likeliest(row []float32) int {
	best := 0
	for i, v := range row {
		if v > row[best] {
			best = i
		}
	}
	return best
}

// far is from which share of the largest logit on a difference is an error, not rounding: activations are rounded to
// eight bits, at other scales on the GPU than on the processor.
const far = 0.1

// verdict says it in a few words.
func (l *logits) verdict() string {
	s := "the same bytes twice"
	if !l.again {
		s = "**other bytes the second time**"
	}
	if l.of {
		s += fmt.Sprintf(", within %.2g of the processor's, %d of %d choices differ", l.share, l.other, len(l.rows))
	}
	return s
}
