package prepare

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// measurer compares prepared files with the dense model on the text held out, by llama.cpp's method.
type measurer struct {
	f      *gguf.File
	w      *work
	o      *Options
	text   []document
	mapped bool
}

// Measured says what a prepared file costs on held-out text.
type Measured struct {
	PerplexityDense, PerplexityPredict float64
	KLDivergence                       float64 // mean, nats a token, of predict from dense
	Error                              float64 // standard error of KLDivergence
	SameTop                            float64 // share of tokens whose likeliest successor is the same
	Tokens                             int     // whose predictions were compared
	// ExactKLDivergence is that of mode exact where the down projection was quantised again, else 0.
	ExactKLDivergence float64
}

// outputs bounds the rows of logits held at a time.
const outputs = 128

// open opens f in a mode; magnitudes are the layers' thresholds in mode threshold.
func (m *measurer) open(ctx context.Context, f *gguf.File, window int, mode model.SparseMode, magnitudes []float32) (*engine.Engine, error) {
	return engine.Open(ctx, f, engine.Options{
		Context: window, UBatch: stepTokens, Outputs: outputs, NoRepack: m.mapped,
		Activation: m.o.Activation, Sparse: mode, Magnitudes: magnitudes, Progress: m.o.bytes(StageLoad),
		Devices: planner.CPU(planner.Processor{Threads: m.o.Threads}),
	})
}

// dense saves the dense model's log-probabilities in the work folder, once.
func (m *measurer) dense(ctx context.Context, window int) error {
	if b, err := eval.OpenBase(m.w.path(fileBase)); err == nil {
		return b.Close()
	}
	e, err := m.open(ctx, m.f, window, model.Off, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	tok := e.Tokenizer()
	p := eval.Perplexity{Context: window, Chunks: -1, BOS: -1, Base: m.w.path(fileBase), Chunk: func(done, total int, _ float64) {
		m.o.progress(StageMeasure, int64(done), int64(2*total))
	}}
	if tok.AddsBOS() {
		p.BOS = tok.BOS()
		p.Tokens = append(p.Tokens, p.BOS)
	}
	for _, d := range m.text {
		p.Tokens = append(p.Tokens, d.tokens...)
	}
	_, err = p.Run(ctx, e)
	return err
}

// divergence compares the prepared file at path, in the given mode, with what dense saved.
func (m *measurer) divergence(ctx context.Context, path string, mode model.SparseMode) (eval.Divergence, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return eval.Divergence{}, err
	}
	defer f.Close()
	return m.compare(ctx, f, mode, nil)
}

// compare compares f in a mode with what dense saved; magnitudes are the layers' thresholds in mode threshold.
func (m *measurer) compare(ctx context.Context, f *gguf.File, mode model.SparseMode, magnitudes []float32) (eval.Divergence, error) {
	base, err := eval.OpenBase(m.w.path(fileBase))
	if err != nil {
		return eval.Divergence{}, err
	}
	defer base.Close()
	e, err := m.open(ctx, f, base.Context, mode, magnitudes)
	if err != nil {
		return eval.Divergence{}, err
	}
	defer e.Close()
	k := eval.KLDivergence{Base: base, Chunks: -1, BOS: -1, Chunk: func(done, total int, _ eval.Divergence) {
		m.o.progress(StageMeasure, int64(total+done), int64(2*total))
	}}
	if tok := e.Tokenizer(); tok.AddsBOS() {
		k.BOS = tok.BOS()
	}
	return k.Run(ctx, e)
}

// measure returns the cost of the prepared file at path, or what an earlier run found for this round.
func (m *measurer) measure(ctx context.Context, path string, r round, requantised bool) (Measured, error) {
	name := fmt.Sprintf("measured-%d.json", r.number)
	var q Measured
	if b, ok, err := m.w.read(name); err != nil {
		return q, err
	} else if ok {
		if json.Unmarshal(b, &q) != nil {
			return q, m.w.damaged(name)
		}
		return q, nil
	}
	window, err := m.window()
	if err != nil {
		return q, err
	}
	if err := m.dense(ctx, window); err != nil {
		return q, err
	}
	d, err := m.divergence(ctx, path, model.Predict)
	if err != nil {
		return q, err
	}
	q = Measured{
		PerplexityDense: d.BasePPL.Value, PerplexityPredict: d.PPL.Value, KLDivergence: max(0, d.KLD.Value), Error: d.KLD.Error,
		SameTop: d.SameTop.Value, Tokens: d.Count,
	}
	if requantised {
		if d, err = m.divergence(ctx, path, model.Exact); err != nil {
			return q, err
		}
		q.ExactKLDivergence = max(0, d.KLD.Value)
	}
	b, err := json.Marshal(q)
	if err != nil {
		return q, err
	}
	return q, m.w.write(name, b)
}

func (m *measurer) window() (int, error) {
	c, err := model.ReadConfig(m.f, m.o.Activation)
	return min(windowTokens, c.Context), err
}
