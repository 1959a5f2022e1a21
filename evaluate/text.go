// Package evaluate measures models: how well they predict a text, how far they are from each other, what they score in
// published tasks, and how fast they are. The programs that a model writes for a task run in a sandbox.
package evaluate

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// engineOf returns what computes m.
func engineOf(m *powerinfer.Model) *engine.Engine { return session.Of(m).Engine }

// PerplexityOptions say how perplexity is measured. The zero value is llama.cpp's way.
type PerplexityOptions struct {
	Name    string // the text's name, for messages; empty: it has none
	Window  int    // tokens of a window; its second half is predicted; 0: 512
	Windows int    // to evaluate at most; 0: all
	Stride  int    // tokens from one window to the next, and tokens of a window that are predicted; 0: Window
	// ByDocument makes windows begin and end with the documents of the text, and orders them as sweeps do. With Windows
	// set, each document has its first ones. It cannot be combined with Stride.
	ByDocument bool
	Save       string // file for all predictions, in llama.cpp's form, which OpenPredictions reads; empty: none

	// Expect is called before the first window with the number of windows and the expected time, unless the text is
	// short; may be nil.
	Expect   func(windows int, whole time.Duration)
	Progress func(done, total int, soFar float64) // called with the number of windows done and the estimate so far; may be nil
}

// Estimate is a perplexity: e to the mean negative logarithm of the probability of each next token.
type Estimate struct {
	Value, Error float64 // with the standard error
	Tokens       int     // that were predicted
}

// Perplexity measures how well m predicts text, by llama.cpp's method. A window may not be longer than the context.
func Perplexity(ctx context.Context, m *powerinfer.Model, text string, o PerplexityOptions) (Estimate, error) {
	const usual = 512
	p := eval.Perplexity{
		Name: o.Name, Context: o.Window, Chunks: o.Windows, Stride: o.Stride, BOS: windowStart(m), Base: o.Save, Expect: o.Expect, Chunk: o.Progress,
	}
	if p.Context == 0 {
		p.Context = usual
	}
	if p.Chunks == 0 {
		p.Chunks = -1
	}
	switch {
	case o.ByDocument && o.Stride > 0:
		return Estimate{}, errors.New("PerplexityOptions: windows by document are disjoint; give ByDocument or Stride")
	case o.ByDocument:
		p.Tokens = eval.LayText(engineOf(m).Tokenizer(), text, p.Context, o.Windows).Tokens
	default:
		p.Tokens = m.Tokenize(text, true, false)
	}
	e, err := p.Run(ctx, engineOf(m))
	return Estimate{Value: e.PPL, Error: e.Error, Tokens: e.Count}, setting.For(setting.Fields, err)
}

// windowStart returns the token that begins every window of an evaluated text; -1: none.
func windowStart(m *powerinfer.Model) int32 {
	if tok := engineOf(m).Tokenizer(); tok.AddsBOS() {
		return tok.BOS()
	}
	return -1
}

// Predictions are a model's predictions for a text, in a file of llama.cpp's form.
type Predictions struct{ base *eval.Base }

// OpenPredictions opens the file at path. The caller closes it.
func OpenPredictions(path string) (*Predictions, error) {
	b, err := eval.OpenBase(path)
	if err != nil {
		return nil, err
	}
	return &Predictions{b}, nil
}

// Window returns how many tokens the windows have: the context that a model needs to be compared.
func (p *Predictions) Window() int { return p.base.Context }

// Close closes the file.
func (p *Predictions) Close() error { return p.base.Close() }

// Figure is a mean with its standard error.
type Figure struct{ Value, Error float64 }

// Divergence says how far a model's predictions are from those of another model, the base.
type Divergence struct {
	Tokens         int    // that were predicted
	Perplexity     Figure // the model's
	BasePerplexity Figure // the base's
	KLDivergence   Figure // of the model from the base, in nats per token
	SameTop        Figure // share of tokens for which both take the same token for the likeliest

	all eval.Divergence
}

func divergenceOf(d eval.Divergence) Divergence {
	return Divergence{
		Tokens: d.Count, Perplexity: Figure(d.PPL), BasePerplexity: Figure(d.BasePPL), KLDivergence: Figure(d.KLD), SameTop: Figure(d.SameTop), all: d,
	}
}

// DivergenceHeader heads the lines of Divergence.Line.
const DivergenceHeader = eval.DivergenceHeader

// Line returns the figures after this many windows in a line, as llama.cpp prints them.
func (d Divergence) Line(windows int) string { return d.all.Line(windows) }

// Report writes all figures, as llama.cpp prints them at the end.
func (d Divergence) Report(w io.Writer) error { return d.all.Report(w) }

// DivergenceOptions say how predictions are compared. The zero value compares all.
type DivergenceOptions struct {
	Windows int // to evaluate at most; 0: all
	// Expect is called before the first window with the number of windows and the expected time, unless the text is
	// short; may be nil.
	Expect func(windows int, whole time.Duration)
	// Progress gets the number of windows done and the figures so far, without Report's percentiles; may be nil.
	Progress func(done, total int, soFar Divergence)
}

// Compare compares m's predictions with base's, which can be read once, for its text.
func Compare(ctx context.Context, m *powerinfer.Model, base *Predictions, o DivergenceOptions) (Divergence, error) {
	k := eval.KLDivergence{Base: base.base, Chunks: o.Windows, BOS: windowStart(m), Expect: o.Expect}
	if o.Windows == 0 {
		k.Chunks = -1
	}
	if o.Progress != nil {
		k.Chunk = func(done, total int, d eval.Divergence) { o.Progress(done, total, divergenceOf(d)) }
	}
	d, err := k.Run(ctx, engineOf(m))
	return divergenceOf(d), setting.For(setting.Fields, err)
}
