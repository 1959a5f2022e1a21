package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// DraftShape says which states of a model a draft program reads, and how it drafts.
type DraftShape = family.DraftShape

// head is a draft head's file.
type head struct {
	file     *gguf.File
	purposes map[string]nn.Purpose // of its tensors, by name
	rows     int                   // what it gives for a row of logits
}

// outlineFurther describes the MTP layers, if the file has some and the program binds them.
func (c *Config) outlineFurther(k *nn.Keys, b *nn.Binder, program family.Program) {
	if c.Further == 0 || k.Err != nil {
		return
	}
	draft := bindMTP(b, program, c)
	if c.mtpErr, k.Err, b.Err = cmp.Or(k.Err, b.Err), nil, nil; c.mtpErr != nil {
		return
	}
	if c.Transposed {
		c.mtpErr = errors.New("the file stores down projections by neuron")
		return
	}
	parts := b.Parts()[c.Layers:]
	y := newBlock(c.Layers, &parts[0])
	y.Stored = nil
	for i := range parts {
		if len(parts[i].Stored) != 1 || parts[i].Stored[0].State > 0 {
			c.mtpErr = errors.New("it lacks an attention layer with keys and values of its own, or has more than that")
			return
		}
		y.Stored = append(y.Stored, parts[i].Stored[0])
	}
	c.mtp = &y
	c.draftPerToken, _ = c.measureDraft(program, draft, b.Dev)
}

// CanGuessFurther returns why the file's MTP layers cannot be computed, or nil.
func (c *Config) CanGuessFurther() error {
	switch {
	case c.head != nil:
		return nil
	case c.Further == 0:
		return fmt.Errorf("the file names no layer that predicts further tokens (%s.nextn_predict_layers)", c.Arch)
	case c.mtpErr != nil:
		return fmt.Errorf("the layer of this %s that predicts further tokens is not supported: %w", c.Arch, c.mtpErr)
	}
	return nil
}

// TakeHead has the head in file draft for c, the model in f, instead of an MTP layer of f. It refuses a head that does
// not fit the model. A file of nil does nothing.
func (c *Config) TakeHead(f, file *gguf.File) error {
	if file == nil {
		return nil
	}
	if err := c.headFits(f, file); err != nil {
		return err
	}
	k := &nn.Keys{File: file}
	if k.Arch = k.Text("general.architecture", ""); !family.IsDraft(k.Arch) {
		return fmt.Errorf("%s: a file of architecture %q is no draft head", file.Path, k.Arch)
	}
	model := nn.NewOutline(f, nn.Plan{Layer: func(int) nn.LayerPlan {
		return nn.LayerPlan{Neurons: nn.NeuronPlan{Transposed: c.Transposed}, Experts: nn.ExpertPlan{Used: true}}
	}})
	program := family.Open(&nn.Keys{File: f, Arch: c.Arch}, model)
	b := nn.NewOutline(file, headPlan(nn.LayerPlan{}, nil))
	draft := family.OpenDraft(k, b, c.target(program, model.Parts()))
	if err := cmp.Or(k.Err, b.Finish()); err != nil {
		return err
	}
	h := &head{file: file, purposes: b.Purposes()}
	var stored Block
	for i := range b.Parts() {
		stored.Stored = append(stored.Stored, b.Parts()[i].Stored...)
		if len(b.Parts()[i].Stored) > 1 {
			return fmt.Errorf("%s: a head with several caches in a layer is not supported", file.Path)
		}
	}
	if stored.recurrent() {
		return fmt.Errorf("%s: a head with recurrent states is not supported", file.Path)
	}
	_, out := draft.Head(0)
	if h.rows = c.Vocab; out.W != nil {
		h.rows = out.W.Rows
	}
	if h.rows > c.Vocab {
		return fmt.Errorf("%s: the head drafts %d tokens, and the model has %d: take the head that was made for the model", file.Path, h.rows, c.Vocab)
	}
	with := *c
	with.head, with.mtp, with.mtpErr = h, &stored, nil
	whole := false
	if with.draftPerToken, whole = with.measureDraft(program, draft, b.Dev); !whole {
		return fmt.Errorf("%s: the head reads hidden states of layers, and a model of %s has several streams of them: leave the head out", file.Path, c.Arch)
	}
	*c = with
	return nil
}

// headFits refuses a head that cannot draft for a model in f, whatever its program is.
func (c *Config) headFits(f, file *gguf.File) error {
	if c.Headless || c.Later {
		return fmt.Errorf("%s: a draft head is for models that write text, and %s gives embeddings", file.Path, f.Path)
	}
	const key = "tokenizer.ggml.tokens"
	own, ok, err := file.Strings(key)
	if err != nil || !ok {
		return err
	}
	tokens, _, err := f.Strings(key)
	if err != nil {
		return err
	}
	for i := range min(len(own), len(tokens)) {
		if own[i] != tokens[i] {
			return fmt.Errorf("%s: token %d is %q in the head's vocabulary and %q in the model's: take the head that was made for the model", file.Path, i, own[i], tokens[i])
		}
	}
	return nil
}

// target describes the model that program is to a head.
func (c *Config) target(program family.Program, parts []nn.Parts) *family.Target {
	embed, output := program.Ends()
	return &family.Target{Embd: c.Embd, Layers: c.Layers, Vocab: c.Vocab, Embedding: embed, Output: output, Parts: parts[:c.Layers]}
}

// headPlan returns the plan of a head with layers on the devices of at. Each layer has one of the parts of the cache,
// in order; nil: there is no cache.
func headPlan(at nn.LayerPlan, parts []int) nn.Plan {
	return nn.Plan{Head: at.Place, Layer: func(i int) nn.LayerPlan {
		y := at
		if y.Stored = nil; i < len(parts) {
			y.Stored = parts[i : i+1]
		}
		return y
	}}
}

// bindDraft binds the draft program that o asks for: the head, or the MTP layers of b's file.
func (m *Model) bindDraft(ctx context.Context, b *nn.Binder, o *Options) (err error) {
	switch {
	case m.head != nil && o.Further:
		if m.draft, err = m.openHead(ctx, o); err != nil {
			return err
		}
	case o.Further:
		if y := bindMTP(b, m.program, &m.Config); y != nil {
			m.draft = y
		}
	}
	if m.draft != nil {
		m.shape = m.draft.Shape()
		m.pass.Features.Layers = m.shape.Layers
	}
	return nil
}

// HeadError is the error of a draft head that fits the model but cannot be loaded. The model can.
type HeadError struct{ Err error }

func (e *HeadError) Error() string { return e.Err.Error() }
func (e *HeadError) Unwrap() error { return e.Err }

// openHead loads the head's weights. Its errors are HeadErrors, unless ctx ended.
func (m *Model) openHead(ctx context.Context, o *Options) (draft family.Draft, err error) {
	err = fault.Guard(func() error {
		draft, err = m.bindHead(ctx, o)
		return err
	})
	switch {
	case errors.Is(err, fault.Err):
		return nil, &HeadError{fmt.Errorf("%s: %w", m.head.file.Path, err)}
	case err != nil && ctx.Err() == nil:
		return nil, &HeadError{err}
	}
	return draft, err
}

// bindHead binds the head's program.
func (m *Model) bindHead(ctx context.Context, o *Options) (family.Draft, error) {
	at := nn.LayerPlan{}
	if m.places != nil {
		at.Place = m.furtherModel().place(m.Layers)
	}
	plan := headPlan(at, m.cacheParts(m.Layers, nil))
	plan.Context = o.Context
	b := nn.NewBinder(ctx, m.head.file, m.dev, plan, o.Pinned, nil, nil)
	k := &nn.Keys{File: m.head.file}
	k.Arch = k.Text("general.architecture", "")
	draft := family.OpenDraft(k, b, m.target(m.program, m.parts))
	return draft, cmp.Or(k.Err, b.Finish())
}

// measureDraft returns the elements of activations that each token of a step takes in addition with a draft program. whole
// reports whether the model's program provides all features that the draft program reads.
func (c *Config) measureDraft(program family.Program, draft family.Draft, dev compute.Device) (n int, whole bool) {
	most, whole := 0, true
	for _, kind := range []nn.Kind{nn.WithMTP, nn.OnlyMTP} {
		spec := c.CacheSpec(compute.CacheSpec{Pages: 1, States: 1}, compute.CacheTypes{})
		m := Model{Config: *c}
		m.program, m.draft, m.shape, m.pool = program, draft, draft.Shape(), nn.NewPool(dev, 1, 1)
		m.pass = nn.Pass{Params: &compute.Params{}, Cache: &compute.Cache{CacheSpec: spec}, LastLayer: -1, Step: nn.Step{Kind: kind}}
		m.pass.Features.Layers = m.shape.Layers
		m.hidden, m.states = compute.Tensor{Cols: c.Embd}, compute.Tensor{Cols: m.shape.State}
		m.segment = compute.Segment{Rows: 1, Out: 1}
		for m.record(compute.NewVerbs(nn.Nothing{})); m.pool.Grown(); m.record(compute.NewVerbs(nn.Nothing{})) {
		}
		perToken, perOutput := m.pool.Widths()
		most = max(most, perToken+perOutput)
		whole = whole && (kind == nn.OnlyMTP || m.pass.Features.All())
	}
	n = max(0, most-c.perToken-c.perOutput) + c.Embd
	if s := draft.Shape(); !s.Hidden {
		n += s.State
	}
	return n, whole
}

// blockOf returns the block and the number of the layer that a tensor belongs to. The MTP layers are one block after the
// last, if they are loaded. nil: the tensor belongs to no layer.
func (c *Config) blockOf(name string) (*Block, int) {
	p, ok := c.purposes[name]
	switch {
	case !ok || p.Layer < 0:
		return nil, -1
	case p.Layer < c.Layers:
		return &c.Blocks[p.Layer], p.Layer
	case c.FurtherCached && c.head == nil:
		return c.mtp, c.Layers
	}
	return nil, -1
}

// furtherConfig returns c with the layer after the last, computed whole.
func (c *Config) furtherConfig() Config {
	d := *c
	d.Blocks = append(slices.Clone(c.Blocks), *c.mtp)
	d.Sparse, d.Prepared, d.Predicting, d.Magnitudes = Off, nil, nil, nil
	return d
}

// furtherModel returns m with one more layer, which stands for the MTP layers. If a plan says so, this layer is on the GPU
// of the model's head, with its norms, else in RAM.
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

// GuessesFurther reports whether the model was loaded with a draft program: an MTP layer or a head.
func (m *Model) GuessesFurther() bool { return m.draft != nil }

// Drafting returns how the draft program drafts. The model must have one.
func (m *Model) Drafting() DraftShape { return m.shape }

// ForwardBoth runs one step as Forward does, and writes its tokens to the draft program's parts of the cache. p.Before
// has the states before the step's tokens. Afterwards Hidden returns every row's hidden state, and State the state that
// drafts read.
func (m *Model) ForwardBoth(p *compute.Params) error { return m.run(nn.WithMTP, p) }

// ForwardLast runs one step as Forward does, for a draft program with DraftShape.Last. Afterwards State returns the
// states that drafts read, of the rows that p.Out asked for.
func (m *Model) ForwardLast(p *compute.Params) error { return m.run(nn.LastStates, p) }

// ForwardFurther runs one step of the draft program alone. Its logits are for the second next token. State returns the
// program's states, which replace the model's when it drafts another token. With a DraftShape.Block, the logits are for
// each masked token.
func (m *Model) ForwardFurther(p *compute.Params) error { return m.run(nn.OnlyMTP, p) }

// State returns row i of the states [DraftShape.State] of the last step, which ForwardBoth, ForwardLast or ForwardFurther
// ran. It is valid until the next step, and empty for a model without a draft program. It fails where a GPU does.
func (m *Model) State(i int) ([]float32, error) {
	if m.draft == nil {
		return nil, nil
	}
	if m.pass.Kind != nn.LastStates {
		return m.dev.Read(m.states, i)
	}
	out, ok := slices.BinarySearch(m.pass.Params.Out, int32(i))
	if !ok {
		return nil, fmt.Errorf("row %d has no logits, and so no state", i)
	}
	return m.dev.Read(m.lasts, out)
}

// bound sets which positions the rows of a draft step see.
func (d *drafting) bound(p *compute.Params) {
	d.bounds = d.bounds[:0]
	for i, pos := range p.Pos {
		d.bounds = append(d.bounds, d.shape.Sees(pos, int32(p.Last(p.Seq[i]))))
	}
	p.Bounds = d.bounds
}

// follow makes the draft program follow a step. x is the last layer's output.
func (m *Model) follow(p *nn.Pass, x compute.Tensor) {
	rows := compute.Tensor{Rows: x.Rows}
	hidden, states := m.hidden.Like(rows), m.states.Like(rows)
	p.NormTo(hidden, x, m.output.Norm)
	m.draft.Follow(p, family.Followed{X: x, Hidden: hidden, Features: p.Features.End(p, m.Layers, x)}, states)
}

// forwardDraft is the pass of a drafting step.
func (m *Model) forwardDraft(p *nn.Pass) {
	rows, outputs := p.Rows()
	x := m.draft.Forward(p, m.states.Like(compute.Tensor{Rows: rows}))
	if outputs == 0 {
		return
	}
	last := p.Outputs(x)
	norm, head := m.draft.Head(p.Depth)
	p.Normalize(last, norm)
	p.LinearTo(m.drafted().Like(last), last, head)
}

// drafted returns the view of the logits that a draft step writes.
func (m *Model) drafted() compute.Tensor {
	t := m.logits
	if m.head != nil {
		t.Cols = m.head.rows
	}
	return t
}
