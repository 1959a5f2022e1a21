package model

import (
	"cmp"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// norm is a norm's scale and, in families whose norms have one, its bias.
type norm struct {
	w, b *compute.Vector // [n_embd]
}

// bindRope builds the rotation. Files may hold factors for short and for long contexts, between which the positions
// that a sequence may have decide; 0: the model's context.
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

// bindEnds binds what lies before and behind the layers: embedding, last norm, head. A head that is the embedding keeps
// it where the head is wanted.
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

// normalise applies the family's norm.
func (m *Model) normalise(v compute.Verbs, dst, x compute.Tensor, n norm) {
	if m.Family.LayerNorm {
		v.LayerNorm(dst, x, n.w, n.b, m.Eps)
		return
	}
	v.RMSNorm(dst, x, n.w, m.Eps)
}
