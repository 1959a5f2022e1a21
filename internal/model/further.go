package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// further is a layer that predicts a token further: from the last layer's output h at a position, behind the last norm,
// and the token x that follows it, what follows x. Its block reads
//
//	M·[norm(embedding(x)), norm(h)]
//
// and the model's head, or one of its own, reads the block's output behind a norm. That output stands for h where still
// another token is predicted. Keys and values lie at x's position, in a part of the cache behind the layers': what they
// follow from are the tokens up to x, as theirs.
//
// Source: DeepSeek-AI 2024, DeepSeek-V3, section 2.2. That h is taken behind the norm is as in DeepSeek's own weights'
// users, vLLM and llama.cpp.
type further struct {
	embd       *compute.Matrix // [n_vocab, n_embd]; the model's where the layer has none
	embdNorm   nn.Norm
	hiddenNorm nn.Norm
	join       nn.Linear // [n_embd, 2·n_embd]
	block      family.Block
	norm       nn.Norm   // before the head; the model's where the layer has none
	head       nn.Linear // [n_vocab, n_embd]; the model's where the layer has none
}

// mtpKind says whether a program has an MTP layer.
type mtpKind int

const (
	noMTP      mtpKind = iota
	centredMTP         // it would, with LayerNorms
	someMTP
)

func mtpOf(p family.Program, output *nn.Output) mtpKind {
	switch _, ok := p.(family.MTP); {
	case !ok:
		return noMTP
	case output.Norm.Centered:
		return centredMTP
	}
	return someMTP
}

// CanGuessFurther says why layers of the file that predict further tokens cannot be computed, or nil.
func (c *Config) CanGuessFurther() error {
	refuse := func(why string) error {
		return fmt.Errorf("layers of %s that predict further tokens are not supported: %s", c.Arch, why)
	}
	if c.Further == 0 {
		return fmt.Errorf("the file names no layer that predicts further tokens (%s.nextn_predict_layers)", c.Arch)
	}
	switch {
	case c.mtp == noMTP:
		return refuse("its program has none")
	case c.mtp == centredMTP:
		return refuse("its norms subtract the mean, and the layer's are RMS norms")
	case c.Transposed:
		return refuse("the file stores down projections by neuron")
	}
	like := c.likeFurther()
	if like < 0 {
		return refuse("no layer has attention")
	}
	switch b := &c.Blocks[like]; {
	case b.recurrent():
		return refuse("attention and a recurrent state share a layer")
	case b.Window > 0:
		return refuse("its last attention has a sliding window")
	case b.KV != like:
		return refuse("its last attention reads another layer's keys and values")
	}
	return nil
}

// likeFurther returns the layer whose attention has the shape of a further layer's: the last that has any; -1: none
// has.
func (c *Config) likeFurther() int {
	for l := c.Layers - 1; l >= 0; l-- {
		if c.Blocks[l].Heads > 0 {
			return l
		}
	}
	return -1
}

// shapeOf returns the shape of the layer that the tensor of that name is of, which may be the layer behind the last
// where that is loaded; nil: of none.
func (c *Config) shapeOf(name string) *Block {
	l, ok := blockOf(name)
	switch {
	case !ok || l < 0 || l > c.Layers:
		return nil
	case l < c.Layers:
		return &c.Blocks[l]
	}
	if like := c.likeFurther(); c.FurtherCached && like >= 0 {
		return &c.Blocks[like]
	}
	return nil
}

// furtherConfig returns c with the layer behind the last, computed whole.
func (c *Config) furtherConfig() Config {
	d := *c
	block := c.Blocks[c.likeFurther()]
	block.KV, block.Stored = c.Layers, []compute.KVShape{block.kv()}
	d.Blocks = append(slices.Clone(c.Blocks), block)
	d.Sparse, d.Prepared, d.Predicting, d.Magnitudes = Off, nil, nil, nil
	return d
}

// furtherModel returns m with a layer more, the first behind the last, which lies on the head's GPU if a plan says so,
// else in RAM, and its norms on the GPU, too.
func (m *Model) furtherModel() *Model {
	n := m.Layers
	sub := &Model{Config: m.furtherConfig(), dev: m.dev}
	if m.places != nil {
		sub.places = slices.Clone(m.places)
		at := &sub.places[n]
		if *at = (compute.Place{Split: compute.Split{Tier: at.Tier}, Attention: at.Further}); at.Attention {
			at.Bound = math.MaxInt32 // all there are
		}
	}
	return sub
}

// bindFurther binds the first layer behind the last. An embedding table of its own stays in RAM.
func (m *Model) bindFurther(b *nn.Binder) {
	n, sub := m.Layers, m.furtherModel()
	f := &further{embd: m.embed.Table, norm: m.output.Norm, head: nn.Linear{W: m.output.Head.W}}
	name := func(s string) string { return fmt.Sprintf("blk.%d.nextn.%s.weight", n, s) }
	p, ok := m.program.(family.MTP)
	if !ok {
		b.Fail("layers of %s that predict further tokens are not supported", m.Arch)
		return
	}
	f.block = p.BindMTP(b.Layer(n))
	b.Place(sub.place(n))
	norm := func(s string) nn.Norm { return nn.Norm{Weight: b.Vector(name(s), m.Embd), Epsilon: m.Eps} }
	f.embdNorm, f.hiddenNorm = norm("enorm"), norm("hnorm")
	f.join = b.Adapted(b.Matrix(name("eh_proj"), m.Embd, 2*m.Embd, compute.Precise))
	if b.Has(name("embed_tokens")) {
		b.GPU = false
		f.embd = b.Matrix(name("embed_tokens"), m.Vocab, m.Embd, compute.Lookup)
		b.Place(sub.place(n))
	}
	if b.Has(name("shared_head_norm")) {
		f.norm = norm("shared_head_norm")
	}
	if last := fmt.Sprintf("blk.%d.layer_output_norm", n); b.Has(last + ".weight") { // as Ling's files name it
		f.norm = b.RMSNorm(last, m.Embd, m.Eps)
	}
	if b.Has(name("shared_head_head")) {
		f.head = b.Adapted(b.Matrix(name("shared_head_head"), m.Vocab, m.Embd, compute.Head))
	}
	m.further = f
}

// GuessesFurther reports whether the model was loaded with a layer that predicts a further token.
func (m *Model) GuessesFurther() bool { return m.further != nil }

// ForwardBoth runs one step as Forward does, and brings its tokens to the further layer's part of the cache. p.Before
// is what came before them. Afterwards Hidden returns every row's hidden state, too.
func (m *Model) ForwardBoth(p *compute.Params) error { return m.run(nn.WithMTP, p) }

// ForwardFurther runs one step of the further layer alone: its logits are of the token behind the next, and Hidden
// returns its outputs.
func (m *Model) ForwardFurther(p *compute.Params) error { return m.run(nn.OnlyMTP, p) }

// read computes the layer's attention for its keys and values.
func (f *further) read(p *nn.Pass, m *Model) {
	f.block.Store(p, f.input(p, m))
}

func (m *Model) forwardFurther(p *nn.Pass) {
	f := m.further
	x := f.block.Forward(p, f.input(p, m))
	m.keep(p, x, f.norm)
	if _, outputs := p.Rows(); outputs > 0 {
		p.LinearTo(m.logits.Like(compute.Tensor{Rows: outputs, Outputs: true}), p.Outputs(m.hidden.Like(x)), &f.head)
	}
}

// input returns the residual that the further layer's block reads. [n, n_embd]
func (f *further) input(p *nn.Pass, m *Model) compute.Tensor {
	before, pair := p.Tokens(m.Embd), p.Tokens(2*m.Embd)
	p.Verbs().Precede(before, m.hidden.Like(before))
	e := p.Norm(p.Lookup(f.embd), f.embdNorm)
	p.Verbs().CopyColumns(pair, e, compute.Ranges{}, compute.Ranges{}, m.Embd, 1)
	h := p.Norm(before, f.hiddenNorm)
	p.Verbs().CopyColumns(pair, h, compute.Ranges{First: m.Embd}, compute.Ranges{}, m.Embd, 1)
	return p.Linear(pair, &f.join)
}
