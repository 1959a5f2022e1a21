package model

import (
	"cmp"
	"errors"
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
	plain      bool      // h is taken before the last norm, and so is the block's output that stands for it
}

// outlineFurther describes the first layer behind the last, where the file has one and the program binds it.
func (c *Config) outlineFurther(k *nn.Keys, b *nn.Binder, program family.Program) {
	if c.Further == 0 || k.Err != nil {
		return
	}
	bindFurther(b.Layer(c.Layers), program, c)
	if c.mtpErr, k.Err, b.Err = cmp.Or(k.Err, b.Err), nil, nil; c.mtpErr != nil {
		return
	}
	y := newBlock(c.Layers, &b.Parts()[c.Layers])
	switch {
	case c.Transposed:
		c.mtpErr = errors.New("the file stores down projections by neuron")
	case len(y.Stored) != 1 || y.recurrent():
		c.mtpErr = errors.New("it has no attention of its own alone")
	default:
		c.mtp = &y
	}
}

// CanGuessFurther says why layers of the file that predict further tokens cannot be computed, or nil.
func (c *Config) CanGuessFurther() error {
	switch {
	case c.Further == 0:
		return fmt.Errorf("the file names no layer that predicts further tokens (%s.nextn_predict_layers)", c.Arch)
	case c.mtpErr != nil:
		return fmt.Errorf("the layer of this %s that predicts further tokens is not supported: %w", c.Arch, c.mtpErr)
	}
	return nil
}

// blockOf returns the block that the tensor of that name belongs to, which may be of the layer behind the last where
// that is loaded, and the layer's number; nil: it belongs to none.
func (c *Config) blockOf(name string) (*Block, int) {
	p, ok := c.purposes[name]
	switch {
	case !ok || p.Layer < 0:
		return nil, -1
	case p.Layer < c.Layers:
		return &c.Blocks[p.Layer], p.Layer
	case c.FurtherCached:
		return c.mtp, p.Layer
	}
	return nil, -1
}

// furtherConfig returns c with the layer behind the last, computed whole.
func (c *Config) furtherConfig() Config {
	d := *c
	d.Blocks = append(slices.Clone(c.Blocks), *c.mtp)
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

// bindFurther binds the first layer behind the last, whose binder b is. An embedding table of its own stays in RAM.
func bindFurther(b *nn.Binder, program family.Program, c *Config) *further {
	p, ok := program.(family.MTP)
	if !ok {
		b.Fail("the program of the family has no such layer")
		return nil
	}
	embed, output := program.Ends()
	if output.Norm.Centered {
		b.Fail("the model's norms subtract the mean, and the layer's are RMS norms")
		return nil
	}
	f := &further{embd: embed.Table, norm: output.Norm, head: nn.Linear{W: output.Head.W}, block: p.BindMTP(b)}
	if p, ok := program.(family.PlainMTP); ok {
		f.plain = p.PlainMTP()
	}
	f.embdNorm, f.hiddenNorm = b.RMSNorm("nextn.enorm", c.Embd, c.Eps), b.RMSNorm("nextn.hnorm", c.Embd, c.Eps)
	f.join = b.Linear("nextn.eh_proj", c.Embd, 2*c.Embd, nn.Absent)
	if b.Has("nextn.embed_tokens.weight") {
		f.embd = b.Lookup("nextn.embed_tokens", c.Vocab, c.Embd)
	}
	for _, norm := range []string{"nextn.shared_head_norm", "layer_output_norm"} { // files have either, or none
		if b.Has(norm + ".weight") {
			f.norm = b.RMSNorm(norm, c.Embd, c.Eps)
			break
		}
	}
	if b.Has("layer_output_norm.weight") { // as Ling's files name it
		f.norm = b.RMSNorm("layer_output_norm", c.Embd, c.Eps)
	}
	if b.Has("nextn.shared_head_head.weight") {
		f.head = b.Adapted(b.Matrix("nextn.shared_head_head.weight", c.Vocab, c.Embd, compute.Head))
	}
	return f
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
		last := p.Outputs(m.hidden.Like(x))
		if f.plain {
			p.Normalize(last, f.norm)
		}
		p.LinearTo(m.logits.Like(last), last, &f.head)
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
