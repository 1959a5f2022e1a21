package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// span is n rows of a step from first on whose products are computed by the same arithmetic.
type span struct {
	by       Arithmetic
	first, n int
}

// spans returns rows rows of p, which lead with the step's single tokens of running sequences. These are summed in order. So are rows of
// logits, whose kinds a recording does not know, and prompts that no other arithmetic is used for. Nothing depends on how many rows there are.
func (r *recorder) spans(rows int, p *compute.Product) (s []span) {
	decode, by := min(r.seg.params.decode, rows), r.d.arithmetic(p.W.Type)
	if by == Ordered || p.Out.Outputs {
		decode = rows
	}
	if decode > 0 {
		s = append(s, span{Ordered, 0, decode})
	}
	if decode < rows {
		s = append(s, span{by, decode, rows - decode})
	}
	return s
}
