package cpu

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// superblock is the number of outputs that are summed, and unpacked, at a time.
const superblock = quant.QKK

// batch is a prompt's way through a down projection of which much is needed: the neurons that any token needs are multiplied as a
// matrix. Down lies one neuron to a row, so each chunk of outputs first turns its part of them into rows of floats,
// which stay in the cache for all tokens.
type batch struct {
	used    []bool  // [n_ff] of any token
	neurons []int32 // the used ones, or all; -1 fills up the last group
	a       []float32
	buf     buffer
	x       operand
	panel   compute.Matrix // shape and type of a chunk's panel
}

// unionShare in 16ths of the layer is from where on the neurons that no token needs are computed too.
const unionShare = 12

// Panels are worth their turning for so many tokens, if so many of their neurons, in 16ths, are open: a product does
// not skip zeros, but its arithmetic is several times faster than that of sums, of which integers are the faster ones.
const (
	panelTokens   = 64
	panelIntegers = 5
	panelFloats   = 2
)

// worthPanels decides on what is known of the tokens. Their bytes are those of sums only to rounding.
func (f *sparseFFN) worthPanels() bool {
	share := int64(panelFloats)
	if t := f.w.Down.Type; t == quant.Q4_0 || t == quant.Q8_0 {
		share = panelIntegers
	}
	return f.tokens >= panelTokens && 16*f.counts[0].Load() >= share*int64(f.tokens)*int64(f.n)
}

// panels computes the outputs of a prompt.
func (f *sparseFFN) panels() {
	a, b := f.spreadAll(), &f.batch
	b.used = grown(&b.used, f.n)
	f.d.pool.Run((f.n+uniteNeurons-1)/uniteNeurons, f.uniteFn)
	if f.listUsed() {
		b.a = grown(&b.a, f.tokens*len(b.neurons))
		f.d.pool.Run(f.tokens, f.gatherFn)
		b.buf.data = b.a
		a = compute.Tensor{Rows: f.tokens, Cols: len(b.neurons), Mem: &b.buf}
	}
	b.panel = compute.Matrix{Type: f.d.k.PanelType(f.w.Down.Type), Rows: superblock, Cols: len(b.neurons)}
	b.x = operand{}
	b.x.form(f.d, a, &b.panel)
	f.d.pool.Run(kernel.Super(f.out.Cols), f.panelFn)
}

// uniteNeurons is the number of neurons in a chunk of unite: a cache line of floats and some.
const uniteNeurons = 256

// unite finds the neurons that some token needs.
func (f *sparseFFN) unite(chunk, _ int) {
	from, to := chunk*uniteNeurons, min(f.n, (chunk+1)*uniteNeurons)
	used := f.batch.used[from:to]
	clear(used)
	for t := range f.tokens {
		for i, v := range f.a[t*f.n:][from:to] {
			if v != 0 {
				used[i] = true
			}
		}
	}
}

// listUsed lists the neurons to go on with and reports whether they are a choice: the used ones, filled up to whole groups, or all
// where most are used.
func (f *sparseFFN) listUsed() bool {
	b := &f.batch
	b.neurons = slices.Grow(b.neurons[:0], f.n+kernel.GroupNeurons)
	for i, used := range b.used {
		if used {
			b.neurons = append(b.neurons, int32(i))
		}
	}
	if 16*len(b.neurons) >= unionShare*f.n {
		b.neurons = b.neurons[:0]
		for i := range f.n {
			b.neurons = append(b.neurons, int32(i))
		}
		return false
	}
	for len(b.neurons) == 0 || len(b.neurons)%kernel.GroupNeurons != 0 {
		b.neurons = append(b.neurons, -1)
	}
	return true
}

// gather copies the listed neurons' a_i of one token.
func (f *sparseFFN) gather(t, _ int) {
	b := &f.batch
	from, to := f.a[t*f.n:][:f.n], b.a[t*len(b.neurons):][:len(b.neurons)]
	for i, n := range b.neurons {
		if n < 0 {
			to[i] = 0
			continue
		}
		to[i] = from[n]
	}
}

// panel computes one superblock of outputs for all tokens.
func (f *sparseFFN) panel(s, worker int) {
	b, w := &f.batch, f.d.worker(worker)
	rows := min(superblock, f.out.Cols-s*superblock)
	rowBytes := kernel.RowBytes(b.panel.Type, b.panel.Cols)
	panel := grown(&w.panel, superblock*rowBytes+cacheLine)
	panel = panel[aligned(panel):][:rows*rowBytes]
	f.fillPanel(panel, rowBytes, rows, s, w)
	x, stride := b.x.of(f.d, &b.panel, 0)
	out := floats(f.out)[s*superblock:]
	f.d.k.MatMul(b.panel.Type, out, f.out.Cols, panel, rows, b.panel.Cols, x, stride, f.tokens)
	if f.w.DownBias == nil {
		return
	}
	bias := vector(f.w.DownBias)[s*superblock:][:rows]
	for t := range f.tokens {
		f.d.k.Add(out[t*f.out.Cols:][:rows], bias)
	}
}

// panelNeurons is the number of neurons that are turned at a time: a cache line of the panel's rows.
const panelNeurons = 32

// fillPanel writes superblock s of the listed neurons' columns as rows: row r is output r of the superblock.
func (f *sparseFFN) fillPanel(panel []byte, rowBytes, rows, s int, w *workerScratch) {
	neurons := f.batch.neurons
	block := grown(&w.block, panelNeurons)
	for at := 0; at < len(neurons); at += panelNeurons {
		list := neurons[at:min(len(neurons), at+panelNeurons)]
		for i, n := range list {
			if n < 0 {
				clear(block[i][:])
				continue
			}
			f.unpack(&block[i], int(n), s, w)
		}
		for r := range rows {
			e := kernel.Place(f.w.Down.Type, r)
			if f.batch.panel.Type == quant.F32 {
				to := panel[r*rowBytes+4*at:][:4*len(list)]
				for i := range list {
					binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(block[i][e]))
				}
				continue
			}
			to := panel[r*rowBytes+2*at:][:2*len(list)]
			for i := range list {
				v := math.Float32bits(block[i][e])
				v += 0x7fff + v>>16&1 // to nearest, ties to even
				binary.LittleEndian.PutUint16(to[2*i:], uint16(v>>16))
			}
		}
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
