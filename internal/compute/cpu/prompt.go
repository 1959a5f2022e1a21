package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// superblock is the number of outputs that are summed, and unpacked, at a time.
const superblock = quant.QKK

// Panels are a prompt's way through a down projection of which much is needed: all neurons are multiplied as a matrix. Down
// lies one neuron to a row, so each chunk of outputs first turns its part of them into rows, which stay in the cache for all tokens.
//
// They are worth their turning for so many tokens, if so many of their neurons, in 16ths, are open: a product does
// not skip zeros, but its arithmetic is several times faster than that of sums, of which integers are the faster ones.
const (
	panelTokens   = 64
	panelIntegers = 5
	panelFloats   = 2
)

// panels is the state of a product by panels.
type panels struct {
	x    operand
	form compute.Matrix // shape and type of a chunk's panel
	mem  matrix
}

// worthPanels decides on what is known of the tokens. Their bytes are those of sums only to rounding.
func (f *sparseFFN) worthPanels() bool {
	share := int64(panelFloats)
	if kernel.Quantised(f.w.Down.Type) {
		share = panelIntegers
	}
	return f.tokens >= panelTokens && f.n%kernel.GroupNeurons == 0 && 16*f.counts[0].Load() >= share*int64(f.tokens)*int64(f.n)
}

// multiplyPanels computes the outputs of a prompt.
func (f *sparseFFN) multiplyPanels() {
	a, p := f.spreadAll(), &f.panels
	p.mem.k = f.d.k
	p.form = compute.Matrix{Type: f.d.k.PanelType(f.w.Down.Type), Rows: superblock, Cols: f.n, Mem: &p.mem}
	p.x = operand{}
	p.x.form(f.d, a, &p.form)
	f.d.pool.Run(kernel.Super(f.out.Cols), f.panelFn)
}

// panel computes one superblock of outputs for all tokens.
func (f *sparseFFN) panel(s, worker int) {
	w, form := f.d.worker(worker), &f.panels.form
	rows := min(superblock, f.out.Cols-s*superblock)
	size := superblock * kernel.RowBytes(form.Type, f.n)
	panel := grown(&w.panel, size+cacheLine)
	panel = panel[aligned(panel):][:size]
	block := grown(&w.block, kernel.GroupNeurons)
	for at := 0; at < f.n; at += kernel.GroupNeurons {
		for i := range block {
			f.unpack(&block[i], at+i, s, w)
		}
		f.d.k.Turn(form.Type, panel, f.n, at, (*[kernel.GroupNeurons][superblock]float32)(block), f.w.Down.Type)
	}
	x, stride := f.panels.x.of(form, 0)
	out := floats(f.out)[s*superblock:]
	f.d.k.MatMul(form.Type, out, f.out.Cols, panel[:size/superblock*rows], rows, f.n, x, stride, f.tokens)
	if f.w.DownBias == nil {
		return
	}
	bias := vector(f.w.DownBias)[s*superblock:][:rows]
	for t := range f.tokens {
		f.d.k.Add(out[t*f.out.Cols:][:rows], bias)
	}
}

// unpack writes superblock s of neuron n's column to dst, in the order of sums.
func (f *sparseFFN) unpack(dst *[superblock]float32, n, s int, w *workerScratch) {
	down := f.w.Down
	if mem(down).layout == groups {
		f.d.k.UnpackNeuron(down.Type, dst, mem(down).data, down.Rows, n, s)
		return
	}
	f.d.k.Unpack(down.Type, dst, f.downRow(n, w), f.out.Cols, s)
}
