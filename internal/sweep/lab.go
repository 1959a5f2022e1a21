package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// lab opens models in settings and measures them. As many stay open as there is room for.
type lab struct {
	o      *Options
	files  map[string]*subject // by Setting.File
	text   eval.Windows        // that are measured on
	bos    int32               // begins every window; -1: none
	window int
	count  int // number of windows
	open   []*opened
	memory func() (hw.Memory, error) // the machine's memory
}

// opened is a model in a setting.
type opened struct {
	*session.Session
	of Setting
}

// spareMemory must stay free when one more model is open, in bytes.
const spareMemory = 1 << 30

// in returns the model in a setting, which stays the lab's.
func (l *lab) in(ctx context.Context, s Setting) (*session.Session, error) {
	for _, m := range l.open {
		if m.of.Name() == s.Name() {
			return m.Session, nil
		}
	}
	if err := l.room(l.of(s)); err != nil {
		return nil, err
	}
	m, err := l.load(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	l.open = append(l.open, &opened{m, s})
	return m, nil
}

// room closes models until one of f fits, too. Models on GPUs do not share them.
func (l *lab) room(f *subject) error {
	for len(l.open) > 0 && !l.fits(f.size) {
		if err := l.open[0].Close(); err != nil {
			return err
		}
		l.open = l.open[1:]
	}
	return nil
}

// fits reports whether that many bytes of weights fit next to the open models.
func (l *lab) fits(size int64) bool {
	plan, err := l.open[0].Planner.Plan()
	if err != nil || plan != nil {
		return false
	}
	mem, err := l.memory()
	return err == nil && mem.Available > uint64(size+spareMemory)
}

// load opens a model in a setting. adjust may be nil.
func (l *lab) load(ctx context.Context, s Setting, adjust func(*session.Options)) (*session.Session, error) {
	f, err := l.of(s).open()
	if err != nil {
		return nil, err
	}
	so := l.o.Session
	if err := s.take(&so); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if adjust != nil {
		adjust(&so)
	}
	m, err := session.Open(ctx, f, so)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.Name(), err), f.Close())
	}
	return m, nil
}

func (l *lab) close() error {
	var failed []error
	for _, m := range l.open {
		failed = append(failed, m.Close())
	}
	l.open = nil
	return errors.Join(failed...)
}

// base returns the path of the dense model's predictions.
func (l *lab) base() string { return filepath.Join(l.o.Folder, baseName) }

// hasBase reports whether they are there, whole.
func (l *lab) hasBase() bool {
	b, err := eval.OpenBase(l.base())
	if err != nil {
		return false
	}
	return b.Close() == nil
}

// dense saves the dense model's predictions.
func (l *lab) dense(ctx context.Context, told func(float64)) (any, error) {
	m, err := l.in(ctx, Setting{Mode: model.Off.String()})
	if err != nil {
		return nil, err
	}
	p := eval.Perplexity{Tokens: l.text.Tokens, Context: l.window, Chunks: l.count, BOS: l.bos, Base: l.base(), Chunk: func(done, total int, _ float64) {
		told(float64(done) / float64(total))
	}}
	e, err := p.Run(ctx, m.Engine)
	if err != nil {
		return nil, err
	}
	return &Quality{Tokens: e.Count, Perplexity: Figure{e.PPL, e.Error}, SameTop: Figure{Value: 1}, Layers: layersOf(m.Engine.Neurons(), nil)}, nil
}

// quality compares a setting with dense.
func (l *lab) quality(ctx context.Context, s Setting, told func(float64)) (any, error) {
	m, err := l.in(ctx, s)
	if err != nil {
		return nil, err
	}
	return l.compare(ctx, m, l.count, told)
}

// compare compares an open model's predictions in the first windows with dense ones.
func (l *lab) compare(ctx context.Context, m *session.Session, windows int, told func(float64)) (*Quality, error) {
	base, err := eval.OpenBase(l.base())
	if err != nil {
		return nil, err
	}
	defer base.Close()
	before := m.Engine.Neurons()
	k := eval.KLDivergence{Base: base, Chunks: windows, BOS: l.bos, Chunk: func(done, total int, _ eval.Divergence) {
		told(float64(done) / float64(total))
	}}
	d, err := k.Run(ctx, m.Engine)
	if err != nil {
		return nil, err
	}
	q := &Quality{
		Tokens: d.Count, Perplexity: Figure(d.PPL), KLDivergence: Figure{max(0, d.KLD.Value), d.KLD.Error}, SameTop: Figure(d.SameTop),
		Layers: layersOf(m.Engine.Neurons(), before),
	}
	for _, w := range d.Chunks {
		q.KLDs, q.SameTops = append(q.KLDs, max(0, w.KLD)), append(q.SameTops, w.SameTop)
	}
	return q, nil
}

// layersOf returns what layers needed since before, which may be nil. A layer that counts nothing computes every
// neuron.
func layersOf(use, before []model.NeuronUse) []Layer {
	var all []Layer
	for i, u := range use {
		if before != nil {
			u = u.Since(before[i])
		}
		y := Layer{Mode: u.Mode.String(), Active: 1, Computed: 1}
		if pairs := float64(u.Tokens) * float64(u.Neurons); pairs > 0 {
			y.Active = float64(u.Active) / pairs
			if u.Mode == model.Predict {
				y.Computed = float64(u.Predicted) / pairs
			}
		}
		all = append(all, y)
	}
	return all
}

// recallWindows is how many windows a predictor is judged on: every token has thousands of neurons.
const recallWindows = 8

// recall judges the predictors in a setting: every layer computes the chosen neurons and then all, which the next layer
// sees.
func (l *lab) recall(ctx context.Context, s Setting, told func(float64)) (_ any, err error) {
	if err := l.room(l.of(s)); err != nil {
		return nil, err
	}
	m, err := l.load(ctx, s, func(o *session.Options) { o.Engine.Recall = true })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	n := min(recallWindows, l.count)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := l.read(m, i); err != nil {
			return nil, err
		}
		told(float64(i+1) / float64(n))
	}
	var layers []Predictor
	for _, u := range m.Engine.Neurons() {
		var p Predictor
		if u.Chosen > 0 {
			p = Predictor{Recall: share(u.Right, u.Active), Precision: share(u.Right, u.Chosen)}
		}
		layers = append(layers, p)
	}
	return judged{whole(m.Engine.Neurons()), layers}, nil
}

// judged is what recall finds.
type judged struct {
	All    Predictor   `json:"all"`
	Layers []Predictor `json:"layers"`
}

// whole returns the figures over all layers that predict.
func whole(use []model.NeuronUse) Predictor {
	var active, chosen, right int64
	for _, u := range use {
		if u.Chosen > 0 {
			active, chosen, right = active+u.Active, chosen+u.Chosen, right+u.Right
		}
	}
	return Predictor{share(right, active), share(right, chosen)}
}

func share(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// read reads a window of the text.
func (l *lab) read(m *session.Session, window int) error {
	chunk := append([]int32(nil), l.text.Tokens[window*l.window:][:l.window]...)
	if l.bos >= 0 {
		chunk[0] = l.bos
	}
	s := m.NewSequence()
	defer m.Release(s)
	return m.Evaluate(s, chunk, nil, func(int, []float32) {})
}

// timed is one timed run.
type timed struct {
	Rate  float64 `json:"rate"`  // tokens per second
	Reads Reads   `json:"reads"` // of a token
}

// speed times one run of generation in a setting. Each run opens the model again, because the place of its weights in
// memory makes a difference that all runs of an open model share.
func (l *lab) speed(ctx context.Context, s Setting) (any, error) {
	if err := l.close(); err != nil {
		return nil, err
	}
	m, err := l.load(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	before := m.Engine.Neurons()
	r, err := bench.Run(ctx, m.Engine, bench.Test{Gen: l.o.Generate}, l.text.Tokens, 1, nil)
	if err != nil {
		return nil, err
	}
	reads, err := l.reads(m, &l.of(s).cost, before)
	return timed{float64(l.o.Generate) / (float64(r.Samples[0]) / 1e9), reads}, err
}

// reads returns how many bytes a token read, in the steps of one token since before; cost is the file's.
func (l *lab) reads(m *session.Session, cost *placement.Model, before []model.NeuronUse) (r Reads, err error) {
	plan, err := m.Planner.Plan()
	if err != nil {
		return r, err
	}
	placed := func(i int) compute.Place {
		if plan == nil {
			return compute.Place{Split: compute.Split{Tier: compute.RAM}}
		}
		return plan.Places[i]
	}
	var neurons, hot float64
	for i, u := range m.Engine.Neurons() {
		u = u.Since(before[i])
		at := placed(i)
		bound := min(float64(at.Bound), float64(u.Neurons))
		neurons, hot = neurons+float64(u.Neurons), hot+bound
		all, ram := float64(u.Dense), float64(u.Dense)*(1-bound/math.Max(1, float64(u.Neurons)))
		if u.Steps > 0 {
			all, ram = float64(u.Bytes)/float64(u.Steps), float64(u.RAM)/float64(u.Steps)
		}
		r.FFN += all
		r.Full += float64(u.Dense) + float64(cost.Layers[i].Attention)
		r.add(ram, false)
		r.add(all-ram, true)
		r.add(float64(cost.Layers[i].Attention), at.Attention)
	}
	r.Full += float64(cost.Head)
	r.add(float64(cost.Head), placed(len(cost.Layers)).Attention)
	if neurons > 0 {
		r.Hot = hot / neurons
	}
	return r, nil
}

func (r *Reads) add(bytes float64, gpu bool) {
	if gpu {
		r.VRAM += bytes
	} else {
		r.RAM += bytes
	}
}

// score asks a task's questions in a setting.
func (l *lab) score(ctx context.Context, s Setting, t *Task, told func(float64)) (any, error) {
	m, err := l.in(ctx, s)
	if err != nil {
		return nil, err
	}
	var items []int
	for i := range t.Data.Items {
		items = append(items, i)
	}
	metric := t.Data.Main()
	var values []float64
	done := 0
	q := eval.Questions{Data: t.Data, Items: items, Parallel: ParallelQuestions, Each: func(i int, likelihoods []task.Likelihood) error {
		if v, ok := t.Data.Score(&t.Data.Items[i], likelihoods)[metric]; ok {
			values = append(values, v)
		}
		done++
		told(float64(done) / float64(len(items)))
		return nil
	}}
	if err := q.Run(ctx, m.Engine); err != nil {
		return nil, err
	}
	return Score{Task: t.Name, Metric: metric, Figure: task.Mean(values)}, nil
}

// pace is how long things take in the dense model.
type pace struct {
	window, token float64 // seconds
	load          float64
}

// of returns the pace of another file. Loading and single tokens take time by its bytes, windows by their products,
// which take about the same.
func (p pace) of(f, swept *subject) pace {
	if f != swept {
		share := float64(f.size) / float64(swept.size)
		p.token, p.load = share*p.token, share*p.load
	}
	return p
}

// trialTokens are generated to learn how long a token takes.
const trialTokens = 8

// try measures the pace.
func (l *lab) try(ctx context.Context) (p pace, err error) {
	begin := monotime.Now()
	m, err := l.in(ctx, Setting{Mode: model.Off.String()})
	if err != nil {
		return p, err
	}
	p.load = monotime.Since(begin).Seconds()
	begin = monotime.Now()
	if err := l.read(m, 0); err != nil { // the first reads weights in
		return p, err
	}
	p.window = monotime.Since(begin).Seconds()
	const slow = 2 // if a window takes more seconds, its first time is good enough
	if p.window < slow {
		begin = monotime.Now()
		if err := l.read(m, 0); err != nil {
			return p, err
		}
		p.window = monotime.Since(begin).Seconds()
	}
	r, err := bench.Run(ctx, m.Engine, bench.Test{Gen: trialTokens}, l.text.Tokens, 1, nil)
	if err != nil {
		return p, err
	}
	p.token = float64(r.Samples[0]) / 1e9 / trialTokens
	return p, nil
}
