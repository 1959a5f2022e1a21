package model

import (
	"cmp"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// bindRope builds the rotation. Files may hold factors for short and for long contexts, between which the positions
// that a sequence may have decide; 0: the model's context.
func (m *Model) bindRope(b *nn.Binder, positions int) error {
	if m.Family.Rotation == arch.NotRotated {
		return nil
	}
	var factors []float32
	chosen, other := "rope_factors_short.weight", "rope_factors_long.weight"
	if cmp.Or(positions, m.Context) > m.Rope.Context {
		chosen, other = other, chosen
	}
	if b.Has("rope_freqs.weight") {
		chosen = "rope_freqs.weight"
	} else {
		b.Ignore(other)
	}
	if b.Has(chosen) {
		factors = b.Floats(chosen, m.Rope.Dims/2)
	}
	for i := range m.Layers { // precomputed frequencies that old converters wrote; they follow from the keys
		b.Ignore(fmt.Sprintf("blk.%d.attn_rot_embd", i))
	}
	if b.Err != nil {
		return b.Err
	}
	m.Rope.Positions, m.Local.Positions = positions, positions
	var err error
	if m.ropes[Rotated], err = m.Rope.rope(factors); err != nil {
		return fmt.Errorf("%s: %w", b.File.Path, err)
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
		return fmt.Errorf("%s: %w", b.File.Path, err)
	}
	return nil
}

// bindEnds binds what lies before and behind the layers: embedding, last norm, head. A head that is the embedding keeps
// it where the head is wanted.
func (m *Model) bindEnds(b *nn.Binder) {
	head, tied := m.place(m.Layers), !b.Has("output.weight")
	b.Place(head)
	b.GPU = b.GPU && tied
	m.embd = b.Matrix("token_embd.weight", m.Vocab, m.Embd, compute.Lookup)
	last := m.Family.LastNorm()
	if _, ok := m.Family.Outside(last + ".weight"); ok {
		m.norm = m.bindNorm(b, last)
	}
	if m.Family.NormsEmbeddings() {
		m.after = m.bindNorm(b, "token_embd_norm")
	}
	b.Place(head)
	switch {
	case m.Family.Headless:
	case tied:
		m.head = nn.Linear{W: m.embd}
	default:
		m.head = b.Adapted(b.Matrix("output.weight", m.Vocab, m.Embd, compute.Head))
	}
	if t, ok := m.Family.Outside("output.bias"); ok && (!t.Optional || b.Has("output.bias")) {
		m.head.B = b.Vector("output.bias", m.Vocab)
	}
	if t, ok := m.Family.Outside("position_embd.weight"); ok && (!t.Optional || b.Has("position_embd.weight")) {
		m.bindPositions(b)
	}
	if t, ok := m.Family.Outside("token_types.weight"); ok && (!t.Optional || b.Has("token_types.weight")) {
		m.bindTypes(b)
	}
	m.Head.bind(b, m)
}

// bindTypes binds the embeddings of types of tokens, of which files may hold any number.
func (m *Model) bindTypes(b *nn.Binder) {
	const name = "token_types.weight"
	rows := 1 // only names the tensor if it is missing
	if t := b.File.Tensor(name); t != nil {
		rows = t.Rows()
	}
	b.GPU = b.GPU && m.head.W == m.embd
	m.types = b.Matrix(name, rows, m.Embd, compute.Lookup)
}

// bindPositions binds learned positions, which lie where the embedding does.
func (m *Model) bindPositions(b *nn.Binder) {
	const name = "position_embd.weight"
	b.GPU = b.GPU && m.head.W == m.embd
	if b.Err != nil {
		return
	}
	offset := m.Family.LearnedOffset
	positions := m.Context + offset
	if t := b.File.Tensor(name); t != nil {
		positions = t.Rows()
	}
	m.pos = b.Matrix(name, positions, m.Embd, compute.Lookup)
	m.Context = min(m.Context, positions-offset)
}

// bindNorm binds name's weight and, in families whose norms have one, its bias.
func (m *Model) bindNorm(b *nn.Binder, name string) nn.Norm {
	n := m.newNorm(b.Vector(name+".weight", m.Embd), nil)
	if t, ok := m.Family.Outside(name + ".bias"); ok && (!t.Optional || b.Has(name+".bias")) {
		n.Bias = b.Vector(name+".bias", m.Embd)
	}
	return n
}
