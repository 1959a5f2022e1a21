package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// sentRows divides the rows of a chunk, as tiles of products require.
const sentRows = 128

// section is rows of a product's weights.
type section struct {
	product  int
	first, n int
}

// sendProducts makes the GPU compute products with weights that the host has, and reports whether that is possible and
// pays.
func (r *router) sendProducts(o *compute.MatMul) bool {
	s, ok := r.sender(o.X.Rows, r.d.streaming.Tokens)
	if !ok {
		return false
	}
	chunks, ok := s.cut(o)
	if !ok {
		return false
	}
	if err := s.reserve(0); err != nil {
		r.fail(err)
		return true // Run returns it
	}
	r.toGPU(o.X)
	for _, chunk := range chunks {
		s.multiply(o, chunk)
	}
	for _, y := range o.Products {
		if y.W != nil {
			written(y.Out, true)
		}
	}
	return true
}

// cut cuts the products' weights into chunks that rooms hold. It reports whether they can be sent.
func (s *sender) cut(o *compute.MatMul) (chunks [][]section, ok bool) {
	room, left := s.r.d.streaming.Bytes, int64(0)
	for i, y := range o.Products {
		if y.W == nil {
			break
		}
		w := mem(y.W)
		if w.gpu != nil || w.passing || !s.host.KeepsRows(w.host) {
			return nil, false
		}
		row := s.gpu.StreamedBytes(w.host.Type, w.host.Cols)
		step := int(min(sentRows, room/row))
		if step == 0 {
			return nil, false
		}
		for first := 0; first < w.host.Rows; {
			n := int(min(int64(w.host.Rows-first), left/row))
			if first+n < w.host.Rows {
				n -= n % step
			}
			if n == 0 {
				chunks, left = append(chunks, nil), room
				continue
			}
			last := &chunks[len(chunks)-1]
			*last = append(*last, section{i, first, n})
			left -= int64(n) * row
			first += n
		}
	}
	return chunks, true
}

// multiply has the GPU compute the pieces of a chunk, which comes to it.
func (s *sender) multiply(o *compute.MatMul, chunk []section) {
	sent, weights := make([]compute.Sent, len(chunk)), make([]*compute.Matrix, len(chunk))
	for i, p := range chunk {
		y := o.Products[p.product].W
		w := mem(y)
		sent[i] = compute.Sent{
			Source: compute.Source{Name: y.Name, Type: w.host.Type, Rows: p.n, Cols: y.Cols}, Use: w.use, First: p.first, Of: y.Rows,
		}
		if weights[i] = w.host; rounded(y) {
			sent[i].Type = y.Type
			s.r.d.rooms.roundings()
		}
	}
	matrices := s.send(sent[0].Name, sent, func(f compute.Filler, i int) int {
		if weights[i].Type != sent[i].Type {
			return s.roundedRowsOf(f, i, weights[i], chunk[i].first, chunk[i].n)
		}
		return s.rowsOf(f, i, weights[i], chunk[i].first, chunk[i].n)
	})
	on := compute.MatMul{X: gpuTensor(o.X)}
	for i, p := range chunk {
		y := o.Products[p.product]
		on.Products[i] = compute.Product{Out: gpuTensor(y.Out), W: matrices[i], Bias: gpuVector(y.Bias)}
	}
	s.r.gpu.Do(&on)
}

// rounded reports whether the host has w's weights in BF16 and a file had them in F16.
func rounded(w *compute.Matrix) bool { return w.Type == quant.F16 && mem(w).host.Type == quant.BF16 }
