package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
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
	embdNorm   norm
	hiddenNorm norm
	join       *compute.Matrix // [n_embd, 2·n_embd]
	block      block
	norm       norm            // before the head; the model's where the layer has none
	head       *compute.Matrix // [n_vocab, n_embd]; the model's where the layer has none

	before compute.Tensor // [n, n_embd] of each of a step's tokens, h at the position before it
	after  compute.Tensor // [n, n_embd] h at its own
	pair   compute.Tensor // [n, 2·n_embd]
	record func(compute.Verbs)
	guess  func(compute.Verbs)
}

// CanGuessFurther says why layers of the file that predict further tokens cannot be computed, or nil.
func (c *Config) CanGuessFurther() error {
	refuse := func(why string) error {
		return fmt.Errorf("layers of %s that predict further tokens are not supported: %s", c.Arch, why)
	}
	if c.Further == 0 {
		return fmt.Errorf("the file names no layer that predicts further tokens (%s.nextn_predict_layers)", c.Arch)
	}
	switch f := &c.Family; {
	case f.LayerNorm:
		return refuse("its norms subtract the mean, and the layer's are RMS norms")
	case f.Parallel || f.NormSum || f.OnePart:
		return refuse("its blocks are not attention and then a feed-forward layer")
	case c.Transposed:
		return refuse("the file stores down projections by neuron")
	}
	like := c.likeFurther()
	if like < 0 {
		return refuse("no layer has attention")
	}
	switch b := &c.Blocks[like]; {
	case b.State > 0:
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
	block.KV = c.Layers
	d.Blocks = append(slices.Clone(c.Blocks), block)
	d.Sparse, d.Prepared, d.Predicting, d.Magnitudes = Off, nil, nil, nil
	return d
}

// bindFurther binds the first layer behind the last, which lies on the head's GPU if a plan says so, else in RAM, and
// its norms on the GPU, too. An embedding table of its own stays in RAM.
func (m *Model) bindFurther(b *binder) {
	n := m.Layers
	sub := &Model{Config: m.furtherConfig(), dev: m.dev, ropes: m.ropes, sharedRope: m.sharedRope, adapters: m.adapters, layers: make([]block, n+1)}
	if m.places != nil {
		sub.places = slices.Clone(m.places)
		at := &sub.places[n]
		if *at = (compute.Place{Split: compute.Split{Tier: at.Tier}, Attention: at.Further}); at.Attention {
			at.Bound = math.MaxInt32 // all there are
		}
	}
	sub.bindBlock(b, n)
	f := &further{block: sub.layers[n], embd: m.embd, norm: m.norm, head: m.head}
	f.block.stored = n
	name := func(s string) string { return fmt.Sprintf("blk.%d.nextn.%s.weight", n, s) }
	f.embdNorm, f.hiddenNorm = norm{w: b.vector(name("enorm"), m.Embd)}, norm{w: b.vector(name("hnorm"), m.Embd)}
	f.join = b.matrix(name("eh_proj"), m.Embd, 2*m.Embd, compute.Precise)
	if b.has(name("embed_tokens")) {
		b.gpu = false
		f.embd = b.matrix(name("embed_tokens"), m.Vocab, m.Embd, compute.Lookup)
		b.lies(sub.place(n))
	}
	if b.has(name("shared_head_norm")) {
		f.norm = norm{w: b.vector(name("shared_head_norm"), m.Embd)}
	}
	if b.has(name("shared_head_head")) {
		f.head = b.matrix(name("shared_head_head"), m.Vocab, m.Embd, compute.Head)
	}
	m.further = f
}

// prepareFurther makes what steps of the layer need, of at most n rows.
func (m *Model) prepareFurther(n int) error {
	f := m.further
	var err error
	for _, t := range []struct {
		to   *compute.Tensor
		cols int
	}{{&f.before, m.Embd}, {&f.after, m.Embd}, {&f.pair, 2 * m.Embd}} {
		if *t.to, err = m.dev.Tensor(n, t.cols); err != nil {
			return err
		}
	}
	f.record, f.guess = m.forwardBoth, m.forwardFurther
	return nil
}

// The names of segments: of the model's steps, and of guesses.
const (
	withFurther = "forward with a further layer"
	onlyFurther = "further"
)

// GuessesFurther reports whether the model was loaded with a layer that predicts a further token.
func (m *Model) GuessesFurther() bool { return m.further != nil }

// ForwardBoth runs one step as Forward does, and brings its tokens to the further layer's part of the cache. p.Before
// is what came before them. Afterwards Hidden returns every row's hidden state, too.
func (m *Model) ForwardBoth(p *compute.Params) error {
	return m.run(withFurther, p, m.further.record)
}

// ForwardFurther runs one step of the further layer alone: its logits are of the token behind the next, and Hidden
// returns its outputs.
func (m *Model) ForwardFurther(p *compute.Params) error {
	return m.run(onlyFurther, p, m.further.guess)
}

func (m *Model) forwardBoth(v compute.Verbs) {
	m.forward(v)
	f := m.further
	m.normalise(v, f.after.First(m.step.x.Rows), m.step.x, m.norm)
	m.readFurther(v)
	s := m.step.of(&f.block.shape)
	f.block.attend(v, m, s, m.input(v, s, f.block.norm), m.Layers) // for its keys and values
}

func (m *Model) forwardFurther(v compute.Verbs) {
	f := m.further
	m.readFurther(v)
	f.block.forward(v, m, m.Layers)
	s := &m.step
	after := f.after.First(s.x.Rows)
	m.normalise(v, after, s.x, f.norm)
	if s.logits.Rows == 0 {
		return
	}
	v.Gather(s.last, after)
	m.product(v, s.last, compute.Products{{Out: s.logits, W: f.head}})
}

// readFurther makes the residual that the further layer's block reads.
func (m *Model) readFurther(v compute.Verbs) {
	f, s, n := m.further, &m.step, m.step.x.Rows
	before, pair := f.before.First(n), f.pair.First(n)
	v.Precede(before, f.after.First(n))
	v.Embed(s.x, f.embd)
	m.normalise(v, s.h, s.x, f.embdNorm)
	v.CopyColumns(pair, s.h, compute.Ranges{}, compute.Ranges{}, m.Embd, 1)
	m.normalise(v, s.h, before, f.hiddenNorm)
	v.CopyColumns(pair, s.h, compute.Ranges{First: m.Embd}, compute.Ranges{}, m.Embd, 1)
	m.product(v, pair, compute.Products{{Out: s.x, W: f.join}})
}
