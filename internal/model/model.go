// Package model loads a GGUF file as its family's program binds it, and runs its steps.
package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// UsualStep is the number of tokens of the largest step unless options say otherwise, as llama.cpp's ubatch.
const UsualStep = 512

// Neurons say which neurons of feed-forward layers are computed.
type Neurons struct {
	Activation string     // overrides the file's: silu, gelu, relu, fatrelu[:threshold], drelu, relu2
	Sparse     SparseMode // which neurons are computed
	Threshold  *float32   // logit from which a predicted neuron is computed; nil: the file's
	AlwaysOn   float64    // share of a prepared file's neurons, the hottest of each layer, that mode predict computes for every token, if it is more than the file's

	// Bound limits what leaving neurons out may change. Of the settings that `powerinfer prepare` measured and stored in
	// the file, the fastest is taken with which 19 of 20 documents keep within a KL divergence of Bound.KLD from
	// computing all neurons, in nats a token, and keep the likeliest token for at least a share Bound.SameTop of their
	// tokens. If there is none, or nothing was measured, only neurons at zero are left out. In a model with experts that
	// is larger than memory, experts are left out in the same way instead of being read from disk: see Skip. Notice is
	// told what was chosen. The zero value bounds nothing, except that mode threshold then takes a KLD of 0.01.
	Bound Bound

	// Skip says which experts may be left out instead of being read from disk, in place of what Bound chooses. Answers
	// then depend on what is in RAM, and `powerinfer prepare --measure` says how far they may be from others.
	Skip compute.Skip
}

// Options are the choices made when a model is loaded.
type Options struct {
	Neurons
	Magnitudes []float32         // [layers] override the file's thresholds of mode Threshold; nil: by Bound
	Predicting []bool            // as Config.Predicting; for prepared files
	Recall     bool              // layers with predictors compute every neuron as well, and NeuronUse says what predictors found
	Further    bool              // the file's MTP layer, or Head, is loaded, for ForwardBoth and ForwardFurther
	Head       *gguf.File        // a draft head, with Further; nil: the file's own MTP layer
	Drafts     bool              // steps of Params.Draft compute fewer neurons, if that is possible: see Model.Drafts
	Order      [][]int32         // [layers][n_ff]: a layer's neuron i is the file's Order[layer][i]; nil keeps the file's order
	Places     []compute.Place   // [layers+1] parts of each layer, and of the head, that go to a GPU, and to which; nil: none
	Observer   Observer          // sees dense feed-forward layers, which it asks for; may be nil
	Batch      int               // tokens of the largest step (llama.cpp's ubatch)
	Outputs    int               // rows of logits of the largest step
	Context    int               // positions that a sequence may have: it decides between long and short RoPE factors; 0: the model's
	Cache      compute.CacheSpec // only Pages and Near are read; the rest follows from the file
	CacheTypes compute.CacheTypes
	Adapters   []Adapter
	OnDisk     bool                    // experts, and neurons of layers by neuron, stay on disk, except those on GPUs; the device keeps the most used ones in RAM
	Bundle     *bundle.File            // from which neurons on disk are read; nil: from f
	Pinned     bool                    // compute on the mapped file in place (--no-repack)
	Stream     *gguf.Stream            // open, of matrices that steps read; nil: there are none
	Progress   func(done, total int64) // bytes of weights loaded so far; may be nil
}

// Model is a loaded model on a device. It is used by one goroutine at a time.
type Model struct {
	Config
	dev compute.Device
	loading
	weights
	drafting
	stepping

	Head   Head // after pooling
	files  []Adapter
	Scales []float32 // the adapters' scales, for steps without their own
	cache  *compute.Cache
	watch  compute.Watch
}

// loading has Options that are needed when a model's layers are bound.
type loading struct {
	orders [][]int32       // Options.Order
	places []compute.Place // Options.Places
	onDisk bool            // Options.OnDisk
	bundle *bundle.File    // Options.Bundle
}

// weights holds the tensors that the family's program bound.
type weights struct {
	program  family.Program
	embed    nn.Embedding
	parts    []nn.Parts // the layers' parts
	output   nn.Output
	adapters *nn.Adapters
	ropes    [2]*compute.Rope                // ropes of layers that see all positions, and of the others; nil if heads are not rotated
	turns    map[*compute.Rope]*compute.Rope // see unscaled
}

// drafting says how a model drafts tokens itself.
type drafting struct {
	drafts  bool // steps of Params.Draft compute the neurons that predictors choose; other steps follow Config.Sparse
	hotOnly bool // steps of Params.Draft compute the neurons on GPUs in layers that are divided

	draft  family.Draft      // an MTP layer or a head; or nil
	shape  family.DraftShape // draft's
	states compute.Tensor    // [n, DraftShape.State] states of the last step's rows that draft reads; hidden, if it reads that
	lasts  compute.Tensor    // [n_out, DraftShape.State] such states of rows with logits, with DraftShape.Last
	bounds []compute.Bounds  // [n] for drafting steps
}

// stepping holds the memory of steps, and the results of the last one.
type stepping struct {
	most    compute.Segment // rows of the largest step
	shaped  bool            // steps run as the segments that the device chooses
	pool    *nn.Pool
	pass    nn.Pass // the step in progress
	segment compute.Segment
	names   map[nn.Step]string // names of segments
	body    func(compute.Verbs)
	hidden  compute.Tensor // [n, n_embd] the last step's hidden states; in the residual's memory unless there is a draft program
	logits  compute.Tensor // [n_out, n_vocab]
}

// Load binds f's weights to dev. f may be closed afterwards, unless Options.Pinned, Options.OnDisk or Options.Stream is
// set. Options.Head may be closed, unless Options.Pinned is set.
func Load(ctx context.Context, f *gguf.File, dev compute.Device, o Options) (m *Model, err error) {
	err = fault.Guard(func() error {
		m, err = load(ctx, f, dev, o)
		return err
	})
	if errors.Is(err, fault.Err) {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return m, err
}

func load(ctx context.Context, f *gguf.File, dev compute.Device, o Options) (*Model, error) {
	c, err := ReadConfig(f, o.Activation)
	if err != nil {
		return nil, err
	}
	if err := c.CacheSpec(compute.CacheSpec{}, o.CacheTypes).Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	extra, err := nn.NewAdapters(o.Adapters, c.Arch)
	if err != nil {
		return nil, err
	}
	if path := nn.AdaptsNeurons(o.Adapters); path != "" && c.Prepared != nil && !c.Prepared.Ordered() {
		return nil, fmt.Errorf("%s: the adapter changes neurons, and %s does not say in which order its own were before it was prepared: prepare the model again, or take it as it was before", path, f.Path)
	}
	if err := c.Settle(&o); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if err := c.CanStayOnDisk(); o.OnDisk && err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	m := &Model{Config: c, dev: dev, files: o.Adapters}
	m.onDisk, m.bundle, m.adapters, m.names = o.OnDisk, o.Bundle, extra, map[nn.Step]string{}
	for _, a := range o.Adapters {
		m.Scales = append(m.Scales, a.Scale)
	}
	if err := m.CheckScales(m.Scales); err != nil {
		return nil, err
	}
	if err := m.takeOrder(f, o.Order); err != nil {
		return nil, err
	}
	if m.places = o.Places; o.Places != nil && len(o.Places) != m.Layers+1 {
		return nil, fmt.Errorf("%s: a plan of %d layers is not for this model of %d", f.Path, len(o.Places)-1, m.Layers)
	}
	if m.places != nil && m.Skip.Always {
		return nil, fmt.Errorf("%s: a GPU computes every expert that it has; to leave out experts that are in memory, too, choose no GPU", f.Path)
	}
	m.drafts = o.Drafts && m.places == nil && c.CanDraft()
	if m.FurtherCached = o.Further; o.Further { // parts of the cache are numbered with it
		if err := m.TakeHead(f, o.Head); err != nil {
			return nil, err
		}
		if err := m.CanGuessFurther(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	b := nn.NewBinder(ctx, f, dev, m.plan(o.Context), o.Pinned, extra, o.Progress).Streaming(o.Stream)
	keys := &nn.Keys{File: f, Arch: c.Arch, Act: o.Activation}
	if m.program = family.Open(keys, b); keys.Err != nil {
		return nil, keys.Err
	}
	embed, output := m.program.Ends()
	m.embed, m.output = *embed, *output
	if p := m.embed.Positions; p != nil {
		m.Context = min(m.Context, p.Rows-m.embed.Before)
	}
	m.Head.bind(b, &m.Config, output.Ranking)
	b.ChainPredictors()
	if o.OnDisk {
		b.ChainExperts()
	}
	m.parts = b.Parts()[:m.Layers:m.Layers]
	m.takeRopes()
	m.hotOnly = o.Drafts && slices.ContainsFunc(m.parts, func(p nn.Parts) bool { return p.FFN != nil && p.FFN.Divided })
	if err := m.bindDraft(ctx, b, &o); err != nil {
		return nil, err
	}
	m.ignoreFurther(b)
	if err := b.Finish(); err != nil {
		return nil, err
	}
	if err := extra.Finish(); err != nil {
		return nil, err
	}
	if err := dev.Keep(ctx, o.Progress); err != nil {
		return nil, err
	}
	if m.cache, err = dev.Cache(m.cacheSpec(o.Cache, o.CacheTypes, m.places)); err != nil {
		return nil, err
	}
	if err := m.readySteps(&o); err != nil {
		return nil, err
	}
	dev.Watch(&m.watch)
	if o.Observer != nil {
		return m, m.observe(o.Observer)
	}
	return m, nil
}

// readySteps allocates the activations of steps, and sets the params that all steps share.
func (m *Model) readySteps(o *Options) error {
	m.most = compute.Segment{Rows: o.Batch, Out: o.Outputs}
	rows := o.Batch
	if m.shaped = o.Observer == nil; m.shaped { // an observer reads rows of the step
		rows += m.dev.Spare(o.Batch)
	}
	m.pass.Cache, m.pass.Recall, m.pass.LastLayer = m.cache, o.Recall, -1
	if m.canNarrow(o) {
		m.pass.LastLayer = m.Layers - 1
	}
	if err := m.allocate(rows, o.Outputs); err != nil {
		return err
	}
	if o.Stream != nil {
		m.pass.Begins = streaming(&m.pass, o.Stream, m.Layers)
	}
	return nil
}

// streaming returns the function that p calls for each layer, so that s has the layer's matrices in memory.
func streaming(p *nn.Pass, s *gguf.Stream, layers int) func(layer int) {
	begin := make([]func() error, layers) // made once, so that steps allocate nothing
	for i := range begin {
		begin[i] = func() error { return s.Begin(i) }
	}
	return func(layer int) {
		if s.Reads(layer) {
			p.Verbs().Turn(begin[layer])
		}
	}
}

// canNarrow reports whether the last layer of Forward's steps may compute only the rows with wanted logits. An observer
// sees all rows, and Recall counts them.
func (m *Model) canNarrow(o *Options) bool {
	if o.Observer != nil || o.Recall || m.Headless {
		return false
	}
	p, ok := m.program.(family.AllRows)
	return !ok || !p.AllRows()
}

// takeRopes finds the rotations of layers that see all positions, and of the others. If there is only one, both are the
// same.
func (m *Model) takeRopes() {
	var all []*compute.Rope
	full := -1
	for _, p := range m.parts {
		switch a := p.Attention; {
		case p.Latent != nil && p.Latent.Rope != nil:
			all = append(all, p.Latent.Rope)
		case p.Compressed != nil:
			all = append(all, p.Compressed.Rope)
		case a != nil && a.Rope != nil:
			if full < 0 && a.Scores.Window == 0 {
				full = len(all)
			}
			all = append(all, a.Rope)
		}
	}
	if len(all) == 0 {
		return
	}
	m.ropes = [2]*compute.Rope{all[max(0, full)], all[max(0, full)]}
	if i := slices.IndexFunc(all, func(r *compute.Rope) bool { return r != m.ropes[0] }); i >= 0 {
		m.ropes[1] = all[i]
	}
}

// allocate makes the activations of every kind of step, of at most rows tokens and outputs rows of logits. Steps on a
// device that computes nothing show which there are. Afterwards no step allocates.
func (m *Model) allocate(rows, outputs int) (err error) {
	m.pool, m.body = nn.NewPool(m.dev, rows, outputs), m.record
	if m.output.Head.Bound() {
		if m.logits, err = m.dev.Tensor(outputs, m.Vocab); err != nil {
			return err
		}
		m.logits.Outputs = true
	}
	if m.draft != nil { // it reads states of the step before
		if m.hidden, err = m.dev.Tensor(rows, m.Embd); err != nil {
			return err
		}
		if m.states = m.hidden; !m.shape.Hidden {
			if m.states, err = m.dev.Tensor(rows, max(1, m.shape.State)); err != nil {
				return err
			}
		}
		if m.shape.Last {
			if m.lasts, err = m.dev.Tensor(outputs, m.shape.State); err != nil {
				return err
			}
			m.lasts.Outputs = true
		}
	}
	kinds := []nn.Kind{nn.Logits, nn.States, nn.RotateKeys}
	if m.draft != nil {
		kinds = append(kinds, nn.WithMTP, nn.OnlyMTP)
		if m.shape.Last {
			kinds = append(kinds, nn.LastStates)
		}
	}
	m.pass.Params, m.pass.Scales = &compute.Params{}, slices.Repeat([]float32{1}, len(m.Scales))
	record := func(step nn.Step) {
		m.pass.Step = step
		for _, n := range []int{rows, 1} { // devices learn from the step of one token how to predict neurons
			m.segment = compute.Segment{Rows: n, Out: min(n, outputs)}
			m.record(compute.NewVerbs(nn.Nothing{}))
		}
	}
	pretend := func() {
		for _, kind := range kinds {
			for _, expanded := range []bool{false, m.Latent()} {
				record(nn.Step{Kind: kind, Expanded: expanded})
			}
		}
		for depth := 1; depth < m.shape.Most; depth++ {
			record(nn.Step{Kind: nn.OnlyMTP, Depth: depth})
		}
	}
	for pretend(); m.pool.Grown(); pretend() {
	}
	if err := m.pool.Allocate(); err != nil {
		return err
	}
	if m.draft == nil {
		m.hidden = compute.Tensor{} // which was none of a device
		pretend()
	}
	return nil
}

// Settle applies o's settings of how layers are computed: the mode, thresholds, and which layers predict.
func (c *Config) Settle(o *Options) error {
	if o.Threshold != nil {
		c.Threshold = *o.Threshold
	}
	if o.Sparse == Threshold && o.Magnitudes != nil { // an observer sees its zeros in dense layers
		if err := c.takeThresholds(o.Magnitudes); err != nil {
			return err
		}
	}
	if err := c.takePrediction(o); err != nil {
		return err
	}
	if err := c.settle(c.ModeWith(o.mode(), o.Adapters), o); err != nil {
		return err
	}
	return c.TakeSkip(o.Skip)
}

// settle decides how feed-forward layers are computed.
func (c *Config) settle(mode SparseMode, o *Options) (err error) {
	if o.Magnitudes != nil && mode == Threshold {
		c.Sparse, err = c.Resolve(mode)
		return err
	}
	choice, err := c.Choose(mode, o.Bound)
	if err != nil {
		return err
	}
	c.Take(choice)
	c.Chosen = choice.Said
	if o.Threshold != nil {
		c.Threshold = *o.Threshold
	}
	return nil
}

// mode returns the sparse mode asked for: an observer wants to see every neuron.
func (o *Options) mode() SparseMode {
	if o.Observer != nil {
		return Off
	}
	return o.Sparse
}

// Meaning names everything, apart from the file, that decides which keys and values a token gets, except rounding.
func (m *Model) Meaning() string {
	s := fmt.Sprintf("activation %+v", m.Act)
	for _, r := range m.ropes {
		if r != nil {
			s += fmt.Sprintf(", rope %+v", *r)
		}
	}
	for i, a := range m.files {
		s += fmt.Sprintf(", adapter %x times %v", a.File.Digest(), m.Scales[i])
	}
	if m.Experts.Count > 0 {
		s += fmt.Sprintf(", %d experts", m.Experts.Used)
		if k := m.Skip; k.After > 0 {
			s += fmt.Sprintf(", those after %d below %v may be left out", k.After, k.Below)
		}
	}
	if m.Sparse == Predict {
		s += fmt.Sprintf(", neurons predicted from a logit of %v", m.Threshold)
		if m.AlwaysOn > 0 || m.Predicting != nil {
			s += fmt.Sprintf(", %v always on, in layers %v", m.AlwaysOn, m.Predicting)
		}
	}
	return s
}
