package prepare

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
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

// Measured is the cost of a prepared file on held-out text.
type Measured struct {
	PerplexityDense, PerplexityPredict float64
	KLDivergence                       float64 // mean, nats a token, of predict from dense
	Error                              float64 // standard error of KLDivergence
	SameTop                            float64 // share of tokens with the same likeliest next token
	Tokens                             int     // number of compared predictions
	// ExactKLDivergence is that of mode exact if the down projection was quantised again, else 0.
	ExactKLDivergence float64
}

// outputs bounds the rows of logits held at once.
const outputs = 128

// setting is a way to compute a file.
type setting struct {
	mode       model.SparseMode
	threshold  *float32  // of predictors' logits; nil: the file's
	magnitudes []float32 // [layers] of mode threshold
	skip       compute.Skip
}

// open opens f in a setting.
func (m *measurer) open(ctx context.Context, f *gguf.File, window int, s setting) (*engine.Engine, error) {
	return engine.Open(ctx, f, engine.Options{
		Limits: engine.Limits{Context: window, UBatch: stepTokens, Sequences: outputs, Mapped: m.mapped}, Neurons: engine.Neurons{Activation: m.o.Activation, Sparse: s.mode, Threshold: s.threshold, Skip: s.skip}, Magnitudes: s.magnitudes, Progress: m.o.bytes(StageLoad), Devices: planner.CPU(planner.Processor{Threads: m.o.Threads}),
	})
}

// dense saves the dense model's log-probabilities in the work folder, once.
func (m *measurer) dense(ctx context.Context, window int) error {
	if b, err := eval.OpenBase(m.w.path(fileBase)); err == nil {
		return b.Close()
	}
	e, err := m.open(ctx, m.f, window, setting{mode: model.Off})
	if err != nil {
		return err
	}
	defer e.Close()
	tok := e.Tokenizer()
	p := eval.Perplexity{Context: window, Chunks: -1, BOS: -1, Tokens: m.laid(window).Tokens, Base: m.w.path(fileBase), Chunk: func(done, total int, _ float64) {
		m.o.progress(StageMeasure, int64(done), int64(2*total))
	}}
	if tok.AddsBOS() {
		p.BOS = tok.BOS()
	}
	_, err = p.Run(ctx, e)
	return err
}

// compare compares f in a setting with what dense saved, and returns what its layers computed for that, too.
func (m *measurer) compare(ctx context.Context, f *gguf.File, s setting) (d eval.Divergence, use []model.NeuronUse, err error) {
	base, err := eval.OpenBase(m.w.path(fileBase))
	if err != nil {
		return d, nil, err
	}
	defer base.Close()
	e, err := m.open(ctx, f, base.Context, s)
	if err != nil {
		return d, nil, err
	}
	defer e.Close()
	k := eval.KLDivergence{Base: base, Chunks: -1, BOS: -1, Chunk: func(done, total int, _ eval.Divergence) {
		m.o.progress(StageMeasure, int64(total+done), int64(2*total))
	}}
	if tok := e.Tokenizer(); tok.AddsBOS() {
		k.BOS = tok.BOS()
	}
	before := e.Neurons() // loading rehearses a step
	if d, err = k.Run(ctx, e); err != nil {
		return d, nil, err
	}
	use = e.Neurons()
	for l := range use {
		use[l] = use[l].Since(before[l])
	}
	return d, use, nil
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
	f, err := gguf.Open(path)
	if err != nil {
		return q, err
	}
	defer f.Close()
	d, _, err := m.compare(ctx, f, setting{mode: model.Predict})
	if err != nil {
		return q, err
	}
	q = Measured{
		PerplexityDense: d.BasePPL.Value, PerplexityPredict: d.PPL.Value, KLDivergence: max(0, d.KLD.Value), Error: d.KLD.Error,
		SameTop: d.SameTop.Value, Tokens: d.Count,
	}
	if requantised {
		if d, _, err = m.compare(ctx, f, setting{mode: model.Exact}); err != nil {
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
