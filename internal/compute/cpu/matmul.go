package cpu

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

const cacheLine = 64

// aligned returns the offset of b's first cache line.
func aligned(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % cacheLine)
}

// Chunk sizes in bytes of weights. For one token, a chunk is one long stream of memory, for the hardware's prefetchers;
// each thread has a few, so that workers finish together. For a prompt, a chunk's rows stay in the second-level cache
// while all tokens pass over them.
const (
	decodeChunk = 1 << 20
	promptChunk = 256 << 10
)

// matmul is the state of one MatMul; run is a method value made once, so that a call allocates nothing.
type matmul struct {
	d       *Device
	chunkFn func(chunk, worker int)

	p      compute.Products
	chunks [len(compute.Products{})]int // chunks of each product
	rows   [len(compute.Products{})]int // rows of a chunk
	x      operand
	tokens int
	single int // the first tokens, with the products of running sequences, if prompts have products of their own
}

func (m *matmul) init(d *Device) {
	m.d = d
	m.chunkFn = m.chunk
}

// MatMul computes every product of x.
func (d *Device) MatMul(o *compute.MatMul) {
	x, p := o.X, o.Products
	if x.Rows == 0 {
		return
	}
	m := &d.mm
	m.p, m.tokens, m.single = p, x.Rows, d.single(x)
	m.x = operand{}
	total := 0
	for i := range p {
		m.chunks[i] = 0
		w := p[i].W
		if w == nil {
			break
		}
		if w.Cols != x.Cols || p[i].Out.Cols != w.Rows || p[i].Out.Rows != x.Rows {
			panic("cpu: MatMul of shapes that do not fit: " + w.Name)
		}
		if m.splits(w) {
			m.x.addPrompt(d, x, m.single, mem(w).k.PromptForm(w.Type))
		}
		if m.single > 0 || !m.splits(w) {
			m.x.form(d, x, w)
		}
		m.rows[i] = m.chunkRows(w)
		m.chunks[i] = (w.Rows + m.rows[i] - 1) / m.rows[i]
		total += m.chunks[i]
	}
	d.pool.Run(total, m.chunkFn)
	m.p = compute.Products{}
}

// fewPackBytes stay in a cache between packing and product.
const fewPackBytes = 64 << 10

// packBytes returns how many bytes of a matrix a worker packs at a time, if it is computed on in the file. They are few
// for few tokens. For a prompt they are a chunk, so that the chunk's activations are read once.
func packBytes(rowBytes, tokens int) int {
	limit := promptChunk
	if tokens <= compute.FewTokens {
		limit = fewPackBytes
	}
	return max(tileRows, limit/rowBytes/tileRows*tileRows) * rowBytes
}

// tileRows is the multiple that chunks are cut at: the kernels' tiles of three and four rows stay whole.
const tileRows = 12

// chunkRows returns how many rows make a chunk: a few chunks for every thread, within the sizes above. One token's are
// as many for each thread and equally long, and a thread alone has no one to share with: each begins a stream, which
// costs about a microsecond.
func chunkRows(rows, rowBytes, tokens, threads int) int {
	limit := decodeChunk
	if tokens > 1 {
		limit = promptChunk
	}
	n := max(tileRows, min(limit/rowBytes, rows/(4*threads))/tileRows*tileRows)
	if tokens > 1 {
		return n
	}
	chunks := 1
	if threads > 1 {
		chunks = max(1, (rows+n-1)/n/threads) * threads
	}
	n = (rows + chunks - 1) / chunks
	return (n + tileRows - 1) / tileRows * tileRows
}

// chunkRows returns how many rows of w make a chunk.
func (m *matmul) chunkRows(w *compute.Matrix) int {
	threads := m.d.pool.Threads()
	if !m.splits(w) {
		return chunkRows(w.Rows, kernel.RowBytes(w.Type, w.Cols), m.tokens, threads)
	}
	if mem(w).k.PromptForm(w.Type).Tiled() {
		return tiledRows(w.Rows, threads)
	}
	n := chunkRows(w.Rows, kernel.RowBytes(w.Type, w.Cols), m.tokens, threads)
	return max(1, (n+kernel.PromptRows/2)/kernel.PromptRows) * kernel.PromptRows
}

// tiledRows is chunkRows for activations in tiles. With fewer rows, reading the tiles more often would cost more than
// threads that wait for others.
func tiledRows(rows, threads int) int {
	n := max(rows/(4*threads), min(tiledLeast, rows/threads), 1)
	return min(tiledMost, (n+kernel.PromptRows-1)/kernel.PromptRows*kernel.PromptRows)
}

// Bounds of tiledRows.
const (
	tiledLeast = 128
	tiledMost  = 256
)

func (m *matmul) chunk(chunk, worker int) {
	i := 0
	for chunk >= m.chunks[i] {
		chunk -= m.chunks[i]
		i++
	}
	p := &m.p[i]
	r := chunk * m.rows[i]
	end := min(p.W.Rows, r+m.rows[i])
	m.d.product(p, r, end, m, worker)
}

// splits reports whether a prompt's rows have products of their own with w.
func (m *matmul) splits(w *compute.Matrix) bool {
	return m.single < m.tokens && mem(w).ofTokens && mem(w).k.SplitsPrompts(w.Type)
}

// next returns the memory that a worker probably reads after rows [r, end) of w: the first rows of the chunk that it
// takes when every other worker has taken one.
func (m *matmul) next(w *compute.Matrix, r, end int) kernel.Next {
	data, from := mem(w).data, (r+(end-r)*m.d.pool.Active())*mem(w).rowBytes
	if from >= len(data) {
		return kernel.Next{}
	}
	return kernel.Next{Weights: data[from:min(len(data), from+(end-r)*mem(w).rowBytes)]}
}

// product computes rows [r, end) of one product, bias included, for all tokens.
func (d *Device) product(p *compute.Product, r, end int, m *matmul, worker int) {
	out, w, single := floats(p.Out)[r:], mem(p.W), m.tokens
	data := w.data[r*w.rowBytes : end*w.rowBytes]
	if m.splits(p.W) {
		single = m.single
		x, stride := m.x.ofPrompt(p.W, m.single)
		d.multiplyPrompt(m.next(p.W, r, end), p.W, data, end-r, out[single*p.W.Rows:], p.W.Rows, x, stride, m.tokens-single, worker)
	}
	if single > 0 {
		x, stride := m.x.of(p.W, 0)
		d.multiply(p.W, data, end-r, out, p.W.Rows, x, stride, single, worker)
	}
	if p.Bias == nil {
		return
	}
	bias := vector(p.Bias)[r:end]
	for t := range m.tokens {
		d.k.Add(out[t*p.W.Rows:][:end-r], bias)
	}
}

// multiplyPrompt is multiply for a prompt's rows, with activations x in the form of prompts, before next is read.
func (d *Device) multiplyPrompt(next kernel.Next, w *compute.Matrix, data []byte, rows int, out []float32, outStride int, x unsafe.Pointer, stride, tokens, worker int) {
	m := mem(w)
	if m.packed {
		m.k.MatMulPrompt(next, w.Type, out, outStride, data, rows, w.Cols, x, stride, tokens)
		return
	}
	rowBytes := kernel.RowBytes(w.Type, w.Cols)
	packed := grown(&d.worker(worker).packed, rows*rowBytes)
	for r := range rows {
		m.k.PackRow(w.Type, packed[r*rowBytes:][:rowBytes], data[r*m.rowBytes:][:m.rowBytes], w.Cols)
	}
	m.k.MatMulPrompt(kernel.Next{}, w.Type, out, outStride, packed, rows, w.Cols, x, stride, tokens)
}

// multiplyOfPrompt is multiply for activations o that formOfPrompt made. It uses tiles if w does.
func (d *Device) multiplyOfPrompt(w *compute.Matrix, data []byte, rows int, out []float32, outStride int, o *operand, tokens, worker int) {
	if tiled(w) {
		x, stride := o.ofTiles(w, 0)
		d.multiplyPrompt(kernel.Next{}, w, data, rows, out, outStride, x, stride, tokens, worker)
		return
	}
	x, stride := o.of(w, 0)
	d.multiply(w, data, rows, out, outStride, x, stride, tokens, worker)
}

// multiplyRows is multiply for n rows of m from row r on. next is the memory to prefetch.
func (d *Device) multiplyRows(next kernel.Next, m *compute.Matrix, out []float32, outStride, r, n int, x unsafe.Pointer, stride, tokens, worker int) {
	w := mem(m)
	data := w.data[r*w.rowBytes : (r+n)*w.rowBytes]
	if w.packed {
		w.k.MatMulBefore(next, m.Type, out, outStride, data, n, m.Cols, x, stride, tokens)
		return
	}
	d.multiply(m, data, n, out, outStride, x, stride, tokens, worker)
}
