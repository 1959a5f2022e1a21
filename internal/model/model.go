// Package model turns a GGUF file into a forward pass: hyperparameters, strict
// binding of weights, and one readable block per family, written in the verbs of
// internal/compute.
package model

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// UsualStep is the number of tokens of the largest step unless options say otherwise, as llama.cpp's ubatch.
const UsualStep = 512

// Options are the choices made when a model is loaded.
type Options struct {
	Activation string            // overrides the file's; empty keeps it
	Threshold  *float32          // overrides the file's sparse threshold
	Magnitudes []float32         // [layers] override the file's thresholds of mode Threshold; nil: by Bound
	Bound      Bound             // chooses among the settings of the file's curve, see Config.Choose
	AlwaysOn   float64           // as Config.AlwaysOn; for prepared files
	Predicting []bool            // as Config.Predicting; for prepared files
	Recall     bool              // layers that predict compute every neuron besides, and NeuronUse says what predictors found
	Sparse     SparseMode        // how feed-forward layers are computed
	Further    bool              // the file's layer that predicts a further token is taken in, for ForwardBoth and ForwardFurther
	Drafts     bool              // steps of Params.Draft compute fewer neurons, where that is possible: see Model.Drafts
	Order      [][]int32         // [layers][n_ff]: a layer's neuron i is the file's Order[layer][i]; nil keeps the file's order
	Places     []compute.Place   // [layers+1] what of each layer, and of the head, goes to a GPU, and which; nil: nothing
	Observer   Observer          // sees dense feed-forward layers, which it asks for; may be nil
	Batch      int               // tokens of the largest step (llama.cpp's ubatch)
	Outputs    int               // rows of logits of the largest step
	Context    int               // positions that a sequence may have: it decides between long and short RoPE factors; 0: the model's
	Cache      compute.CacheSpec // only Pages and Near are read; the rest follows from the file
	CacheTypes compute.CacheTypes
	Adapters   []Adapter
	Pinned     bool                    // compute on the mapped file in place (--no-repack)
	Progress   func(done, total int64) // bytes of weights taken in; may be nil
}

// Model is a loaded model on a device. It is used by one goroutine at a time.
type Model struct {
	Config
	dev      compute.Device
	drafts   bool // steps of Params.Draft compute the neurons that predictors choose, others as Config.Sparse says
	hotOnly  bool // steps of Params.Draft compute the neurons on GPUs in layers that are divided
	guessing bool // the step that is recorded is of Params.Draft
	recall   bool // Options.Recall
	expanded bool // the step that is recorded makes keys and values of latent vectors, where layers can
	whole    bool // the step that is recorded computes all neurons although there are predictors

	narrowing   bool // in steps of Forward the last layer computes only the rows whose logits are wanted, behind its attention: see canNarrow
	outputsOnly bool // the step in progress is one of Forward, and narrowing is set

	orders  [][]int32       // Options.Order
	places  []compute.Place // Options.Places
	embd    *compute.Matrix // [n_vocab, n_embd]
	pos     *compute.Matrix // [n_ctx+offset, n_embd] learned positions, or nil
	types   *compute.Matrix // [types, n_embd] added to the embeddings of tokens by their type; or nil
	layers  []block
	further *further                     // predicts a further token; or nil
	inputs  inputs                       // every layer's own embeddings
	altUp   altUp                        // streams of the residual
	norm    norm                         // before the head, or none
	Head    Head                         // behind pooling
	head    *compute.Matrix              // [n_vocab, n_embd]; embd where tied
	bias    *compute.Vector              // of the head [n_vocab], or nil
	after   norm                         // of the embedding, or none
	ropes   [Unrotated + 1]*compute.Rope // by Rotation; nil where heads are not rotated

	sharedRope *compute.Rope // of the part of keys that heads share, in latent attention

	adapters *adapters
	Scales   []float32                       // of the adapters, where a step does not say its own
	turns    map[*compute.Rope]*compute.Rope // see unscaled
	scales   []float32                       // of the step in progress

	cache   *compute.Cache
	most    compute.Segment // rows of the largest step
	shaper  compute.Shaper  // the device, if it has a choice of segments, or nil
	buf     buffers
	step    buffers         // buf, cut to the step in progress
	outputs buffers         // buf, cut to its rows whose logits are wanted: see narrowed
	params  *compute.Params // of the step in progress
	body    func(compute.Verbs)
	watch   compute.Watch
}

// norm is a norm's scale and, in families whose norms have one, its bias.
type norm struct {
	w, b *compute.Vector // [n_embd]
}

// buffers are the activations of a step; rows are tokens.
type buffers struct {
	x, h, attn compute.Tensor // [n, n_embd], [n, n_embd], [n, heads·value]
	ffnOut     compute.Tensor // [n, n_embd]
	q, k, v    compute.Tensor // [n, heads·key], [n, kv_heads·key], [n, kv_heads·value]
	gate       compute.Tensor // [n, n_ff] in dense layers, and a predictor's logits
	up         compute.Tensor // [n, n_ff] in dense gated layers
	latent     compute.Tensor // [n, latent], of which keys and values are made in latent attention
	shared     compute.Tensor // [n, rotated], the part of keys that heads share there
	own        compute.Tensor // [n, heads·(key-rotated)], the other part of queries
	wide       compute.Tensor // [n, heads·(latent+rotated)], queries as they meet the cache
	mixed      compute.Tensor // [n, heads·latent], heads' sums over positions

	queryLatent compute.Tensor // [n, query latent], of which queries are made

	hidden        compute.Tensor  // [n, largest predictor rank]
	set           compute.Set     // [n] of n_ff
	streams       compute.Streams // of the residual, of which blocks compute one in x; or none
	modalities    compute.Tensor  // [n, streams]
	low           compute.Tensor  // [n, rank of what is added to attention]
	beside        compute.Tensor  // [n, n_embd] what is added to attention
	inputs        compute.Tensor  // [n, layers·input] layers' own embeddings of the tokens
	lookup        compute.Tensor  // [n, layers·input] as they are looked up
	input         compute.Tensor  // [n, input] a layer's
	gated         compute.Tensor  // [n, input]
	router        compute.Tensor  // [n, experts] logits
	choice        compute.Choice  // [n] of experts
	expertsOut    compute.Tensor  // [n, n_embd] the chosen experts' outputs, which are added to those of shared ones
	expertsIn     compute.Tensor  // [n, latent] what experts read, where that is narrower
	expertsLatent compute.Tensor  // [n, latent] what they write
	sharedGate    compute.Tensor  // [n, 1] logits of the weights of shared experts
	leaving       compute.Tensor  // [n, inner] gates of what leaves a recurrent layer's state, and then what does
	entering      compute.Tensor  // [n, channels] of its convolution
	convolved     compute.Tensor  // [n, channels]
	steps         compute.Tensor  // [n, heads]
	scanned       compute.Tensor  // [n, inner]
	writes        compute.Tensor  // [n, heads] of a delta net
	queries       compute.Tensor  // [n, heads·2·key] each head's query and behind it its gate, in gated attention
	queryGates    compute.Tensor  // [n, heads·key] the gates
	last          compute.Tensor  // [n_out, n_embd]
	lastAttn      compute.Tensor  // [n_out, heads·value] of the last layer, where it computes these rows alone
	logits        compute.Tensor  // [n_out, n_vocab]

	adapterLow, adapterWide   compute.Tensor // [n, rank of adapters], [n, widest adapted matrix]
	adapterGates, adapterUps  compute.Tensor // [n, ranks of all adapters] of layers by neuron
	adapterDowns              compute.Tensor // [n, ranks of all adapters]
	adapterLast, adapterVocab compute.Tensor // [n_out, rank of adapters], [n_out, n_vocab] where the head is adapted
}

// Load binds f's weights to dev. The file may be closed afterwards unless Options.Pinned.
func Load(ctx context.Context, f *gguf.File, dev compute.Device, o Options) (*Model, error) {
	c, err := ReadConfig(f, o.Activation)
	if err != nil {
		return nil, err
	}
	if err := c.CacheSpec(compute.CacheSpec{}, o.CacheTypes).Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if o.Threshold != nil {
		c.Threshold = *o.Threshold
	}
	if o.Sparse == Threshold && o.Magnitudes != nil { // an observer sees its zeros in dense layers
		if err := c.takeThresholds(o.Magnitudes); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if err := c.takePrediction(&o); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	extra, err := newAdapters(o.Adapters, &c)
	if err != nil {
		return nil, err
	}
	if path := adaptsNeurons(o.Adapters); path != "" && c.Prepared != nil && !c.Prepared.Ordered() {
		return nil, fmt.Errorf("%s: the adapter changes neurons, and %s does not say in which order its own were before it was prepared: prepare the model again, or take it as it was before", path, f.Path)
	}
	if err := c.settle(c.ModeWith(o.mode(), o.Adapters), &o); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	m := &Model{Config: c, dev: dev, adapters: extra, recall: o.Recall}
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
	m.drafts = o.Drafts && m.places == nil && c.CanDraft()
	b := newBinder(ctx, f, dev, o.Pinned, o.Progress)
	b.adapters = extra
	if err := m.bindRope(b, o.Context); err != nil {
		return nil, err
	}
	m.bindEnds(b)
	m.bindStreams(b)
	m.layers = make([]block, m.Layers)
	storage := m.storage(m.places)
	for i := range m.layers {
		m.bindBlock(b, i)
		m.layers[i].stored, m.layers[i].recurrent.stored = storage[i], i
	}
	m.hotOnly = o.Drafts && slices.ContainsFunc(m.layers, func(b block) bool { return b.ffn.divided })
	if m.FurtherCached = o.Further; o.Further {
		if err := m.CanGuessFurther(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		m.bindFurther(b)
	}
	b.ignoreFurther(&m.Config)
	if err := b.finish(); err != nil {
		return nil, err
	}
	if err := extra.finish(); err != nil {
		return nil, err
	}
	if m.cache, err = dev.Cache(m.cacheSpec(o.Cache, o.CacheTypes, m.places)); err != nil {
		return nil, err
	}
	for part := m.Layers; part < len(m.cache.Layers) && m.further == nil; part++ {
		m.layers[m.cache.LayerOf(part)].recurrent.stored = part
	}
	m.most = compute.Segment{Rows: o.Batch, Out: o.Outputs}
	rows := o.Batch
	if s, ok := dev.(compute.Shaper); ok && o.Observer == nil { // an observer reads rows of the step
		m.shaper = s
		rows += s.Spare(o.Batch)
	}
	m.narrowing = m.canNarrow(&o)
	if m.buf, err = m.newBuffers(rows, o.Outputs); err != nil {
		return nil, err
	}
	m.body = m.forward
	if m.further != nil {
		if err := m.prepareFurther(rows); err != nil {
			return nil, err
		}
	}
	if d, ok := dev.(compute.Watched); ok {
		d.Watch(&m.watch)
	}
	if o.Observer != nil {
		return m, m.observe(o.Observer)
	}
	return m, nil
}

// ActivationBytes is about what a step of n tokens takes: the residual and its neighbours, q, k, v, attention's output, gates and ups.
func (c Config) ActivationBytes(n int) int64 {
	latent := 0
	if c.Family.Latent {
		b := c.Blocks[0]
		latent = c.QueryLatent + b.Heads*(b.Key+2*b.Latent+b.Rotated)
	}
	if c.Family.GatedAttention {
		latent = 3 * c.Heads * c.HeadDim
	}
	experts, states := 0, 0
	if c.Recurrent() {
		states = 2 * (c.States.Inner + c.States.Channels())
	}
	if e := &c.Experts; e.Count > 0 {
		experts = e.Count + 2*c.Embd + e.Used*(c.Embd+2*e.FF)
	}
	return 4 * int64(n) * int64(4*c.Embd+2*(c.Heads+c.KVHeads)*c.HeadDim+3*c.FF+latent+experts+states)
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

// CacheSpec returns the shape of a KV cache of size's pages, and of types, of a model in one place. Unless size.Near is 0, layers with windows have so
// many pages.
func (c Config) CacheSpec(size compute.CacheSpec, types compute.CacheTypes) compute.CacheSpec {
	return c.cacheSpec(size, types, nil)
}

func (c *Config) cacheSpec(size compute.CacheSpec, types compute.CacheTypes, places []compute.Place) compute.CacheSpec {
	spec, storage := compute.CacheSpec{Pages: size.Pages, Near: size.Near}, c.storage(places)
	if c.Recurrent() {
		spec.States = max(1, size.States)
	}
	if size.Near > 0 {
		spec.Windowed = c.windowed()
	}
	for l, b := range c.Blocks {
		shape := b.kv()
		if storage[l] != l {
			shape.Heads = 0 // they lie with another layer's
		}
		shape.KeyType, shape.ValueType = types.Key, types.Value
		if shape.Within { // there are no values beside the keys that could be of another type
			shape.ValueType = types.Key
		}
		spec.Layers = append(spec.Layers, shape)
	}
	for l, b := range c.Blocks {
		if b.State == 0 || b.Heads == 0 {
			continue
		}
		spec.Layers, spec.Further = append(spec.Layers, b.state()), append(spec.Further, l)
		if spec.Windowed != nil {
			spec.Windowed = append(spec.Windowed, false)
		}
	}
	if like := c.likeFurther(); c.FurtherCached && like >= 0 {
		shape := spec.Layers[like]
		spec.Layers = append(spec.Layers, shape)
		if spec.Windowed != nil {
			spec.Windowed = append(spec.Windowed, false)
		}
	}
	return spec
}

// bindRope builds the rotation. Files may hold factors for short and for long contexts, between which the positions that a
// sequence may have decide; 0: the model's context.
func (m *Model) bindRope(b *binder, positions int) error {
	if m.Family.Rotation == arch.NotRotated {
		return nil
	}
	var factors []float32
	chosen, other := "rope_factors_short.weight", "rope_factors_long.weight"
	if cmp.Or(positions, m.Context) > m.Rope.Context {
		chosen, other = other, chosen
	}
	if b.has("rope_freqs.weight") {
		chosen = "rope_freqs.weight"
	} else {
		b.ignore(other)
	}
	if b.has(chosen) {
		factors = b.floats(chosen, m.Rope.Dims/2)
	}
	for i := range m.Layers { // precomputed frequencies that old converters wrote; they follow from the keys
		b.ignore(fmt.Sprintf("blk.%d.attn_rot_embd", i))
	}
	if b.err != nil {
		return b.err
	}
	m.Rope.Positions, m.Local.Positions = positions, positions
	var err error
	if m.ropes[Rotated], err = m.Rope.rope(factors); err != nil {
		return fmt.Errorf("%s: %w", b.f.Path, err)
	}
	if m.Family.Latent {
		shared := *m.ropes[Rotated]
		shared.First = 0
		m.sharedRope = &shared
	}
	if m.Local == m.Rope && !m.Family.PlainWindow {
		m.ropes[Locally] = m.ropes[Rotated]
		return nil
	}
	if m.Family.PlainWindow {
		factors = nil
	}
	if m.ropes[Locally], err = m.Local.rope(factors); err != nil {
		return fmt.Errorf("%s: %w", b.f.Path, err)
	}
	return nil
}

// bindEnds binds what lies before and behind the layers: embedding, last norm, head. A head that is the embedding keeps it where the
// head is wanted.
func (m *Model) bindEnds(b *binder) {
	head, tied := m.place(m.Layers), !b.has("output.weight")
	b.lies(head)
	b.gpu = b.gpu && tied
	m.embd = b.matrix("token_embd.weight", m.Vocab, m.Embd, compute.Lookup)
	last := m.Family.LastNorm()
	if _, ok := m.Family.Outside(last + ".weight"); ok {
		m.norm = m.bindNorm(b, last)
	}
	if m.Family.NormsEmbeddings() {
		m.after = m.bindNorm(b, "token_embd_norm")
	}
	b.lies(head)
	if m.head = m.embd; m.Family.Headless {
		m.head = nil
	} else if !tied {
		m.head = b.matrix("output.weight", m.Vocab, m.Embd, compute.Head)
	}
	if t, ok := m.Family.Outside("output.bias"); ok && (!t.Optional || b.has("output.bias")) {
		m.bias = b.vector("output.bias", m.Vocab)
	}
	if t, ok := m.Family.Outside("position_embd.weight"); ok && (!t.Optional || b.has("position_embd.weight")) {
		m.bindPositions(b)
	}
	if t, ok := m.Family.Outside("token_types.weight"); ok && (!t.Optional || b.has("token_types.weight")) {
		m.bindTypes(b)
	}
	m.Head.bind(b, m)
}

// bindTypes binds the embeddings of types of tokens, of which files may hold any number.
func (m *Model) bindTypes(b *binder) {
	const name = "token_types.weight"
	rows := 1 // only names the tensor if it is missing
	if t := b.f.Tensor(name); t != nil {
		rows = t.Rows()
	}
	b.gpu = b.gpu && m.head == m.embd
	m.types = b.matrix(name, rows, m.Embd, compute.Lookup)
}

// bindPositions binds learned positions, which lie where the embedding does.
func (m *Model) bindPositions(b *binder) {
	const name = "position_embd.weight"
	b.gpu = b.gpu && m.head == m.embd
	if b.err != nil {
		return
	}
	offset := m.Family.LearnedOffset
	positions := m.Context + offset
	if t := b.f.Tensor(name); t != nil {
		positions = t.Rows()
	}
	m.pos = b.matrix(name, positions, m.Embd, compute.Lookup)
	m.Context = min(m.Context, positions-offset)
}

// bindNorm binds name's weight and, in families whose norms have one, its bias.
func (m *Model) bindNorm(b *binder, name string) norm {
	n := norm{w: b.vector(name+".weight", m.Embd)}
	if t, ok := m.Family.Outside(name + ".bias"); ok && (!t.Optional || b.has(name+".bias")) {
		n.b = b.vector(name+".bias", m.Embd)
	}
	return n
}

func (m *Model) newBuffers(n, outputs int) (buffers, error) {
	var b buffers
	var err error
	tensor := func(rows, cols int) compute.Tensor {
		if err != nil || cols == 0 {
			return compute.Tensor{}
		}
		var t compute.Tensor
		t, err = m.dev.Tensor(rows, cols)
		return t
	}
	b.x, b.h, b.ffnOut = tensor(n, m.Embd), tensor(n, m.Embd), tensor(n, m.Embd)
	q, k, values, attn := 0, 0, 0, 0 // of the widest layer
	for _, l := range m.Blocks {
		lq, lk, lv := l.widths()
		q, k, values, attn = max(q, lq), max(k, lk), max(values, lv), max(attn, l.Heads*l.Value)
	}
	b.q, b.attn, b.k, b.v = tensor(n, q), tensor(n, attn), tensor(n, k), tensor(n, values)
	if m.Family.GatedAttention {
		b.queries, b.queryGates = tensor(n, 2*q), tensor(n, q)
	}
	if m.Family.Latent {
		l := m.Blocks[0]
		b.latent, b.shared, b.queryLatent = tensor(n, l.Latent), tensor(n, l.Rotated), tensor(n, m.QueryLatent)
		b.own, b.wide, b.mixed = tensor(n, l.Heads*(l.Key-l.Rotated)), tensor(n, l.Heads*(l.Latent+l.Rotated)), tensor(n, l.Heads*l.Latent)
	}
	b.last, b.logits = tensor(outputs, m.Embd), tensor(outputs, m.Vocab)
	b.last.Outputs, b.logits.Outputs = true, true
	if m.narrowing {
		b.lastAttn = tensor(outputs, m.Blocks[m.Layers-1].Heads*m.Blocks[m.Layers-1].Value)
	}
	m.newStreams(&b, n, tensor)
	m.recurrentBuffers(&b, n, tensor)
	m.adapterBuffers(&b, tensor, n, outputs)
	rank, dense, gated := 0, false, false
	need := func(f *ffn) {
		dense, gated = dense || !f.byNeuron && f.up != nil, gated || !f.byNeuron && f.gate != nil
		if f.fc1 != nil {
			rank = max(rank, f.fc1.Rows)
		}
	}
	for i := range m.layers {
		need(&m.layers[i].ffn)
	}
	if m.further != nil {
		need(&m.further.block.ffn)
	}
	if dense || rank > 0 {
		b.gate = tensor(n, m.FF)
	}
	if gated {
		b.up = tensor(n, m.FF)
	}
	if rank > 0 {
		b.hidden = tensor(n, rank)
		if err == nil {
			b.set, err = m.dev.Set(n, m.FF)
		}
	}
	if err != nil {
		return b, err
	}
	if experts := m.expertBuffers(&b, n, tensor); experts != nil {
		return b, experts
	}
	return b, err
}

// first is b cut to a step of n tokens and nOut rows of logits.
func (b *buffers) first(n, nOut int) buffers {
	return buffers{
		x: b.x.First(n), h: b.h.First(n), attn: b.attn.First(n), ffnOut: b.ffnOut.First(n),
		q: b.q.First(n), k: b.k.First(n), v: b.v.First(n), gate: b.gate.First(n), up: b.up.First(n),
		latent: b.latent.First(n), shared: b.shared.First(n), own: b.own.First(n), wide: b.wide.First(n), mixed: b.mixed.First(n), queryLatent: b.queryLatent.First(n),
		hidden: b.hidden.First(n), set: b.set.First(n), last: b.last.First(nOut), logits: b.logits.First(nOut),
		streams: b.streams.First(n), modalities: b.modalities.First(n), low: b.low.First(n), beside: b.beside.First(n),
		inputs: b.inputs.First(n), lookup: b.lookup.First(n), input: b.input.First(n), gated: b.gated.First(n),
		router: b.router.First(n), choice: b.choice.First(n), expertsOut: b.expertsOut.First(n), sharedGate: b.sharedGate.First(n), expertsIn: b.expertsIn.First(n), expertsLatent: b.expertsLatent.First(n),
		leaving: b.leaving.First(n), entering: b.entering.First(n), convolved: b.convolved.First(n), steps: b.steps.First(n), scanned: b.scanned.First(n),
		writes: b.writes.First(n), queries: b.queries.First(n), queryGates: b.queryGates.First(n),
	}
}

// of returns b as a layer's part of the step uses it: as wide as the layer is.
func (b *buffers) of(l *Block) *buffers {
	b.q.Cols, b.k.Cols, b.v.Cols = l.widths()
	b.attn.Cols, b.gate.Cols, b.up.Cols = l.Heads*l.Value, l.FF, l.FF
	b.queries.Cols, b.queryGates.Cols = 2*b.q.Cols, b.q.Cols
	return b
}

// Forward runs one step. Afterwards Logits returns the rows that p.Out asked for.
func (m *Model) Forward(p *compute.Params) error {
	m.outputsOnly = m.narrowing
	defer func() { m.outputsOnly = false }()
	return m.run("forward", p, m.body)
}

// ForwardHidden runs one step as Forward does. Afterwards Hidden returns every row's hidden state, too.
func (m *Model) ForwardHidden(p *compute.Params) error {
	return m.run("forward with hidden states", p, func(v compute.Verbs) {
		m.body(v)
		if m.norm.w == nil {
			v.CopyColumns(m.step.h, m.step.x, compute.Ranges{}, compute.Ranges{}, m.Embd, 1)
			return
		}
		m.normalise(v, m.step.h, m.step.x, m.norm)
	})
}

// run runs one step of body, which has a name of its own.
func (m *Model) run(name string, p *compute.Params, body func(compute.Verbs)) error {
	seg := compute.Segment{Name: name, Rows: len(p.Tokens), Decode: p.Decode, Out: len(p.Out)}
	if seg.Rows == 0 || seg.Rows > m.most.Rows || seg.Out > m.most.Out {
		return fmt.Errorf("a step of %d tokens and %d outputs does not fit buffers of %d and %d", seg.Rows, seg.Out, m.most.Rows, m.most.Out)
	}
	if m.shaper != nil {
		seg = m.shaper.Shape(seg, m.most)
	}
	return m.runAs(seg, p, body)
}

// runAs runs a step as seg.
func (m *Model) runAs(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	seg.Name = adapted(seg.Name, m.scalesOf(p))
	m.scales = m.scalesOf(p)
	if m.whole = m.drafts && !p.Draft; m.whole {
		seg.Name += " whole"
	}
	if m.guessing = p.Draft; m.guessing && m.hotOnly {
		seg.Name += " hot"
	}
	if m.expanded = m.expands(p); m.expanded {
		seg.Name += " expanded"
	}
	if p.Threshold, m.params = m.Threshold, p; p.Everything {
		p.Threshold = -math.MaxFloat32
	}
	m.step = m.buf.first(seg.Rows, seg.Out)
	return m.dev.Run(seg, p, body)
}

// forward is the whole pass: embedding, blocks, final norm, head.
func (m *Model) forward(v compute.Verbs) {
	s := &m.step
	v.Embed(s.x, m.embd)
	if m.Scale.Embedding != 1 {
		v.Scale(s.x, m.Scale.Embedding)
	}
	if m.pos != nil {
		v.AddPosition(s.x, m.pos, m.Family.LearnedOffset)
	}
	if m.types != nil {
		v.AddType(s.x, m.types)
	}
	if m.after.w != nil {
		m.normalise(v, s.x, s.x, m.after)
	}
	m.embedLayers(v, s)
	m.split(v, s)
	for i := range m.layers {
		m.layers[i].forward(v, m, i)
	}
	m.merge(v, s)
	if s.logits.Rows == 0 || m.head == nil {
		return
	}
	if !m.narrows(len(m.layers) - 1) {
		v.Gather(s.last, s.x)
	}
	m.normalise(v, s.last, s.last, m.norm)
	m.product(v, s.last, compute.Products{{Out: s.logits, W: m.head, Bias: m.bias}})
	if m.Scale.Logits != 1 {
		v.Scale(s.logits, m.Scale.Logits)
	}
	if m.Cap.Logits > 0 {
		v.SoftCap(s.logits, m.Cap.Logits)
	}
}

// narrows reports whether layer i computes only the rows whose logits are wanted, in m.outputs, behind its attention. Only the last layer does: no other
// layer reads its output.
func (m *Model) narrows(i int) bool {
	return m.outputsOnly && i == len(m.layers)-1 && m.step.logits.Rows < m.step.x.Rows
}

// canNarrow reports whether steps of Forward may leave out what the last layer adds to rows whose logits are not wanted. An observer sees all rows, and Recall
// counts them.
func (m *Model) canNarrow(o *Options) bool {
	_, ok := m.dev.(compute.OutputRows)
	l := &m.layers[len(m.layers)-1]
	return ok && o.Observer == nil && !o.Recall && !m.Family.Headless && l.mixing.router == nil && l.input.gate == nil && !l.experts.early
}

// narrowed makes m.outputs the buffers of a layer of the given shape for the rows whose logits are wanted, and gathers the residual of s there and, if attended,
// attention's sums.
func (m *Model) narrowed(v compute.Verbs, s *buffers, l *Block, attended bool) *buffers {
	n := s.logits.Rows
	m.outputs = m.buf.first(n, n)
	to := m.outputs.of(l)
	to.x, to.attn = s.last, m.buf.lastAttn.First(n)
	to.x.Outputs = false // what adapters need has room for as many rows as tokens
	v.Gather(to.x, s.x)
	if attended {
		v.Gather(to.attn, s.attn)
	}
	return to
}

// normalise applies the family's norm.
func (m *Model) normalise(v compute.Verbs, dst, x compute.Tensor, n norm) {
	if m.Family.LayerNorm {
		v.LayerNorm(dst, x, n.w, n.b, m.Eps)
		return
	}
	v.RMSNorm(dst, x, n.w, m.Eps)
}

// Logits returns row i of the last step's logits [n_vocab], valid until the next step. It fails where a GPU does.
func (m *Model) Logits(i int) ([]float32, error) { return m.dev.Read(m.buf.logits, i) }

// Hidden returns row i of the hidden states [n_embd] of the last step, which ForwardHidden, ForwardBoth or ForwardFurther ran: the last layer's outputs behind the norm,
// from which logits are computed. It is valid until the next step. It fails where a GPU does.
func (m *Model) Hidden(i int) ([]float32, error) {
	if m.further != nil {
		return m.dev.Read(m.further.after, i)
	}
	return m.dev.Read(m.buf.h, i)
}

// ReadPage reads a page's first positions of the KV cache, in every layer: see compute.Device.
func (m *Model) ReadPage(page compute.Page, layers [][]byte) error {
	return m.dev.ReadPage(m.cache, page, layers)
}

// WritePage writes them.
func (m *Model) WritePage(page compute.Page, layers [][]byte) error {
	return m.dev.WritePage(m.cache, page, layers)
}

// KVShapes returns the shapes of the cache's parts, and in which of them it keeps the positions that windows reach alone.
func (m *Model) KVShapes() (shapes []compute.KVShape, windowed []bool) {
	windowed = m.cache.Windowed
	if windowed == nil {
		windowed = make([]bool, len(m.cache.Layers))
	}
	return m.cache.Layers, windowed
}

// Meaning names what, besides the file, decides which keys and values a token gets, but for rounding.
func (m *Model) Meaning() string {
	s := fmt.Sprintf("activation %+v", m.Act)
	for _, r := range m.ropes {
		if r != nil {
			s += fmt.Sprintf(", rope %+v", *r)
		}
	}
	for i, a := range m.adapters.files {
		s += fmt.Sprintf(", adapter %x times %v", a.File.Digest(), m.Scales[i])
	}
	if m.Experts.Count > 0 {
		s += fmt.Sprintf(", %d experts", m.Experts.Used)
	}
	if m.Sparse == Predict {
		s += fmt.Sprintf(", neurons predicted from a logit of %v", m.Threshold)
		if m.AlwaysOn > 0 || m.Predicting != nil {
			s += fmt.Sprintf(", %v always on, in layers %v", m.AlwaysOn, m.Predicting)
		}
	}
	return s
}

// CopyPage copies one page of the KV cache, in every layer.
func (m *Model) CopyPage(to, from compute.Page) { m.dev.CopyPage(m.cache, to, from) }
