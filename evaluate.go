package powerinfer

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/eval"
)

// Logits evaluates tokens as a prompt and calls each with the logits behind tokens[i], for every i that wanted reports, in order. logits
// [vocabulary] are valid until each returns. An error of each, or ctx's, ends the evaluation.
func (m *Model) Logits(ctx context.Context, tokens []int32, wanted func(i int) bool, each func(i int, logits []float32) error) error {
	s := m.session.NewSequence()
	defer m.session.Release(s)
	step := m.session.Step()
	for at := 0; at < len(tokens); at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed error
		part := tokens[at:min(at+step, len(tokens))]
		err := m.session.Evaluate(s, part, func(i int) bool { return wanted(at + i) }, func(i int, logits []float32) {
			if failed == nil {
				failed = each(at+i, logits)
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Perplexity is how well a model predicts a text: e to the mean negative logarithm of the probability of each next token.
type Perplexity struct {
	Value, Error float64 // with the standard error
	Tokens       int     // that were predicted
}

// Perplexity measures the model on text by llama.cpp's method: in windows of so many tokens, of which the second halves are predicted;
// 0: 512. progress, if set, is told of the windows done and of the estimate so far.
func (m *Model) Perplexity(ctx context.Context, text string, window int, progress func(done, total int, soFar float64)) (Perplexity, error) {
	const usual = 512
	if window == 0 {
		window = usual
	}
	tok := m.session.Tokenizer()
	p := eval.Perplexity{Tokens: tok.Encode(text, true, false), Context: window, Chunks: -1, BOS: -1, Chunk: progress}
	if tok.AddsBOS() {
		p.BOS = tok.BOS()
	}
	e, err := p.Run(ctx, m.session.Engine)
	return Perplexity{Value: e.PPL, Error: e.Error, Tokens: e.Count}, err
}
