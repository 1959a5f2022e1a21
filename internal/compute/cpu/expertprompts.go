package cpu

import (
	"sort"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// tiledShare is the most experts of a layer for each one that a token uses with which prompts of quantised weights use
// tiles. A step of 512 tokens then has 64 or more rows for each expert on average. Dense layers are 1.2 times as fast with
// tiles as with int8 at 64 tokens, and as fast at 32. An expert's own rows may not decide, because a row's bytes would
// then depend on other tokens.
const tiledShare = 8

// byTiles reports whether the step's rows of prompts are multiplied with m by tiles.
func (f *experts) byTiles(m *compute.Matrix) bool {
	return f.single < f.tokens && tiled(m) && (f.all <= tiledShare*f.used || !m.Type.Quantised())
}

// listPrompts sets prompts and source. An expert's pairs of prompts' tokens come after those of single tokens.
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

// form adds x to o in the forms that products with m need. source is as in tiling.run.
func (f *experts) form(o *operand, x compute.Tensor, m *compute.Matrix, source []int32) {
	if !f.byTiles(m) || f.single > 0 {
		o.form(f.d, x, m)
	}
	if form := mem(m).k.PromptForm(m.Type); f.byTiles(m) && o.at[form] == nil {
		o.stride[form] = form.ActRow(x.Cols)
		o.at[form] = f.d.tiling.run(form, floats(x), x.Cols, f.prompts, source)
	}
}

// multiply computes n rows of m from row r on for the pairs of the i-th present expert. o has the activations, and next is
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
		stride = 0 // all of the token's experts read one row
	}
	f.d.multiplyRows(next, m, out, outStride, r, n, x, stride, end-p, worker)
}

// places returns the places [p, end) of the i-th present expert's pairs.
func (f *experts) places(i int) (p, end int) {
	e := f.present[i]
	return int(f.first[e]), int(f.first[e+1])
}
