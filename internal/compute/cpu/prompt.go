package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// superblock is the number of outputs that are summed, and unpacked, at a time.
const superblock = quant.QKK

// Panels compute a down projection for tokens of prompts that need much of it, by multiplying all neurons as a matrix.
// Down is stored by neuron, so each chunk of outputs first transposes its part, which then stays in the cache for all
// tokens. Experts do not use panels, because an expert has too few tokens of a prompt: sums of its open neurons were
// 1.3 times as fast in prompts of 512 tokens, and 9 times in short ones.
//
// A token uses a panel if at least this many 16ths of its neurons are open. A product does not skip zeros, but its
// arithmetic is several times faster than that of sums, and integers are faster than floats. In a short prompt the
// transposition costs more than it saves, but a token's bytes may not depend on how many others share its step. With 40
// % open in Q4_0, sums are four times as fast in prompts of two tokens, as fast in prompts of 128, and 0.87 times as
// fast in prompts of 512.
const (
	panelIntegers = 7
	panelFloats   = 2
)

// panels is the state of a product by panels.
type panels struct {
	x    operand
	form compute.Matrix // shape and type of a chunk's panel
	mem  matrix
	out  []float32 // [len(dense), n_embd] outputs: in their own rows if these are contiguous, else in room
	room []float32
}

// fillsPanels reports whether a prompt's token with the given number of open neurons uses panels. Its bytes equal those
// of sums only to rounding.
func (f *sparseFFN) fillsPanels(open int) bool {
	if f.pairs != nil {
		return false
	}
	share := panelFloats
	if f.w.Down.Type.Quantised() {
		share = panelIntegers
	}
	return f.n%kernel.GroupNeurons == 0 && 16*open >= share*f.n
}

// multiplyPanels computes the outputs of f.dense.
func (f *sparseFFN) multiplyPanels() {
	a, p := f.spreadDense(), &f.panels
	p.mem = matrix{k: f.d.k, packed: true, ofTokens: true}
	p.form = compute.Matrix{Type: f.d.k.PanelType(f.w.Down.Type), Rows: superblock, Cols: f.n, Mem: &p.mem}
	p.x = operand{}
	p.x.formOfPrompt(f.d, a, &p.form)
	first, rows := int(f.dense[0]), len(f.dense)
	together := int(f.dense[rows-1]) == first+rows-1
	p.out = floats(f.out)[first*f.out.Cols:]
	if !together {
		p.out = grown(&p.room, rows*f.out.Cols)
	}
	f.d.pool.Run(kernel.Super(f.out.Cols), f.panelFn)
	if together {
		return
	}
	for i, t := range f.dense {
		copy(row(f.out, int(t)), p.out[i*f.out.Cols:][:f.out.Cols])
	}
}

// panel computes superblock s of outputs for all rows of f.dense.
func (f *sparseFFN) panel(s, worker int) {
	w, form := f.d.worker(worker), &f.panels.form
	rows := min(superblock, f.out.Cols-s*superblock)
	size := superblock * kernel.RowBytes(form.Type, f.n)
	panel := grown(&w.panel, size+cacheLine)
	panel = panel[aligned(panel):][:size]
	if down := f.w.Down; mem(down).layout == groups {
		f.d.k.TurnGroups(down.Type, panel, f.n, mem(down).data, f.out.Cols, s)
	} else {
		block := grown(&w.block, kernel.GroupNeurons)
		for at := 0; at < f.n; at += kernel.GroupNeurons {
			for i := range block {
				f.d.k.Unpack(down.Type, &block[i], f.downRow(at+i, w), f.out.Cols, s)
			}
			f.d.k.Turn(form.Type, panel, f.n, at, (*[kernel.GroupNeurons][superblock]float32)(block), down.Type)
		}
	}
	out := f.panels.out[s*superblock:]
	f.d.multiplyOfPrompt(form, panel[:size/superblock*rows], rows, out, f.out.Cols, &f.panels.x, len(f.dense), worker)
	if f.w.DownBias == nil {
		return
	}
	bias := f.downBiases(int(f.dense[0]))[s*superblock:][:rows]
	for t := range f.dense {
		f.d.k.Add(out[t*f.out.Cols:][:rows], bias)
	}
}
