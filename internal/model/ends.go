package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// bindRope builds the rotations.
func (m *Model) bindRope(b *nn.Binder) {
	if m.Family.Rotation == arch.NotRotated {
		return
	}
	factors := b.RopeFactors(m.Rope)
	for i := range m.Layers { // precomputed frequencies that old converters wrote; they follow from the keys
		b.Ignore(fmt.Sprintf("blk.%d.attn_rot_embd", i))
	}
	if b.Err != nil {
		return
	}
	m.ropes[Rotated] = b.Rope(m.Rope, factors)
	switch {
	case m.Family.PlainWindow:
		m.ropes[Locally] = b.Rope(m.Local, nil)
	case m.Local == m.Rope:
		m.ropes[Locally] = m.ropes[Rotated]
	default:
		m.ropes[Locally] = b.Rope(m.Local, factors)
	}
}

// bindEnds binds what comes before the layers and after them: embedding, last norm, head.
func (m *Model) bindEnds(b *nn.Binder) {
	f := &m.Family
	presence := func(name string) nn.Presence {
		switch t, ok := f.Outside(name); {
		case !ok:
			return nn.Absent
		case t.Optional:
			return nn.Optional
		}
		return nn.Required
	}
	m.embed = b.Embedding(m.Embd)
	m.embed.Scale = m.Scale.Embedding
	norm := func(name string) (n nn.Norm) {
		if _, ok := f.Outside(name + ".weight"); ok {
			n = m.newNorm(b.Vector(name+".weight", m.Embd), b.Bias(name, m.Embd, presence(name+".bias")))
		}
		return n
	}
	last := norm(f.LastNorm())
	if f.NormsEmbeddings() {
		m.embed.Norm = norm("token_embd_norm")
	}
	if m.output = (nn.Output{Norm: last}); !f.Headless {
		m.output = b.Output(&m.embed, last)
	}
	m.output.Scale, m.output.SoftCap = m.Scale.Logits, m.LogitCap
	if p := presence("position_embd.weight"); p == nn.Required || b.Has("position_embd.weight") && p == nn.Optional {
		m.embed.Positions = b.Lookups("position_embd", m.Embd)
	}
	if p := presence("token_types.weight"); p == nn.Required || b.Has("token_types.weight") && p == nn.Optional {
		m.embed.Types = b.Lookups("token_types", m.Embd)
	}
}
