package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// clampedSwiGLU has gpt-oss's parameters.
var clampedSwiGLU = compute.Activation{Kind: compute.ClampedSwiGLU, Slope: 1.702, Limit: 7}

func playClamped(s *stage, cols int, gated bool) {
	g, u := s.normal(s.all*cols), s.normal(s.all*cols)
	for i := range g {
		if i%3 == 1 {
			g[i] = edges()[i/3%len(edges())]
			u[i] *= 10
		}
	}
	gate, dst, up := s.input(cols, g), s.output(cols), compute.Tensor{}
	if gated {
		up = s.input(cols, u)
	}
	s.run(func(v compute.Verbs) { v.Activate(dst, gate, up, clampedSwiGLU) })
	s.keep("activated", dst, func(bounds []float64, _ []float32, r int) {
		for c := range bounds {
			at := r*cols + c
			bounds[c] = 4*smoothTolerance*math.Abs(min(float64(g[at]), float64(clampedSwiGLU.Limit))) + tiny
			if gated {
				bounds[c] *= 1 + math.Abs(ref.Factor(clampedSwiGLU, float64(u[at])))
			}
		}
	})
}

// expertCase is one Experts operation.
type expertCase struct {
	gate, up, down  quant.Type
	embd, ff        int
	used, n         int
	gated, biased   bool
	fused, before   bool
	act             compute.Activation
	normal          bool // operands that int8 and bfloat16 only approximate
	route           string
	together, apart bool // all tokens choose the same experts, or each its own as far as there are
	tabled          bool // matrices hold some of the experts only, by a table
	exact           bool
	predicted       int   // tenths of the neurons that predictors choose; 0: there are no predictors. Neurons that no token chooses are NaN
	zeros           zeros // neurons with gates, or ups without a gate, far below zero; all others are far above. Only for biased layers
}

// zeros names the neurons of an expert that are zero.
type zeros int

const (
	someZeros zeros = iota // as it comes
	mostZeros              // except every tenth; the factors of their gates are NaN
	allZeros
	noZeros
)

// farFromZero is larger than any product of the tests' numbers.
const farFromZero = 1e4

// offset is added to the bias that decides on neuron i.
func (z zeros) offset(i int) float32 {
	switch {
	case z == noZeros || z == mostZeros && i%10 == 0:
		return farFromZero
	case z == someZeros:
		return 0
	}
	return -farFromZero
}

func expertScripts() (all []script) {
	for _, cols := range []int{1, 7, 96} {
		for _, gated := range []bool{false, true} {
			all = append(all, script{name: fmt.Sprintf("ClampedSwiGLU/%d columns/gated %t", cols, gated), tokens: 19, play: func(s *stage) { playClamped(s, cols, gated) }})
		}
	}
	silu := compute.Activation{Kind: compute.SiLU}
	add := func(name string, n int, c expertCase) {
		if c.route == "" {
			c.route = "softmax, normalised"
		}
		all = append(all, script{name: fmt.Sprintf("Experts/%s/%d tokens", name, n), tokens: n, play: func(s *stage) { playExperts(s, c) }})
	}
	same := func(t quant.Type, c expertCase) expertCase {
		c.gate, c.up, c.down = t, t, t
		return c
	}
	for _, typ := range quant.Types() {
		wide := wideFor(typ)
		c := same(typ, expertCase{embd: wide, ff: wide, used: 2, n: 3, gated: true, act: silu})
		if typ.Like() != typ {
			c.embd, c.ff = 512, 256
			add(typ.String()+"/gated", 5, c)
			continue
		}
		add(typ.String()+"/gated", 5, c)
		if !typ.Parted() || typ == quant.MXFP4 {
			add(typ.String()+"/gated", 33, c)
			ungated := c
			ungated.gated, ungated.biased, ungated.act = false, true, compute.Activation{Kind: compute.ReLU2}
			add(typ.String()+"/ungated", 5, ungated)
		}
	}
	for _, n := range []int{5, 33} { // a single token is a step of each, too
		c := same(quant.Q4_0, expertCase{embd: 64, ff: 96, used: 3, n: 8, gated: true, act: silu})
		with := func(change func(c *expertCase)) expertCase {
			changed := c
			change(&changed)
			return changed
		}
		add("shapes/biases", n, with(func(c *expertCase) { c.biased = true }))
		add("shapes/fused", n, with(func(c *expertCase) { c.fused = true }))
		add("shapes/fused with biases", n, with(func(c *expertCase) { c.fused, c.biased = true, true }))
		add("shapes/before", n, with(func(c *expertCase) { c.before, c.biased, c.route = true, true, "sigmoid" }))
		add("shapes/normal", n, with(func(c *expertCase) { c.normal = true }))
		add("shapes/one", n, with(func(c *expertCase) { c.used, c.n = 1, 1 }))
		add("shapes/all", n, with(func(c *expertCase) { c.used, c.n, c.route = 8, 8, "sigmoid" }))
		add("shapes/tabled", n, with(func(c *expertCase) { c.tabled = true }))
		add("shapes/tabled, fused with biases", n, with(func(c *expertCase) { c.tabled, c.fused, c.biased = true, true, true }))
		add("shapes/tabled, biases", n, with(func(c *expertCase) { c.tabled, c.biased, c.before, c.n = true, true, true, 40 }))
		add("shapes/together", n, with(func(c *expertCase) { c.together = true }))
		add("shapes/apart", n, with(func(c *expertCase) { c.apart, c.n, c.embd = true, 40, 32 }))
		add("shapes/many", n, with(func(c *expertCase) { c.used, c.n, c.embd, c.ff = 8, 128, 32, 32 }))
		add("shapes/wide", n, with(func(c *expertCase) { c.embd, c.ff, c.used, c.n = 416, 352, 2, 3 }))
		add("mixed/K and float", n, with(func(c *expertCase) {
			c.gate, c.up, c.down, c.embd, c.ff, c.used, c.n = quant.Q4_K, quant.F32, quant.Q6_K, 256, 256, 2, 3
		}))
		add("mixed/float and blocks", n, with(func(c *expertCase) { c.gate, c.up, c.down = quant.F16, quant.Q8_0, quant.BF16 }))
		for _, act := range append(activations(), clampedSwiGLU) {
			name := "clamped SwiGLU"
			if act.Kind != compute.ClampedSwiGLU {
				name = named(act)
			}
			if n != 33 {
				add("activations/"+name, n, with(func(c *expertCase) {
					c.act, c.biased, c.gate, c.up, c.down = act, true, quant.F32, quant.F32, quant.F32
				}))
			}
		}
	}
	return append(append(all, exactScripts()...), predictedScripts()...)
}

// exactScripts are experts that skip neurons that are zero.
func exactScripts() (all []script) {
	add := func(name string, n int, typ quant.Type, change func(c *expertCase)) {
		wide := wideFor(typ)
		c := expertCase{
			gate: typ, up: typ, down: typ, embd: wide, ff: wide, used: 2, n: 3, gated: true, exact: true, act: compute.Activation{Kind: compute.ReLU}, route: "softmax, normalised",
		}
		change(&c)
		all = append(all, script{
			name: fmt.Sprintf("Experts/exact, %s/%d tokens", name, n), tokens: n, rough: true, pinnedApart: true, play: func(s *stage) { playExperts(s, c) },
		})
	}
	with := func(z zeros) func(c *expertCase) {
		return func(c *expertCase) { c.biased, c.zeros = true, z }
	}
	const n = 33 // fewer tokens are parts of this step: see companies
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q8_0, quant.Q4_1, quant.Q4_K} {
		add(typ.String()+"/most are zero", n, typ, with(mostZeros))
	}
	for _, typ := range []quant.Type{quant.F32, quant.Q4_0} {
		name := func(s string) string { return typ.String() + ", " + s }
		add(name("zeros")+"/half", n, typ, func(*expertCase) {})
		add(name("zeros")+"/all", n, typ, with(allZeros))
		add(name("zeros")+"/none", n, typ, with(noZeros))
		add(name("shapes")+"/many", n, typ, func(c *expertCase) { c.used, c.n, c.embd, c.ff = 4, 16, 32, 32 })
		add(name("shapes")+"/table", n, typ, func(c *expertCase) { c.biased, c.tabled, c.n, c.zeros = true, true, 7, mostZeros })
		add(name("shapes")+"/one", n, typ, func(c *expertCase) { c.used, c.n = 1, 1 })
		add(name("shapes")+"/fused", n, typ, func(c *expertCase) { c.fused, c.biased, c.zeros = true, true, mostZeros })
		add(name("shapes")+"/before", n, typ, func(c *expertCase) { c.before, c.biased, c.route = true, true, "sigmoid" })
	}
	add("Q8_0, shapes/wide", n, quant.Q8_0, func(c *expertCase) { c.embd, c.ff, c.n = 416, 352, 2 })
	for _, act := range activations() {
		for _, gated := range []bool{true, false} {
			add(fmt.Sprintf("activations/%s, gated %t", named(act), gated), 5, quant.F32, func(c *expertCase) { c.act, c.gated, c.biased = act, gated, true })
		}
	}
	return all
}

// predictedScripts are experts with predictors that choose neurons.
func predictedScripts() (all []script) {
	add := func(name string, n int, typ quant.Type, tenths int, change func(c *expertCase)) {
		wide := wideFor(typ)
		c := expertCase{
			gate: typ, up: typ, down: typ, embd: wide, ff: wide, used: 2, n: 3, gated: true, exact: true, biased: true, predicted: tenths,
			act: compute.Activation{Kind: compute.DReLU}, route: "softmax, normalised",
		}
		change(&c)
		all = append(all, script{
			name: fmt.Sprintf("Experts/predicted, %s/%d tokens", name, n), tokens: n, rough: true, pinnedApart: true, play: func(s *stage) { playExperts(s, c) },
		})
	}
	same := func(*expertCase) {}
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.Q4_0, quant.Q8_0, quant.Q4_K} {
		add(typ.String()+"/a tenth", 33, typ, 1, same)
	}
	for _, tenths := range []int{4, 9, 10} {
		add(fmt.Sprintf("share/%d tenths", tenths), 33, quant.Q4_0, tenths, same)
	}
	add("shapes/ungated", 33, quant.F32, 2, func(c *expertCase) { c.gated, c.act.Kind = false, compute.ReLU2 })
	add("shapes/silu", 33, quant.F32, 2, func(c *expertCase) { c.act.Kind = compute.SiLU })
	add("shapes/many", 33, quant.F32, 2, func(c *expertCase) { c.used, c.n, c.embd, c.ff = 4, 16, 32, 32 })
	add("shapes/together", 33, quant.Q4_0, 1, func(c *expertCase) { c.together = true })
	add("shapes/table", 33, quant.Q4_0, 2, func(c *expertCase) { c.tabled, c.n = true, 7 })
	add("shapes/fused", 33, quant.F32, 2, func(c *expertCase) { c.fused = true })
	add("shapes/before", 33, quant.F32, 2, func(c *expertCase) { c.before, c.route = true, "sigmoid" })
	return all
}

func playExperts(s *stage, c expertCase) {
	logits := s.logits(c.n)
	for i := range logits {
		switch t, e := i/c.n, i%c.n; {
		case c.together:
			logits[i] = logits[e]
		case c.apart:
			logits[i] = -float32((e-t*c.used%c.n+c.n)%c.n) / 8
		}
	}
	how := routes()[c.route]
	choice := s.route(logits, c.used, c.n, nil, nil, how)
	l := newExpertLayers(s, c, logits, how)
	in, out := s.input(c.embd, l.x), s.output(c.embd)
	var count compute.NeuronCount
	bins := compute.NeuronBins{On: true, Neurons: c.n, Counts: make([]uint32, c.n)}
	l.w.Count, l.w.Bins = &count, &bins
	s.run(func(v compute.Verbs) { v.Experts(out, in, choice, l.w) })
	s.keep("output", out, l.bound)
	s.keepTotal("count of tokens and neurons", []float32{float32(count.Tokens), float32(count.Predicted)}, exact)
	if c.zeros != someZeros { // else rounded weights may turn a sign
		s.keepTotal("count of gated and active neurons", []float32{float32(count.Gated), float32(count.Active)}, exact)
	}
	var uses []float32
	for _, n := range bins.Counts {
		uses = append(uses, float32(n))
	}
	s.keepTotal("uses of experts", uses, exact)
}

// expertLayers are a layer's experts in plain numbers.
type expertLayers struct {
	expertCase
	w      compute.ExpertWeights
	x      []float32 // [n, embd]
	layers []layer   // [n]
	chosen [][]int   // [tokens]
	weight [][]float64
	by     float64
}

// table has no place for every third expert, nor for the last one. The others are in no order, and one place holds
// none.
func (c *expertCase) table() *compute.ExpertTable {
	if !c.tabled {
		return nil
	}
	t := &compute.ExpertTable{At: make([]int32, c.n)}
	for e := range t.At {
		t.At[e] = compute.Absent
		if e%3 != 1 {
			t.At[e] = int32(t.Held)
			t.Held++
		}
	}
	for e := range t.At {
		if t.At[e] != compute.Absent {
			t.At[e] = int32(t.Held) - t.At[e]
		}
	}
	t.Held++
	t.At[c.n-1] = int32(t.Held)
	return t
}

func newExpertLayers(s *stage, c expertCase, logits []float32, how compute.Routing) *expertLayers {
	l := &expertLayers{expertCase: c}
	l.w = compute.ExpertWeights{Fused: c.fused, Before: c.before, Exact: c.exact, Act: c.act, Table: c.table()}
	held := l.w.Holds(c.n)
	for t := range s.all {
		chosen, weight := ref.Chosen(logits[t*c.n:][:c.n], nil, c.used, how)
		l.chosen, l.weight = append(l.chosen, chosen), append(l.weight, weight)
	}
	stack := func(typ quant.Type, rows, cols int, exact compute.Use) weight {
		values := s.normal
		if !c.normal {
			values = func(n int) []float32 { return s.sharp(typ, n) }
		}
		use, n := compute.Dense, 0
		if c.exact {
			use = exact
		}
		if use == compute.Columns {
			n = held
		}
		return s.stacked(typ, n, held*rows, cols, values(held*rows*cols), use, nil)
	}
	gate, up, gateBias, upBias, downBias := weight{}, weight{}, []float32(nil), []float32(nil), []float32(nil)
	upRows := c.ff
	if c.fused {
		upRows *= 2
	}
	up = stack(c.up, upRows, c.embd, compute.Rows)
	l.w.Up = up.Matrix
	if c.gated && !c.fused {
		gate = stack(c.gate, c.ff, c.embd, compute.Rows)
		l.w.Gate = gate.Matrix
	}
	down := stack(c.down, c.embd, c.ff, compute.Columns)
	l.w.Down = down.Matrix
	if c.biased {
		upBias, downBias = s.normal(c.n*upRows), s.normal(c.n*c.embd)
		if gate.Matrix != nil {
			gateBias = s.normal(c.n * c.ff)
		}
		l.openNeurons(gateBias, upBias)
		l.w.UpBias, l.w.DownBias = s.vector(upBias), s.vector(downBias)
		if gate.Matrix != nil {
			l.w.GateBias = s.vector(gateBias)
		}
	}
	if c.predicted > 0 {
		x, fc1, fc2 := s.predictor(c.gate, held, c.embd, c.ff, func(i, quarter int) bool { return c.chooses(i%c.ff, quarter) })
		l.x, l.w.FC1, l.w.FC2 = x, fc1.Matrix, fc2.Matrix
	} else if l.x = s.eights(s.all, c.embd); c.normal {
		l.x = s.normal(s.all * c.embd)
	}
	for e := range c.n {
		one := layer{sparseCase: sparseCase{embd: c.embd, ff: c.ff, gated: c.gated, act: c.act, columns: true}, x: l.x, long: l.exact && s.all > s.few}
		at := l.w.At(e)
		if at == compute.Absent {
			l.layers = append(l.layers, one)
			continue
		}
		firstGate, firstUp := l.w.First(at, c.ff)
		gateOfBias, upOfBias := l.w.First(e, c.ff)
		one.upW, one.upBias = part(up, firstUp, c.ff), cut(upBias, upOfBias, c.ff)
		if c.fused {
			one.gateW, one.gateBias = part(up, firstGate, c.ff), cut(upBias, gateOfBias, c.ff)
		} else if c.gated {
			one.gateW, one.gateBias = part(gate, firstGate, c.ff), cut(gateBias, gateOfBias, c.ff)
		}
		one.downW, one.downBias = part(down, at*c.embd, c.embd), cut(downBias, e*c.embd, c.embd)
		if c.predicted > 0 {
			one.members = func(t, i int) bool { return c.chooses(i, t%4) }
		}
		if c.before {
			one.scaled = func(int) float64 { return l.by }
		}
		l.layers = append(l.layers, one)
	}
	return l
}

// chooses reports whether predictors choose neuron i for tokens of a quarter.
func (c *expertCase) chooses(i, quarter int) bool { return (i*7+quarter*3)%10 < c.predicted }

// chosenSometimes reports whether predictors choose neuron i for some token, or there are none.
func (c *expertCase) chosenSometimes(i int) bool {
	for quarter := range 4 {
		if c.predicted == 0 || c.chooses(i, quarter) {
			return true
		}
	}
	return false
}

// openNeurons chooses biases that make the intended neurons zero, and NaN those that are never chosen.
func (l *expertLayers) openNeurons(gateBias, upBias []float32) {
	for e := range l.n {
		firstGate, firstUp := l.w.First(e, l.ff)
		for i := range l.ff {
			offset := l.zeros.offset(i)
			switch {
			case l.fused:
				upBias[firstGate+i] += offset
			case gateBias != nil:
				gateBias[firstGate+i] += offset
			default:
				upBias[firstUp+i] += offset
			}
			if l.gated && l.zeros == mostZeros && offset < 0 || !l.chosenSometimes(i) {
				upBias[firstUp+i] = float32(math.NaN())
			}
		}
	}
}

// part returns some rows of w as a weight.
func part(w weight, from, rows int) weight {
	m := *w.Matrix
	m.Rows = rows
	return weight{&m, w.values[from*m.Cols:][:rows*m.Cols], w.halves, w.bfloats}
}

// cut returns n elements of x from an index on; nil if x is.
func cut(x []float32, from, n int) []float32 {
	if x == nil {
		return nil
	}
	return x[from:][:n]
}

// bound adds up what a token's experts may differ by, and their weights.
func (l *expertLayers) bound(bounds []float64, _ []float32, t int) {
	clear(bounds)
	of, masses := make([]float64, len(bounds)), make([]float64, len(bounds))
	for k, e := range l.chosen[t] {
		by := math.Abs(l.weight[t][k])
		if l.by = by; l.before {
			by = 1
		}
		if l.w.At(e) == compute.Absent {
			continue
		}
		l.layers[e].boundOf(of, masses, t)
		for j := range bounds {
			bounds[j] += by * (of[j] + (weightTolerance+sumTolerance)*masses[j])
		}
	}
}
