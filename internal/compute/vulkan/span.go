package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// span is n rows of a step, from first on, that take the same arithmetic.
type span struct {
	by       Arithmetic
	first, n int
}

// single returns how many of t's first rows are single tokens of running sequences, or padding of those.
func (r *recorder) single(t compute.Tensor) int {
	if t.Outputs {
		return r.seg.params.decodeOut
	}
	return min(r.seg.params.decode, t.Rows)
}

// spans returns p's rows by arithmetic. The first rows are single tokens of running sequences, which are summed in
// order. If p.W is a head, or no other arithmetic is used for prompts, all rows are. The number of rows does not
// matter.
func (r *recorder) spans(p *compute.Product) (s []span) {
	rows, by := p.Out.Rows, r.d.arithmetic(p.W.Type)
	single := r.single(p.Out)
	if by == Ordered || mem(p.W).head {
		single = rows
	}
	if single > 0 {
		s = append(s, span{Ordered, 0, single})
	}
	if single < rows {
		s = append(s, span{by, single, rows - single})
	}
	return s
}
