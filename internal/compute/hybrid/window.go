package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// window is a step's rows within the segment that it runs as on the GPU. The host computes and keeps the step's rows alone, from its
// tensors' first row on; what passes between the two is cut to them.
type window struct {
	seg       compute.Segment
	lead      int // the first of the segment's rows that is the step's
	rows, out int // the step's tokens and rows of logits
}

func windowOf(seg compute.Segment, p *compute.Params) window {
	return window{seg, seg.Lead(p), len(p.Tokens), len(p.Out)}
}

// floats returns the step's rows of data, the GPU's of all of t's rows.
func (w *window) floats(t compute.Tensor, data []float32) []float32 {
	if t.Outputs {
		return data[:len(data)/w.seg.Out*w.out]
	}
	return w.tokens(data)
}

// tokens returns the part of data, the GPU's of all tokens, that is of the step's.
func (w *window) tokens(data []float32) []float32 {
	row := len(data) / w.seg.Rows
	return data[w.lead*row:][:w.rows*row]
}

// words returns the words of a set's bits from the step's first row on.
func (w *window) words(words []uint32, perRow int) []uint32 { return words[w.lead*perRow:] }

// set returns the step's rows of a set in the host's memory.
func (w *window) set(s compute.Set) compute.Set { return s.First(w.rows) }

// choice returns the step's rows of a choice in the host's memory.
func (w *window) choice(c compute.Choice) compute.Choice { return c.First(w.rows) }

// resize gives the operands of operations, which are for the rows of one window, those of another. It implements compute.Visitor.
type resize struct{ from, to window }

// Tensor scales the rows: a token may have several, its heads.
func (r *resize) Tensor(t *compute.Tensor, _ compute.Access) {
	if t.Outputs {
		t.Rows = t.Rows / r.from.out * r.to.out
		return
	}
	t.Rows = t.Rows / r.from.rows * r.to.rows
}

func (r *resize) Set(s *compute.Set, _ compute.Access) { s.Rows = r.to.rows }

func (r *resize) Choice(c *compute.Choice, _ compute.Access) { c.Rows = r.to.rows }

func (*resize) Matrix(**compute.Matrix)     {}
func (*resize) Vector(**compute.Vector)     {}
func (*resize) Cache(**compute.Cache, *int) {}
