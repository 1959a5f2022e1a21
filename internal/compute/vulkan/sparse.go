package vulkan

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Shapes of the shaders for neurons. Their constants must be equal.
const (
	neuronLanes = 256 // that sum down columns
	laneGroup   = 16  // lanes whose sums one workgroup of down.comp adds
	downThreads = 16  // down.comp: invocations of a lane
	downSpan    = 4   // and slots of an invocation
	rowsLocal   = 128 // rows.comp
	// rowsMost bounds the workgroups of rows.comp for a token's set. The host does not know the size of the set.
	rowsMost = 1056
	// listedGroups bounds the workgroups for a token's set. The host does not know the size of the set, so they go on
	// in strides.
	listedGroups = 2048
	// everyTokens are computed at a time where every neuron is, to bound the memory for gates and ups.
	everyTokens = 128
)

// sparse is one SparseFFN operation.
type sparse struct {
	r       *recorder
	w       compute.SparseWeights
	n       int // neurons
	out, x  compute.Tensor
	set     compute.Set
	all     bool // the set is every neuron
	prompt  bool // the rows in work are parts of prompts, and of an Arithmetic of their own
	few     int  // at most that many tokens are computed by lists
	listed  bool // they are
	every   bool // the gate and up rows of all neurons are computed, then the set masks them
	operand operand
	counts  driver.View // predicted, gated, active
	elected *election   // the election of the set's members, if it is still to be recorded

	gateLow, upLow operand // first products of the layer's adapter

	// A step that goes by sets:
	members   driver.View // bits of neurons, in rows of bitWords words, the first of them row firstBits
	bitWords  int
	firstBits int
	a         compute.Tensor // [tokens, n]: a_i of the members
}

// sparseFFN computes the neurons of s that w has, which may be only the first of s.N. It computes a few tokens by the
// members of their sets: gate rows of the set, up rows where the activation is not zero, and the down columns of
// neurons with a product that is not zero. With many tokens the union of the sets is most of a layer, so matrix
// products compute all neurons, and those outside a token's set are set to zero. Both give the same bytes. Prompts with
// another Arithmetic take its products, however few tokens they have.
func (r *recorder) sparseFFN(out, x compute.Tensor, s compute.Set, w compute.SparseWeights) {
	f := &sparse{r: r, w: w, n: w.Up.Rows, out: out, x: x, set: s, all: s.Mem == nil, operand: operand{r: r, x: x, name: "activations"}}
	f.every = w.EveryRow > 0 && r.single(x) >= w.EveryRow
	if e := r.elected; e != nil && f.follows(e) && !f.every {
		f.elected, r.elected = e, nil // before anything else is recorded
	} else {
		r.about(w.Up.Name)
	}
	if w.Up.Cols != x.Cols || s.N < f.n || s.Rows != x.Rows || out.Rows != x.Rows || w.Gate != nil && (w.Gate.Rows != f.n || w.Gate.Cols != x.Cols) {
		panic("vulkan: SparseFFN of shapes that do not fit: " + w.Up.Name)
	}
	if x.Rows == 0 {
		return
	}
	f.gateLow = operand{r: r, x: w.Adapter.GateLow, name: "narrow gates"}
	f.upLow = operand{r: r, x: w.Adapter.UpLow, name: "narrow ups"}
	f.few = compute.FewTokens
	prompts := r.single(x) // beginning of the prompts
	if prompts == x.Rows {
		f.few = fewRows
	}
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
	down, parted := mem(f.w.Down), f.parted()
	f.listed = down.layout != plain && (parted || !f.prompt && rows <= f.few && (!f.all || f.w.Zeros()))
	step, size := f.everyNeuron, everyTokens
	if f.listed {
		step, size = f.someNeurons, f.few
	}
	if f.listed && parted {
		size = max(1, min(size, int(f.r.d.maxBinding/carried(f.w.Down))))
	}
	f.count(first, rows, ceil(rows, size))
	for end := first + rows; first < end; first += size {
		step(first, min(size, end-first))
	}
}

// parted reports whether a matrix with summed columns is too large for one binding.
func (f *sparse) parted() bool {
	a := f.w.Adapter.DownA
	return len(mem(f.w.Down).parts) > 1 || a != nil && len(mem(a).parts) > 1
}

// count adds, after every run of the segment, the counts of rows tokens from first on to the layer's. They are computed
// in that many steps.
func (f *sparse) count(first, rows, steps int) {
	c := f.w.Count
	if c == nil {
		f.counts = f.r.scratch("counts", counterBytes)
		return
	}
	w, n, all, listed, everyRow, layout, outputs := f.w, int64(f.n), f.all, f.listed, f.every, f.r.seg.params, f.x.Outputs
	f.counts = f.r.counter(func(p *compute.Params, counted []uint32) {
		lead, step := layout.rowsOf(p, outputs)
		tokens := int64(max(0, min(first+rows, lead+step)-max(first, lead)))
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
		if all || !listed || everyRow {
			one = every
		}
		switch {
		case !listed:
			two, three = every, every
		case everyRow:
			two = every
		case !all && w.Gate != nil && pairable(w.Gate, w.Up): // up's rows are read with gate's
			two = one
		}
		if w.Gate != nil {
			c.Bytes += one*mem(w.Gate).bytes()/n + two*mem(w.Up).bytes()/n
		} else {
			c.Bytes += one * mem(w.Up).bytes() / n
		}
		c.Bytes += three * mem(w.Down).bytes() / n
	})
}

// nonlinearity returns an activation as shaders take it.
func nonlinearity(a compute.Activation) []uint32 {
	return []uint32{uint32(a.Kind), math.Float32bits(a.Threshold), math.Float32bits(a.Slope), math.Float32bits(a.Limit)}
}

// words returns the words of a row of bits.
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

// added is added to products of neurons' rows: the same for every token or, with an adapter, separate for each token.
type added struct {
	bias *compute.Vector
	more compute.Tensor // [n, n_ff] or without memory
}

// addedGates returns the addend of the gates of n tokens from first on.
func (f *sparse) addedGates(first, n int) added {
	return added{more: f.widened("gates' adapter", &f.gateLow, f.w.Adapter.GateB, nil, first, n)}
}

// addedUps returns the addend of the ups of n tokens from first on.
func (f *sparse) addedUps(first, n int) added {
	if f.w.Adapter.UpB == nil {
		return added{bias: f.w.UpBias}
	}
	return added{more: f.widened("ups' adapter", &f.upLow, f.w.Adapter.UpB, f.w.UpBias, first, n)}
}

// widened computes an adapter's product of all neurons, for n tokens from first on: its rank is small. b may be nil.
func (f *sparse) widened(name string, low *operand, b *compute.Matrix, bias *compute.Vector, first, n int) compute.Tensor {
	if b == nil {
		return compute.Tensor{}
	}
	out := f.tensor(name, n, f.n)
	f.r.multiply(Ordered, low, first, n, 0, compute.Product{Out: out, W: b, Bias: bias})
	return out
}

// multiply computes out for n tokens from first on, of all neurons.
func (f *sparse) multiply(a Arithmetic, first, n int, out compute.Tensor, w *compute.Matrix, and added) {
	f.r.multiply(a, &f.operand, first, n, 0, compute.Product{Out: out, W: w, Bias: and.bias})
	if and.more.Mem != nil {
		f.r.add(out, and.more)
	}
}

// someNeurons computes n tokens from first on with only the sets' members.
func (f *sparse) someNeurons(first, n int) {
	f.a = f.tensor("members' neurons", n, f.n)
	gated := f.w.Gate != nil
	gates, ups := f.addedGates(first, n), f.addedUps(first, n)
	if f.all {
		f.members, f.bitWords, f.firstBits = f.r.scratch("members", 4*int64(n)*int64(ceil(f.n, 32))), ceil(f.n, 32), 0
	} else {
		f.members, f.bitWords, f.firstBits = bits(f.set), int(f.words()), first
	}
	switch {
	case f.elected != nil:
		e := f.elected
		e.rows, e.values = &memberRows{x: &f.operand, gate: f.w.Gate, up: f.w.Up, gates: gates, ups: ups, first: first}, f.a
		e.act = f.w.Act
		f.r.elect(e)
	case f.every && (gated || !f.all):
		f.everyRow(first, n, gates, ups)
	case f.all && gated:
		if !f.open(first, n, f.w.Gate, gates, &memberRows{x: &f.operand, up: f.w.Up, ups: ups, first: first}) {
			f.rows(first, n, f.w.Up, ups, rowsUp)
		}
	case f.all:
		f.open(first, n, f.w.Up, ups, nil)
	case gated && pairable(f.w.Gate, f.w.Up):
		f.bothRows(first, n, gates, ups)
	case gated:
		f.rows(first, n, f.w.Gate, gates, rowsGate)
		f.rows(first, n, f.w.Up, ups, rowsUp)
	default:
		f.rows(first, n, f.w.Up, ups, rowsOnly)
	}
	f.r.about(f.w.Down.Name)
	f.down(first, n, f.counts, compute.Product{Out: f.out, W: f.w.Down, Bias: f.w.DownBias})
	if a := &f.w.Adapter; a.DownA != nil {
		f.down(first, n, f.r.scratch("counted before", counterBytes), compute.Product{Out: a.DownLow, W: a.DownA})
	}
}

// pairable reports whether a shader can have two matrices' rows by the same numbers.
func pairable(a, b *compute.Matrix) bool {
	return a.Type == b.Type && a.Rows == b.Rows && a.Cols == b.Cols && len(mem(a).parts) == 1 && len(mem(b).parts) == 1
}

// follows reports whether e's members are the set, and one dispatch can compute their rows with e.
func (f *sparse) follows(e *election) bool {
	w := &f.w
	return !f.all && e.bits == bits(f.set) && e.n == f.x.Rows && f.r.single(f.x) == e.n && mem(w.Down).layout != plain && w.Gate != nil && e.w.Type == w.Gate.Type && pairable(w.Gate, w.Up) &&
		!w.Adapter.Any() && !f.parted()
}

// open computes the activation of every neuron's product with w for n tokens from first on: members are those for which
// it is not zero. It reports whether it has computed the members' rows, too.
func (f *sparse) open(first, n int, w *compute.Matrix, and added, rows *memberRows) bool {
	e := election{test: testOpen, x: &f.operand, first: first, n: n, w: w, and: and, neurons: f.n, values: f.a, bits: f.members}
	e.act = f.w.Act
	if f.w.Cut == nil && n <= compute.FewTokens && len(mem(w).parts) == 1 {
		if rows != nil && pairable(w, rows.up) {
			e.rows = rows
		}
		f.r.elect(&e)
		return e.rows != nil
	}
	values := f.tensor("gates", n, f.n)
	f.multiply(Ordered, first, n, values, w, and)
	f.cut(values)
	f.r.choose(&e, values, compute.Tensor{})
	return false
}

// everyRow computes the rows of every neuron by matrix products, and what rows and open make of them: a of all neurons,
// and members if they are those whose gates are open.
func (f *sparse) everyRow(first, n int, gates, ups added) {
	e := election{n: n, neurons: f.n, values: f.a, bits: f.members, act: f.w.Act, marks: true}
	if f.all {
		e.test = testOpen
	}
	up := f.tensor("ups", n, f.n)
	f.multiply(Ordered, first, n, up, f.w.Up, ups)
	if f.w.Gate == nil {
		f.r.choose(&e, up, compute.Tensor{})
		return
	}
	gate := f.tensor("gates", n, f.n)
	f.multiply(Ordered, first, n, gate, f.w.Gate, gates)
	f.cut(gate)
	f.r.choose(&e, gate, up)
}

// cut sets all but the largest gates to zero where the layer does.
func (f *sparse) cut(gates compute.Tensor) {
	if f.w.Cut != nil {
		f.r.gaussianTopK(gates, *f.w.Cut)
	}
}

// The steps of rows.comp.
const (
	rowsGate uint32 = iota
	rowsUp
	rowsOnly
	rowsBoth
)

// How shaders read what they add to products.
const (
	addsNothing uint32 = iota
	addsBias
	addsEach // sums of each token
)

// binding returns how a shader reads the addend, and the view, or standIn.
func (a added) binding(standIn driver.View) (uint32, driver.View) {
	switch {
	case a.more.Mem != nil:
		return addsEach, floats(a.more)
	case a.bias != nil:
		return addsBias, elements(a.bias)
	}
	return addsNothing, standIn
}

// rows computes the members' rows of m.
func (f *sparse) rows(first, n int, m *compute.Matrix, and added, step uint32) {
	w := mem(m)
	for i := range w.parts {
		p := &w.parts[i]
		adds, sums := and.binding(p.memory)
		f.rowsOf(first, n, m, p, step, adds, 0, sums, sums, p.memory)
	}
}

// bothRows computes the members' rows of gate and up, which have the same form.
func (f *sparse) bothRows(first, n int, gates, ups added) {
	p, up := &mem(f.w.Gate).parts[0], &mem(f.w.Up).parts[0]
	adds, sums := gates.binding(p.memory)
	upAdds, upSums := ups.binding(p.memory)
	f.rowsOf(first, n, f.w.Gate, p, rowsBoth, adds, upAdds, sums, upSums, up.memory)
}

// rowsOf dispatches rows.comp for a part of a matrix, and the part of up that goes with it.
func (f *sparse) rowsOf(first, n int, m *compute.Matrix, p *part, step, adds, upAdds uint32, sums, upSums, up driver.View) {
	x, scales := f.operand.of(m.Type)
	f.r.dispatch(call{
		shader: f.r.dotting("rows"), local: rowsLocal, spec: []uint32{uint32(m.Type), step, uint32(ceil(ceil(f.n, 32), rowsLocal))},
		bind: []binding{
			read(p.memory), read(x), read(f.members), update(floats(f.a)), read(sums), read(upSums), read(f.r.paramsOf(f.x.Outputs)), read(up),
		},
		push: append(append(mem(m).push(p), uint32(p.rows), uint32(p.first), uint32(f.n), uint32(f.bitWords), uint32(f.firstBits), uint32(first), uint32(first), scales,
			adds, upAdds), nonlinearity(f.w.Act)...),
		groups: [3]int{min(rowsMost, ceil(f.n, rowsLocal/vecLanes)), n, 1},
	})
}

// carried returns what one token's sums take between the parts of w, in bytes.
func carried(w *compute.Matrix) int64 { return 4 * neuronLanes * slotElems * int64(slots(w)) }

// slots returns the slots of a neuron's column of w.
func slots(w *compute.Matrix) int { return mem(w).units * unitElems(w.Type) / slotElems }

// down adds the members' columns of y.W, and counts the neurons in counts.
func (f *sparse) down(first, n int, counts driver.View, y compute.Product) {
	m := mem(y.W)
	carry := counts // stands in where one part is all
	if len(m.parts) > 1 {
		carry = f.r.scratch("carry", int64(n)*carried(y.W))
	}
	wide := ceil(slots(y.W), downThreads*downSpan)
	sums := f.r.scratch("lanes' sums", 4*int64(n)*int64(wide*neuronLanes/laneGroup*downThreads*downSpan*slotElems))
	arrived := f.r.zeroed("arrived", 4*int64(n)*int64(wide))
	for i := range m.parts {
		p := &m.parts[i]
		bias := elementsOr(y.Bias, p.memory)
		f.product(n, y.Out, m, call{
			shader: "down", local: downThreads * laneGroup, spec: []uint32{uint32(y.W.Type), truth(m.layout == groups), 0},
			bind: []binding{
				read(p.memory), read(f.members), read(floats(f.a)), write(floats(y.Out)), read(bias),
				update(counts), update(carry), update(sums), update(arrived), read(f.r.paramsOf(f.x.Outputs)), write(floats(y.Out)),
			},
			push: append(m.push(p), uint32(p.rows), uint32(p.first), uint32(f.n), uint32(f.bitWords), uint32(f.firstBits), uint32(first), uint32(y.Out.Cols), uint32(first),
				truth(y.Bias != nil), truth(i == 0), truth(i == len(m.parts)-1)),
			groups: [3]int{wide, neuronLanes / laneGroup, n},
		})
	}
}

// product dispatches c, which sums down columns for n tokens. Its last constant and binding are for an Add that
// follows.
func (f *sparse) product(n int, out compute.Tensor, m *matrix, c call) {
	f.r.dispatchProduct(c, len(c.spec)-1, out, len(m.parts) == 1 && n == out.Rows)
}

// everyNeuron computes n tokens from first on by matrix products.
func (f *sparse) everyNeuron(first, n int) {
	gates, ups := f.tensor("gates", n, f.n), compute.Tensor{}
	if f.w.Gate != nil {
		ups = f.tensor("ups", n, f.n)
		f.multiply(f.by(f.w.Gate), first, n, gates, f.w.Gate, f.addedGates(first, n))
		f.cut(gates)
		f.multiply(f.by(f.w.Up), first, n, ups, f.w.Up, f.addedUps(first, n))
	} else {
		f.multiply(f.by(f.w.Up), first, n, gates, f.w.Up, f.addedUps(first, n))
		ups = f.tensor("ups", 1, 1)
	}
	members := f.counts // stands in where all are
	if !f.all {
		members = bits(f.set)
	}
	f.r.dispatch(call{
		shader: "mask", local: elementwise, spec: []uint32{truth(f.w.Gate != nil), truth(f.all)},
		bind:   []binding{update(floats(gates)), read(floats(ups)), read(members), update(f.counts), read(f.r.paramsOf(f.x.Outputs))},
		push:   append([]uint32{uint32(n), uint32(f.n), f.words(), uint32(first)}, nonlinearity(f.w.Act)...),
		groups: [3]int{min(ceil(n*f.n, elementwise), listedGroups), 1, 1},
	})
	f.columns(f.by(f.w.Down), first, n, gates, compute.Product{Out: f.out, W: f.w.Down, Bias: f.w.DownBias})
	if a := &f.w.Adapter; a.DownA != nil {
		f.columns(Ordered, first, n, gates, compute.Product{Out: a.DownLow, W: a.DownA})
	}
}

// columns adds the columns of y.W, which is in one part, for n tokens from first on: of every neuron, times a_i. The
// rows of values hold a_i.
func (f *sparse) columns(a Arithmetic, first, n int, values compute.Tensor, y compute.Product) {
	m := mem(y.W)
	if a == Integers && m.layout != plain {
		a = Ordered
	}
	if m.layout == plain || a != Ordered {
		o := operand{r: f.r, x: values, name: "neurons"}
		if m.layout == plain {
			f.r.multiply(a, &o, 0, n, first, y)
		} else {
			f.r.multiplyHalves(f.r.d.variant(a, y.W.Type, y.Out.Cols, n), &o, 0, n, first, y, true)
		}
		return
	}
	p := &m.parts[0]
	bias := elementsOr(y.Bias, p.memory)
	f.product(n, y.Out, m, call{
		shader: "downmat", local: matLocal, spec: []uint32{uint32(y.W.Type), truth(m.layout == groups), 0},
		bind:   []binding{read(p.memory), read(floats(values)), write(floats(y.Out)), read(bias), write(floats(y.Out))},
		push:   append(m.push(p), uint32(f.n), uint32(y.Out.Cols), uint32(n), uint32(first), truth(y.Bias != nil)),
		groups: [3]int{ceil(slots(y.W), matTile/slotElems), ceil(n, matTile), 1},
	})
}
