package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Forward runs one step. Afterwards Logits returns the rows that p.Out asked for. The last layer may compute these rows
// alone after its attention; whoever wants all of them runs ForwardHidden.
func (m *Model) Forward(p *compute.Params) error {
	return m.run("forward", p, m.body)
}

// ForwardHidden runs one step as Forward does. Afterwards Hidden returns every row's hidden state, too.
func (m *Model) ForwardHidden(p *compute.Params) error {
	return m.run("forward with hidden states", p, func(v compute.Verbs) {
		m.forward(v)
		if m.norm.w == nil {
			v.CopyColumns(m.step.h, m.step.x, compute.Ranges{}, compute.Ranges{}, m.Embd, 1)
			return
		}
		m.normalise(v, m.step.h, m.step.x, m.norm)
	})
}

// run runs one step of body, which has a name of its own.
func (m *Model) run(name string, p *compute.Params, body func(compute.Verbs)) error {
	if !slices.IsSorted(p.Out) {
		return fmt.Errorf("rows of logits %v of a step are not in ascending order", p.Out)
	}
	seg := p.Segment(name)
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

// Logits returns row i of the last step's logits [n_vocab], valid until the next step. It fails where a GPU does.
func (m *Model) Logits(i int) ([]float32, error) { return m.dev.Read(m.buf.logits, i) }

// Hidden returns row i of the hidden states [n_embd] of the last step, which ForwardHidden, ForwardBoth or
// ForwardFurther ran: the last layer's outputs behind the norm, from which logits are computed. It is valid until the
// next step. It fails where a GPU does.
func (m *Model) Hidden(i int) ([]float32, error) {
	if m.further != nil {
		return m.dev.Read(m.further.after, i)
	}
	return m.dev.Read(m.buf.h, i)
}
