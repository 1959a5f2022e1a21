package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Shapes of the shaders for neurons, whose constants say the same.
const (
	neuronLanes = 64  // that a list is ordered by, and that sum its down columns
	listLocal   = 256 // list.comp: a workgroup for each token
	downSlots   = 4   // down.comp: slots of a workgroup
	// listedGroups bounds the workgroups for a token's list, whose length the host does not know: they go on in strides.
	listedGroups = 2048
	// everyTokens are computed at a time where every neuron is, to bound the memory for gates and ups.
	everyTokens = 128
)

// sparse is one SparseFFN.
type sparse struct {
	r       *recorder
	w       compute.SparseWeights
	n       int // neurons
	out, x  compute.Tensor
	set     compute.Set
	all     bool // the set is every neuron
	prompt  bool // the rows in work are parts of prompts, and of an Arithmetic of their own
	listed  bool // they are computed by lists
	operand operand
	counts  driver.View // predicted, gated, active

	// A step's lists, by token.
	list, offsets driver.View
	gates, a      compute.Tensor // [tokens, n]: the lists' gates and a_i
}

// sparseFFN computes the neurons of s that w has, which may be the first only of s.N. It computes a few tokens by lists of neurons: gate
// rows of the set, up rows where the activation is not zero, the down columns of neurons whose product is not. Many tokens, whose sets' union is most of a layer, go through matrix products in which
// neurons outside a token's set are zero. Both give the same bytes. Prompts for which there is another Arithmetic go through its products,
// however few tokens they have.
func (r *recorder) sparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	r.about(w.Up.Name)
	f := &sparse{r: r, w: w, n: w.Up.Rows, out: out, x: x, set: s, all: s.Mem == nil, operand: operand{r: r, x: x, name: "activations"}}
	if w.Up.Cols != x.Cols || s.N < f.n || s.Rows != x.Rows || out.Rows != x.Rows || w.Gate != nil && (w.Gate.Rows != f.n || w.Gate.Cols != x.Cols) {
		panic("vulkan: SparseFFN of shapes that do not fit: " + w.Up.Name)
	}
	if x.Rows == 0 {
		return
	}
	prompts := min(r.seg.params.decode, x.Rows) // where they begin
	if f.prompt = true; f.by(w.Gate) == Ordered && f.by(w.Up) == Ordered && f.by(w.Down) == Ordered {
		prompts = x.Rows // there is no other arithmetic for them
	}
	f.prompt = false
	f.compute(0, prompts)
	f.prompt = true
	f.compute(prompts, x.Rows-prompts)
}

// by returns how a product of the rows in work with m is computed. m may be nil.
func (f *sparse) by(m *compute.Matrix) Arithmetic {
	if !f.prompt || m == nil {
		return Ordered
	}
	return f.r.d.arithmetic(m.Type)
}

// compute computes rows tokens from first on, which are of the same kind.
func (f *sparse) compute(first, rows int) {
	if rows == 0 {
		return
	}
	// A dense product sums down's columns in one part only.
	down := mem(f.w.Down)
	f.listed = down.layout != plain && (len(down.parts) > 1 || !f.prompt && rows <= compute.FewTokens && (!f.all || f.w.Zeros()))
	step, size := f.everyNeuron, everyTokens
	if f.listed {
		step, size = f.someNeurons, compute.FewTokens
	}
	if f.listed && len(down.parts) > 1 {
		size = max(1, min(size, int(f.r.d.maxBinding/f.carried())))
	}
	f.count(first, rows, ceil(rows, size))
	for end := first + rows; first < end; first += size {
		step(first, min(size, end-first))
	}
}

// count has the counts of rows tokens, from first on, added to the layer's whenever the segment has run, where they are computed in so many
// steps.
func (f *sparse) count(first, rows, steps int) {
	c := f.w.Count
	if c == nil {
		f.counts = f.r.scratch("counts", counterBytes)
		return
	}
	w, n, all, listed, layout := f.w, int64(f.n), f.all, f.listed, f.r.seg.params
	f.counts = f.r.counter(func(p *compute.Params, counted []uint32) {
		lead := layout.lead(p)
		tokens := int64(max(0, min(first+rows, lead+len(p.Tokens))-max(first, lead)))
		predicted, gated, active := int64(counted[0]), int64(counted[1]), int64(counted[2])
		if listed && all {
			predicted = tokens * n
		}
		if first == 0 {
			c.Steps++
		}
		c.Tokens += tokens
		c.Predicted += predicted
		c.Gated += gated
		c.Active += active
		every := int64(steps) * n // a step reads a row once for all of its tokens, or finds it in the GPU's caches
		one, two, three := min(predicted, every), min(gated, every), min(active, every)
		if all || !listed {
			one = every
		}
		if !listed {
			two, three = every, every
		}
		if w.Gate != nil {
			c.Bytes += one*mem(w.Gate).bytes()/n + two*mem(w.Up).bytes()/n
		} else {
			c.Bytes += one * mem(w.Up).bytes() / n
		}
		c.Bytes += three * mem(w.Down).bytes() / n
	})
}

// activation returns the layer's, as the shaders take it.
func (f *sparse) activation() (kind, threshold uint32) {
	return uint32(f.w.Act.Kind), math.Float32bits(f.w.Act.Threshold)
}

// words returns those of a row of bits.
func (f *sparse) words() uint32 {
	if f.all {
		return 0
	}
	return uint32(f.set.Mem.(*set).words)
}

// tensor is scratch for n rows.
func (f *sparse) tensor(name string, n, cols int) compute.Tensor {
	return compute.Tensor{Rows: n, Cols: cols, Mem: &tensor{f.r.scratch(name, 4*int64(n)*int64(cols))}}
}

// someNeurons computes n tokens from first on by lists.
func (f *sparse) someNeurons(first, n int) {
	f.list = f.r.scratch("list", 4*int64(n)*int64(f.n))
	f.offsets = f.r.scratch("offsets", 4*int64(n)*(neuronLanes+1))
	f.gates, f.a = f.tensor("listed gates", n, f.n), f.tensor("listed neurons", n, f.n)
	gated := f.w.Gate != nil
	if !gated {
		f.gates = f.a
	}
	switch {
	case f.all && gated:
		values := f.tensor("gates", n, f.n)
		f.r.multiply(Ordered, &f.operand, first, n, 0, compute.Product{Out: values, W: f.w.Gate})
		f.cut(values)
		f.choose(first, n, values, f.gates)
		f.rows(first, n, f.w.Up, f.w.UpBias, rowsUp)
	case f.all:
		values := f.tensor("gates", n, f.n)
		f.r.multiply(Ordered, &f.operand, first, n, 0, compute.Product{Out: values, W: f.w.Up, Bias: f.w.UpBias})
		f.choose(first, n, values, f.a)
	case gated:
		f.choose(first, n, compute.Tensor{}, f.gates)
		f.rows(first, n, f.w.Gate, nil, rowsGate)
		f.rows(first, n, f.w.Up, f.w.UpBias, rowsUp)
	default:
		f.choose(first, n, compute.Tensor{}, f.a)
		f.rows(first, n, f.w.Up, f.w.UpBias, rowsOnly)
	}
	f.down(first, n)
}

// cut sets all but the largest gates to zero where the layer does.
func (f *sparse) cut(gates compute.Tensor) {
	if f.w.Cut != nil {
		f.r.gaussianTopK(gates, *f.w.Cut)
	}
}

// choose lists the set's neurons, or, where all are in the set, those whose values' activation is not zero; picked are the
// list's gates, or a_i in ungated layers.
func (f *sparse) choose(first, n int, values, picked compute.Tensor) {
	step := uint32(first)
	c := call{
		shader: "list", local: listLocal, spec: []uint32{truth(f.all), truth(f.w.Gate == nil)},
		groups: [3]int{n, 1, 1},
	}
	kind, threshold := f.activation()
	var from driver.View
	count := uint32(0)
	if f.all {
		from, first, count = floats(values), 0, 1
	} else {
		from = bits(f.set)
	}
	c.bind = []binding{read(from), write(f.list), write(f.offsets), write(floats(picked)), update(f.counts), read(f.r.params())}
	c.push = []uint32{uint32(f.n), f.words(), uint32(first), count, kind, threshold, step}
	f.r.dispatch(c)
}

// The steps of rows.comp.
const (
	rowsGate uint32 = iota
	rowsUp
	rowsOnly
)

// rows computes the listed rows of m.
func (f *sparse) rows(first, n int, m *compute.Matrix, bias *compute.Vector, step uint32) {
	x, scales := f.operand.of(m.Type)
	kind, threshold := f.activation()
	to := f.a
	if step == rowsGate {
		to = f.gates
	}
	w := mem(m)
	for i := range w.parts {
		p := &w.parts[i]
		gates := f.list // stands in where there are none
		if step == rowsUp {
			gates = floats(f.gates)
		}
		f.r.dispatch(call{
			shader: f.r.dotting("rows"), local: vecLocal, spec: []uint32{uint32(m.Type), step},
			bind:   []binding{read(p.memory), read(x), read(f.list), read(f.offsets), read(gates), write(floats(to)), read(elementsOr(bias, p.memory))},
			push:   append(w.push(p), uint32(p.rows), uint32(p.first), uint32(f.n), uint32(first), scales, truth(bias != nil), kind, threshold),
			groups: [3]int{min(listedGroups, ceil(f.n, vecLocal/vecLanes)), n, 1},
		})
	}
}

// carried returns what one token's sums take between the parts of down, in bytes.
func (f *sparse) carried() int64 { return 4 * neuronLanes * slotElems * int64(f.slots()) }

// slots returns the slots of a neuron's down column.
func (f *sparse) slots() int { return mem(f.w.Down).units * unitElems(f.w.Down.Type) / slotElems }

// down adds the listed neurons' down columns.
func (f *sparse) down(first, n int) {
	m := mem(f.w.Down)
	kind, threshold := f.activation()
	carry := f.counts // stands in where one part is all
	if len(m.parts) > 1 {
		carry = f.r.scratch("carry", int64(n)*f.carried())
	}
	for i := range m.parts {
		p := &m.parts[i]
		bias := elementsOr(f.w.DownBias, p.memory)
		f.product(n, call{
			shader: "down", local: downSlots * neuronLanes, spec: []uint32{uint32(f.w.Down.Type), truth(m.layout == groups), 0},
			bind: []binding{
				read(p.memory), read(f.list), read(f.offsets), read(floats(f.a)), read(floats(f.gates)), write(floats(f.out)), read(bias),
				update(f.counts), update(carry), write(floats(f.out)),
			},
			push: append(m.push(p), uint32(p.rows), uint32(p.first), uint32(f.n), uint32(f.out.Cols), uint32(first), truth(f.w.DownBias != nil),
				truth(i == 0), truth(i == len(m.parts)-1), truth(!f.all), kind, threshold),
			groups: [3]int{ceil(f.slots(), downSlots), n, 1},
		})
	}
}

// product dispatches c, which sums down columns for n tokens, and whose last constant and binding are for an Add that follows.
func (f *sparse) product(n int, c call) {
	f.r.dispatchProduct(c, len(c.spec)-1, f.out, len(mem(f.w.Down).parts) == 1 && n == f.out.Rows)
}

// everyNeuron computes n tokens from first on by matrix products.
func (f *sparse) everyNeuron(first, n int) {
	gates, ups := f.tensor("gates", n, f.n), compute.Tensor{}
	if f.w.Gate != nil {
		ups = f.tensor("ups", n, f.n)
		f.r.multiply(f.by(f.w.Gate), &f.operand, first, n, 0, compute.Product{Out: gates, W: f.w.Gate})
		f.cut(gates)
		f.r.multiply(f.by(f.w.Up), &f.operand, first, n, 0, compute.Product{Out: ups, W: f.w.Up, Bias: f.w.UpBias})
	} else {
		f.r.multiply(f.by(f.w.Up), &f.operand, first, n, 0, compute.Product{Out: gates, W: f.w.Up, Bias: f.w.UpBias})
		ups = f.tensor("ups", 1, 1)
	}
	kind, threshold := f.activation()
	members := f.counts // stands in where all are
	if !f.all {
		members = bits(f.set)
	}
	f.r.dispatch(call{
		shader: "mask", local: elementwise, spec: []uint32{truth(f.w.Gate != nil), truth(f.all)},
		bind:   []binding{update(floats(gates)), read(floats(ups)), read(members), update(f.counts), read(f.r.params())},
		push:   []uint32{uint32(n), uint32(f.n), f.words(), uint32(first), kind, threshold},
		groups: [3]int{min(ceil(n*f.n, elementwise), listedGroups), 1, 1},
	})

	m := mem(f.w.Down)
	if m.layout == plain {
		o := operand{r: f.r, x: gates, name: "neurons"}
		f.r.multiply(f.by(f.w.Down), &o, 0, n, first, compute.Product{Out: f.out, W: f.w.Down, Bias: f.w.DownBias})
		return
	}
	if a := f.by(f.w.Down); a != Ordered {
		o, tile := operand{r: f.r, x: gates, name: "neurons"}, f.r.d.tile(a, f.out.Cols, n)
		f.r.multiplyHalves(a, tile, &o, 0, n, first, compute.Product{Out: f.out, W: f.w.Down, Bias: f.w.DownBias}, true)
		return
	}
	p := &m.parts[0]
	bias := elementsOr(f.w.DownBias, p.memory)
	f.product(n, call{
		shader: "downmat", local: matLocal, spec: []uint32{uint32(f.w.Down.Type), truth(m.layout == groups), 0},
		bind:   []binding{read(p.memory), read(floats(gates)), write(floats(f.out)), read(bias), write(floats(f.out))},
		push:   append(m.push(p), uint32(f.n), uint32(f.out.Cols), uint32(n), uint32(first), truth(f.w.DownBias != nil)),
		groups: [3]int{ceil(f.slots(), matTile/slotElems), ceil(n, matTile), 1},
	})
}
