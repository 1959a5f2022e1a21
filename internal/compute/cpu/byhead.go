package cpu

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// byHead is the state of one MatMulByHead; run is a method value made once, so that a call allocates nothing.
type byHead struct {
	d       *Device
	chunkFn func(chunk, worker int)

	op    compute.MatMulByHead
	x     operand
	heads int
	rows  int // rows of a head
	parts int // chunks of a head
	part  int // rows of a chunk
}

func (m *byHead) init(d *Device) {
	m.d = d
	m.chunkFn = m.chunk
}

// MatMulByHead computes the product of every head. For the kernels a head is a matrix of its own, and a token's part
// for the head is an activation. The stride between tokens' parts is that between tokens.
func (d *Device) MatMulByHead(o *compute.MatMulByHead) {
	if o.X.Rows == 0 {
		return
	}
	if !o.Fits() {
		panic("cpu: MatMulByHead of shapes that do not fit: " + o.W.Name)
	}
	m := &d.heads
	m.op, m.x = *o, operand{}
	m.heads, m.rows = o.Heads()
	m.x.form(d, o.X.Split(o.W.Cols), o.W)
	m.part = min(m.rows, chunkRows(o.W.Rows, kernel.RowBytes(o.W.Type, o.W.Cols), o.X.Rows, d.pool.Threads()))
	m.parts = (m.rows + m.part - 1) / m.part
	d.pool.Run(m.heads*m.parts, m.chunkFn)
	m.op = compute.MatMulByHead{}
}

// chunk is some rows of one head for all tokens.
func (m *byHead) chunk(chunk, worker int) {
	o, head, first := &m.op, chunk/m.parts, chunk%m.parts*m.part
	end := min(m.rows, first+m.part)
	w := mem(o.W)
	data := w.data[(head*m.rows+first)*w.rowBytes : (head*m.rows+end)*w.rowBytes]
	x, stride := m.x.of(o.W, head)
	out := floats(o.Out)[o.To.First+head*o.To.Step+first:]
	m.d.multiply(o.W, data, end-first, out, o.Out.Cols, x, m.heads*stride, o.X.Rows, worker)
}

// multiply computes rows of w, stored in data, times tokens activations. The activations x are in w's form, stride
// bytes apart. It writes rows of out, outStride apart.
func (d *Device) multiply(w *compute.Matrix, data []byte, rows int, out []float32, outStride int, x unsafe.Pointer, stride, tokens, worker int) {
	m := mem(w)
	if m.packed {
		m.k.MatMul(w.Type, out, outStride, data, rows, w.Cols, x, stride, tokens)
		return
	}
	scratch := grown(&d.worker(worker).packed, packBytes(kernel.RowBytes(w.Type, w.Cols), tokens))
	m.k.MatMulFile(w.Type, out, outStride, data, rows, w.Cols, x, stride, tokens, scratch)
}
