package vulkan

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Steps returns the sizes of the largest steps, as the function Steps does.
func (d *Device) Steps(most int) []int { return Steps(most) }

// Steps returns the largest step of each way to compute products, for steps of at most most tokens, the largest first.
// Memory for these steps, as prompts and as single tokens of running sequences, is enough for any step.
//
// Up to fewRows single tokens are computed as one is; see fewRows. For prompts see Arithmetic.
func Steps(most int) []int {
	var sizes []int
	for _, n := range []int{most, fewRows, 1} {
		if n = min(n, most); !slices.Contains(sizes, n) {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// ceil returns a/b, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// Shapes of the shaders' workgroups.
const (
	vecLocal = 64 // matvec.comp and rows.comp
	vecLanes = 32 // invocations that sum a row
	matLocal = shaders.TileLocal
	matTile  = 64 // rows, and tokens
	packPart = 4  // elements of an invocation of pack.comp
)

// vecRows returns how many rows of a matrix the lanes of matvec.comp sum at a time: more share the loads of x, fewer
// keep more invocations at work.
func vecRows(rows, tokens int) int {
	switch {
	case rows >= 16<<10 && tokens <= 2:
		return 4
	case rows >= 2<<10:
		return 2
	}
	return 1
}

// form is the form in which products of a type take activations.
type form int

// The forms.
const (
	eightBit form = iota // int8 with a scale for 32
	eights               // floats in units of eight
	sixteens             // and of sixteen
	halves               // for products of prompts
	forms
)

func formOf(t quant.Type) form {
	switch {
	case t.Quantised():
		return eightBit
	case t == quant.F32:
		return eights
	}
	return sixteens
}

// operand is x in the forms that were asked for.
type operand struct {
	r    *recorder
	x    compute.Tensor
	relu bool // the operand is max(x, 0), packed so in eight bits or read so as floats
	name string
	made [forms]driver.View
}

// of returns the operand for a matrix of type t, and the place of its scales, in pairs of words.
func (o *operand) of(t quant.Type) (driver.View, uint32) {
	f, unit := formOf(t), unitElems(t)
	cols := ceil(o.x.Cols, unit) * unit
	scales := packedScales(o.x.Rows * cols)
	if form, ok := o.r.forms.find(floats(o.x)); ok && f == eightBit && !o.relu {
		o.made[f] = form
	}
	if o.made[f].Slab != nil {
		return o.made[f], scales
	}
	if f != eightBit && cols == o.x.Cols {
		o.made[f] = floats(o.x)
		return o.made[f], 0
	}
	size, eight := 4*int64(o.x.Rows*cols), uint32(0)
	if f == eightBit {
		size, eight = packedBytes(o.x.Rows*cols), 1
	}
	v := o.r.scratch(fmt.Sprintf("%s %d", o.name, f), size)
	parts := o.x.Rows * cols / packPart
	o.r.dispatch(call{
		shader: "pack", local: 256, spec: []uint32{eight, truth(o.relu && f == eightBit)},
		bind:   []binding{read(floats(o.x)), write(v)},
		push:   []uint32{uint32(o.x.Cols), uint32(cols), uint32(parts), scales},
		groups: grid(ceil(parts, 256)),
	})
	o.made[f] = v
	if f == eightBit && !o.relu {
		o.r.forms.add(floats(o.x), v)
	}
	return v, scales
}

// prepare packs the operand as products with a matrix of type t take it.
func (o *operand) prepare(t quant.Type, rows []span) {
	for _, s := range rows {
		if s.by != Ordered && s.by != Integers {
			o.halves(s.by)
		} else {
			o.of(t)
		}
	}
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// grid are at least n workgroups, no more than a device must take in one dimension.
func grid(n int) [3]int {
	const most = 65535
	return [3]int{min(n, most), ceil(n, most), 1}
}

// matMul computes every product of x.
func (r *recorder) matMul(x compute.Tensor, products compute.Products) {
	r.about(products[0].W.Name)
	o := operand{r: r, x: x, name: "activations"}
	for i := range products {
		p := &products[i]
		if p.W == nil {
			break
		}
		if p.W.Cols != x.Cols || p.Out.Cols != p.W.Rows || p.Out.Rows != x.Rows {
			panic("vulkan: MatMul of shapes that do not fit: " + p.W.Name)
		}
		o.prepare(p.W.Type, r.spans(p))
	}
	for i := range products {
		if products[i].W == nil {
			break
		}
		for _, s := range r.spans(&products[i]) {
			r.multiply(s.by, &o, s.first, s.n, s.first, products[i])
		}
	}
}

// dotting returns the variant of a shader that the device can run: with its dot products of four bytes, or without.
func (r *recorder) dotting(shader string) string {
	if r.d.gpu.Dot {
		return shader
	}
	return shader + "_emulated"
}

// multiply computes a product of n of the operand's rows, those from first on, by a; to is where the output's begin.
func (r *recorder) multiply(a Arithmetic, o *operand, first, n, to int, p compute.Product) {
	if n == 0 {
		return
	}
	if a != Ordered {
		r.multiplyBy(r.d.variant(a, p.W.Type, p.W.Rows, n), o, first, n, to, p)
		return
	}
	if n > mostVectors {
		r.multiplyTiles(o, first, n, to, p)
		return
	}
	r.multiplyVectors(vectorsFor(p.W.Type, p.W.Rows, n), o, first, n, to, p)
}

// multiplyVectors is multiply in order by vectors of that shape.
func (r *recorder) multiplyVectors(v vectors, o *operand, first, n, to int, p compute.Product) {
	r.multiplyInOrder(o, first, n, to, p, vecAdded, func(c *call, rows int) {
		c.shader = r.dotting("matvec")
		v.with(c, p.W.Type, o.clipped(p.W.Type), rows, n)
	})
}

// multiplyTiles is multiply in order by tiles of matTile rows and tokens.
func (r *recorder) multiplyTiles(o *operand, first, n, to int, p compute.Product) {
	r.multiplyInOrder(o, first, n, to, p, 2, func(c *call, rows int) {
		c.shader, c.local, c.spec = r.dotting("matmat"), matLocal, []uint32{uint32(p.W.Type), o.clipped(p.W.Type), 0}
		c.groups = [3]int{ceil(rows, matTile), ceil(n, matTile), 1}
	})
}

// multiplyInOrder dispatches, for each part of p.W, the shader that shape returns for its rows. The constant added says
// whether the shader adds to out.
func (r *recorder) multiplyInOrder(o *operand, first, n, to int, p compute.Product, added int, shape func(c *call, rows int)) {
	m := mem(p.W)
	x, scales := o.of(p.W.Type)
	for i := range m.parts {
		part := &m.parts[i]
		bias := elementsOr(p.Bias, part.memory)
		c := call{
			bind: []binding{read(part.memory), read(x), write(floats(p.Out)), read(bias), write(floats(p.Out))},
			push: append(m.push(part), uint32(part.rows), uint32(part.first), uint32(p.Out.Cols), uint32(n), uint32(first), uint32(to), scales, truth(p.Bias != nil)),
		}
		shape(&c, part.rows)
		r.dispatchProduct(c, added, p.Out, m.whole() && n == p.Out.Rows)
	}
}

// clipped says whether shaders take max(x, 0) of activations for a matrix of type t: in eight bits they are packed so.
func (o *operand) clipped(t quant.Type) uint32 { return truth(o.relu && !t.Quantised()) }
