package cpu

import (
	"sort"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// tiledShare bounds the experts of a layer for each one that a token uses, where prompts go by tiles with quantised
// weights. A step of 512 tokens then has 64 rows for each expert on average, where tiles are 1.2 times as fast as int8;
// with 32 rows they are only as fast. An expert's own rows may not decide: a row's bytes would depend on other tokens.
const tiledShare = 8

// byTiles reports whether the step's rows of prompts are multiplied with m by tiles.
func (f *experts) byTiles(m *compute.Matrix) bool {
	w := mem(m)
	return f.single < f.tokens && w.ofTokens && w.k.PromptForm(m.Type).Tiled() && (f.all <= tiledShare*f.used || !m.Type.Quantised())
}

// listPrompts lists each present expert's pairs of prompts' tokens, which come after those of single tokens, and the
// token at each place.
func (f *experts) listPrompts() {
	f.prompts = f.prompts[:0]
	run := tileRun{}
	for _, e := range f.present {
		p, end := int(f.first[e]), int(f.first[e+1])
		p += sort.Search(end-p, func(i int) bool { return f.token(p+i) >= f.single })
		run = run.after(p, end-p)
		f.prompts = append(f.prompts, run)
	}
	for p := range grown(&f.source, f.pairs) {
		f.source[p] = int32(f.token(p))
	}
}

// form adds x, from which runs take their rows as tiling.run says, to o in the forms of m.
func (f *experts) form(o *operand, x compute.Tensor, m *compute.Matrix, source []int32) {
	tiled := f.byTiles(m)
	if !tiled || f.single > 0 {
		o.form(f.d, x, m)
	}
	if form := mem(m).k.PromptForm(m.Type); tiled && o.at[form] == nil {
		o.stride[form] = form.ActRow(x.Cols)
		o.at[form] = f.d.tiling.run(form, floats(x), x.Cols, f.prompts, source)
	}
}

// multiply computes n rows of m from row r on for the pairs of the i-th present expert, whose activations are o. next is
// the memory to prefetch.
func (f *experts) multiply(next kernel.Next, out []float32, outStride int, m *compute.Matrix, r, n int, o *operand, i, worker int) {
	p, end := f.places(i)
	if f.byTiles(m) {
		run := f.prompts[i]
		if run.rows > 0 {
			x, stride := o.ofTiles(m, run.tile)
			f.d.multiplyPrompt(next, m, rowsOf(m, r, n), n, out[(run.first-p)*outStride:], outStride, x, stride, run.rows, worker)
		}
		end = run.first
	}
	if p == end {
		return
	}
	one := o == &f.x && f.tokens == 1
	if one {
		p, end = 0, end-p
	}
	x, stride := o.of(m, p)
	if one {
		stride = 0 // the token's experts read the same
	}
	f.d.multiplyRows(next, m, out, outStride, r, n, x, stride, end-p, worker)
}

// places returns the places [p, end) of the i-th present expert's pairs.
func (f *experts) places(i int) (p, end int) {
	e := f.present[i]
	return int(f.first[e]), int(f.first[e+1])
}
