package model

import "github.com/powerinfer-go/powerinfer/internal/compute"

// canNarrow reports whether steps of Forward may leave out what the last layer adds to rows whose logits are not
// wanted. An observer sees all rows, and Recall counts them.
func (m *Model) canNarrow(o *Options) bool {
	l := &m.layers[len(m.layers)-1]
	return o.Observer == nil && !o.Recall && !m.Family.Headless && l.mixing.router == nil && l.input.gate == nil && !l.experts.early
}

// forwardOutputs is forward for steps of which nothing but logits is read.
func (m *Model) forwardOutputs(v compute.Verbs) {
	m.outputsOnly = m.narrowing
	defer func() { m.outputsOnly = false }()
	m.forward(v)
}

// narrows reports whether layer i, after its attention, computes only the rows whose logits are wanted, in m.outputs.
// Only the last layer does: no other layer reads its output.
func (m *Model) narrows(i int) bool {
	return m.outputsOnly && i == len(m.layers)-1 && m.step.logits.Rows < m.step.x.Rows
}

// narrowed makes m.outputs the buffers of a layer of the given shape for the rows whose logits are wanted, and gathers
// the residual of s there and, if attended, attention's sums.
func (m *Model) narrowed(v compute.Verbs, s *buffers, l *Block, attended bool) *buffers {
	m.outputs = m.buf.cut(s.logits.Rows, true)
	to := m.outputs.of(l)
	to.x, to.attn = s.last, m.buf.lastAttn.Like(s.last)
	if to.x.Rows == 0 {
		return to
	}
	v.Gather(to.x, s.x)
	if attended {
		v.Gather(to.attn, s.attn)
	}
	return to
}
