package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// window is a step's rows within the segment that it runs as on the GPU. The host computes and keeps only the step's
// rows, from its tensors' first row on. Data that passes between the two is cut to the step's rows.
type window struct{ tokens, outputs rows }

// rows are a step's rows within the segment's, in tensors of all tokens or in tensors of the rows that Params.Out
// names.
type rows struct {
	lead int // the first of the segment's rows that is the step's
	n    int // the step's
	of   int // the segment's
}

func windowOf(seg compute.Segment, p *compute.Params) window {
	return window{
		tokens:  rows{lead: seg.Lead(p), n: len(p.Tokens), of: seg.Rows},
		outputs: rows{lead: seg.LeadOut(p), n: len(p.Out), of: seg.Out},
	}
}

// rows returns the window's rows of tensors of all tokens, or of outputs.
func (w *window) rows(outputs bool) rows {
	if outputs {
		return w.outputs
	}
	return w.tokens
}

// stepOf returns the step's part of data, which are a GPU's of all the segment's rows.
func stepOf[E any](r rows, data []E) []E {
	row := len(data) / r.of
	return data[r.lead*row:][:r.n*row]
}

// floats returns the step's rows of data, the GPU's of all of t's rows.
func (w *window) floats(t compute.Tensor, data []float32) []float32 {
	return stepOf(w.rows(t.Outputs), data)
}

// words returns the step's rows of a set's bits, the GPU's of all of s's rows.
func (w *window) words(s compute.Set, words []uint32) []uint32 {
	return stepOf(w.rows(s.Outputs), words)
}

// chosen returns the step's rows of a choice, the GPU's of all of c's rows.
func (w *window) chosen(c compute.Choice, data []float32) []float32 {
	return stepOf(w.rows(c.Outputs), data)
}

// set returns the step's rows of a set in the host's memory.
func (w *window) set(s compute.Set) compute.Set { return s.First(w.rows(s.Outputs).n) }

// choice returns the step's rows of a choice in the host's memory.
func (w *window) choice(c compute.Choice) compute.Choice { return c.First(w.rows(c.Outputs).n) }

// resize changes operands from one window's rows to another's. It implements compute.Visitor.
type resize struct{ from, to window }

// Tensor scales the rows: a token may have several, its heads.
func (r *resize) Tensor(t *compute.Tensor, _ compute.Access) {
	t.Rows = t.Rows / r.from.rows(t.Outputs).n * r.to.rows(t.Outputs).n
}

func (r *resize) Set(s *compute.Set, _ compute.Access) { s.Rows = r.to.rows(s.Outputs).n }

func (r *resize) Choice(c *compute.Choice, _ compute.Access) { c.Rows = r.to.rows(c.Outputs).n }

func (*resize) Matrix(**compute.Matrix)     {}
func (*resize) Vector(**compute.Vector)     {}
func (*resize) Cache(**compute.Cache, *int) {}
