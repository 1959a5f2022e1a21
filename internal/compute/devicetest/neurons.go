package devicetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// choose gives every token of the step the neurons that want(token, neuron) names, by a predictor that says just that:
// token t's input is a one in column t, and fc2's column t its neurons.
func choose(s *stage, neurons int, want func(token, neuron int) bool) compute.Set {
	set, err := s.dev.Set(len(s.step)+guardRows, neurons)
	s.must(err)
	set = set.First(len(s.step))
	predict(s, set, 0, want)
	return set
}

// predict fills set with its first always neurons, and with those after them that want names.
func predict(s *stage, set compute.Set, always int, want func(token, neuron int) bool) {
	n, rows := s.all, set.N-always
	x, fc1, fc2 := make([]float32, n*n), make([]float32, n*n), make([]float32, rows*n)
	for t := range n {
		x[t*n+t], fc1[t*n+t] = 1, 1
		for i := range rows {
			fc2[i*n+t] = -1
			if want(t, always+i) {
				fc2[i*n+t] = 1
			}
		}
	}
	w1, w2 := s.matrix(quant.F32, n, n, fc1, compute.Dense), s.matrix(quant.F32, rows, n, fc2, compute.Dense)
	in, hidden, logits := s.input(n, x), s.output(n), s.output(rows)
	threshold := s.params.Threshold
	s.params.Threshold = 0.5
	s.run(func(v compute.Verbs) { v.Predict(set, in, hidden, logits, w1.Matrix, w2.Matrix) })
	s.params.Threshold = threshold
}

// members keeps which neurons are in the set: each is 1 whatever its input, and owns an output. Sets are the device's
// own, and can be seen in no other way.
func members(s *stage, label string, set compute.Set) {
	ones, identity := make([]float32, set.N), make([]float32, set.N*set.N)
	for i := range ones {
		ones[i], identity[i*set.N+i] = 1, 1
	}
	out := s.place(set.Rows, set.N, nil, false)
	x := s.place(set.Rows, 8, func(int) []float32 { return make([]float32, 8) }, true)
	f := compute.SparseWeights{
		Up: s.matrix(quant.F32, set.N, 8, make([]float32, set.N*8), compute.Rows).Matrix, UpBias: s.vector(ones),
		Down: s.matrix(quant.F32, set.N, set.N, identity, compute.Rows).Matrix,
		Act:  compute.Activation{Kind: compute.ReLU},
	}
	p := s.params
	p.Tokens = everyone(set.Rows)
	s.must(s.dev.Run(compute.Segment{Name: "members", Rows: set.Rows}, &p, func(v compute.Verbs) { v.SparseFFN(out, x, set, f) }))
	s.keep(label, out, exact)
}

func predictScripts() (all []script) {
	for _, typ := range quant.Types() {
		if typ.OnGrid() {
			continue // scores of random blocks may be too near the threshold
		}
		cols := wideFor(typ)
		for _, neurons := range []int{1, 17, 100} {
			for _, n := range []int{5, 33} {
				if (typ.Like() != typ || n == 5) && (n != 5 || neurons != 17) {
					continue
				}
				all = append(all, script{
					name: fmt.Sprintf("Predict/%s/%d neurons/%d tokens", typ, neurons, n), tokens: n,
					play: func(s *stage) { playPredict(s, typ, cols, neurons) },
				})
			}
		}
	}
	for _, threshold := range []float32{3, 2.9999998, 3.0000002, -3, 0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), -1e9} {
		all = append(all, script{name: fmt.Sprintf("Predict/thresholds/%g", threshold), tokens: 4, play: func(s *stage) { playThreshold(s, threshold) }})
	}
	for _, always := range []int{1, 13, 39} {
		all = append(all, script{name: fmt.Sprintf("Predict/always on/%d", always), tokens: 5, play: func(s *stage) { playAlways(s, always) }})
	}
	return append(all, script{name: "Predict/again", tokens: 5, whole: true, play: playSetViews})
}

// playPredict has logits far from the threshold on either side, so that no rounding changes a set. Token t excites
// quarter t%4 of the hidden layer; ReLU makes the others zero.
func playPredict(s *stage, typ quant.Type, cols, neurons int) {
	signs := s.normal(neurons * 4)
	x, w1, w2 := s.predictor(typ, 1, cols, neurons, func(i, quarter int) bool { return signs[i*4+quarter] > 0 })
	set, err := s.dev.Set(len(s.step), neurons)
	s.must(err)
	in, hidden, logits := s.input(cols, x), s.output(cols), s.output(neurons)
	s.run(func(v compute.Verbs) { v.Predict(set, in, hidden, logits, w1.Matrix, w2.Matrix) })
	members(s, "set", set)
}

// predictor returns the predictors of n sets of neurons, one after the other, and their input. Every logit is far from
// zero. It is positive if chosen returns true for its row of fc2 and the token's quarter, which is t%4 for token t.
func (s *stage) predictor(typ quant.Type, n, cols, neurons int, chosen func(i, quarter int) bool) (x []float32, w1, w2 weight) {
	rank := cols
	quarter := func(i, n int) int { return i * 4 / n }
	x = s.normal(s.all * cols)
	fc1, fc2 := s.normal(n*rank*cols), s.normal(n*neurons*rank)
	positive := func(v float32) float32 { return float32(math.Abs(float64(v))) + 0.5 }
	for i := range x {
		x[i] = positive(x[i])
		if quarter(i%cols, cols) != i/cols%4 {
			x[i] = 0
		}
	}
	for i := range fc1 {
		fc1[i] = positive(fc1[i])
		if quarter(i%cols, cols) != quarter(i/cols%rank, rank) {
			fc1[i] *= -1
		}
	}
	for i := range fc2 {
		fc2[i] = positive(fc2[i])
		if !chosen(i/rank, quarter(i%rank, rank)) {
			fc2[i] *= -1
		}
	}
	use := compute.Dense
	if n > 1 {
		use = compute.Rows
	}
	return x, s.matrix(typ, n*rank, cols, fc1, use), s.matrix(typ, n*neurons, rank, fc2, use)
}

// playThreshold uses logits that are small integers: a logit equal to the threshold is included.
func playThreshold(s *stage, threshold float32) {
	const neurons = 9
	identity, fc2 := make([]float32, 16), make([]float32, neurons*4)
	for i := range 4 {
		identity[5*i] = 1
	}
	for i := range fc2 {
		fc2[i] = float32(i/4 - 4) // neuron i's logit is i-4 for every token
	}
	w1, w2 := s.matrix(quant.F32, 4, 4, identity, compute.Dense), s.matrix(quant.F32, neurons, 4, fc2, compute.Dense)
	set, err := s.dev.Set(len(s.step), neurons)
	s.must(err)
	in, hidden, logits := s.input(4, identity), s.output(4), s.output(neurons)
	s.params.Threshold = threshold
	s.run(func(v compute.Verbs) { v.Predict(set, in, hidden, logits, w1.Matrix, w2.Matrix) })
	members(s, "set", set)
}

// playAlways predicts all but the first neurons, which are in every set.
func playAlways(s *stage, always int) {
	const neurons = 40
	set, err := s.dev.Set(len(s.step), neurons)
	s.must(err)
	predict(s, set, always, func(token, neuron int) bool { return (neuron+token)%3 == 0 })
	members(s, "set", set)
}

// playSetViews predicts twice into one set, the second time for its first tokens only.
func playSetViews(s *stage) {
	const neurons = 40
	set, err := s.dev.Set(s.all, neurons)
	s.must(err)
	predict(s, set, 0, func(int, int) bool { return true })
	members(s, "all", set)
	full, step := s.step, s.step[:2]
	s.step = step
	predict(s, set.First(2), 0, func(_, neuron int) bool { return neuron == 7 })
	s.step = full
	members(s, "two tokens have one neuron, the others all", set)
	predict(s, set, 0, func(int, int) bool { return false })
	members(s, "none", set)
}

// sparseCase is one SparseFFN operation.
type sparseCase struct {
	gate, up, down quant.Type
	embd, ff       int
	gated, biased  bool
	act            compute.Activation
	normal         bool                         // operands that int8 and bfloat16 only approximate
	members        func(token, neuron int) bool // nil: all, by a set without memory
	columns        bool                         // down is [n_embd, n_ff], as in plain files
	ordered        bool                         // neurons are loaded in another order than they are stored
}

// sets are subsets of neurons; every token has its own.
func sets() map[string]func(token, neuron int) bool {
	return map[string]func(token, neuron int) bool{
		"none":      func(_, _ int) bool { return false },
		"all":       func(_, _ int) bool { return true },
		"the first": func(_, i int) bool { return i == 0 },
		"one":       func(t, i int) bool { return i == 5+t },
		"a tenth":   func(t, i int) bool { return (i*7+t*3)%10 == 0 },
		"most":      func(t, i int) bool { return (i+t)%10 != 0 },
		"odd ones":  func(t, i int) bool { return t%2 == 0 && i%3 == 0 },
	}
}

func sparseScripts() (all []script) {
	relu := compute.Activation{Kind: compute.ReLU}
	add := func(name string, n int, c sparseCase) {
		all = append(all, script{name: fmt.Sprintf("SparseFFN/%s/%d tokens", name, n), tokens: n, rough: true, pinnedApart: c.columns, play: func(s *stage) { playSparse(s, c) }})
	}
	same := func(t quant.Type, c sparseCase) sparseCase {
		c.gate, c.up, c.down = t, t, t
		return c
	}
	by := sets()
	for _, n := range []int{5, 33, 70} { // a single token is a step of each, too
		for _, typ := range quant.Types() {
			if typ.Like() != typ {
				c := sparseCase{embd: 512, ff: 96, gated: true, act: relu}
				if n == 5 {
					c.members = by["a tenth"]
				}
				if n != 33 {
					add(fmt.Sprintf("%s/96×512 gated", typ), n, same(typ, c))
				}
				continue
			}
			if n == 33 && typ != quant.F32 && typ != quant.F16 && typ != quant.Q4_0 && typ != quant.Q8_0 {
				continue // every length of step is tried with these types
			}
			widths := columns(typ)[1:]
			if typ.Parted() {
				widths = widths[:1] // every width is tried with other types
			}
			for i, embd := range widths {
				ff := []int{17, 96, 320, 33}[i]
				if n == 5 {
					add(fmt.Sprintf("%s/%d×%d gated", typ, ff, embd), n, same(typ, sparseCase{embd: embd, ff: ff, gated: true, act: relu, members: by["a tenth"]}))
				}
				if n == 5 || n == 70 && i%2 == 0 {
					add(fmt.Sprintf("%s/%d×%d ungated", typ, ff, embd), n, same(typ, sparseCase{embd: embd, ff: ff, biased: true, act: relu, members: by["most"]}))
				}
			}
			embd := wideFor(typ)
			if !typ.OnGrid() { // random blocks are not normal
				add(fmt.Sprintf("%s/normal", typ), n, same(typ, sparseCase{embd: embd, ff: 96, gated: true, act: relu, normal: true, members: by["most"]}))
			}
			add(fmt.Sprintf("%s/all neurons, gated", typ), n, same(typ, sparseCase{embd: embd, ff: 96, gated: true, act: relu}))
			add(fmt.Sprintf("%s/all neurons, ungated", typ), n, same(typ, sparseCase{embd: embd, ff: 96, biased: true, act: relu}))
			add(fmt.Sprintf("%s/ordered", typ), n, same(typ, sparseCase{embd: embd, ff: 96, gated: true, act: relu, members: by["odd ones"], ordered: true}))
			ff := wideFor(typ)
			for _, ordered := range []bool{false, true} {
				if ordered && typ.Quantised() {
					continue // columns share scales: a device may refuse
				}
				add(fmt.Sprintf("%s/columns, ordered %t", typ, ordered), n, same(typ, sparseCase{embd: embd, ff: ff, gated: true, act: relu, members: by["a tenth"], columns: true, ordered: ordered}))
				add(fmt.Sprintf("%s/columns, all neurons, ordered %t", typ, ordered), n, same(typ, sparseCase{embd: embd, ff: ff, biased: true, act: relu, columns: true, ordered: ordered}))
			}
		}
		add("mixed/K and float", n, sparseCase{gate: quant.Q4_K, up: quant.F32, down: quant.Q6_K, embd: 256, ff: 64, gated: true, act: relu, members: by["most"]})
		add("mixed/float and blocks", n, sparseCase{gate: quant.F16, up: quant.Q4_0, down: quant.BF16, embd: 288, ff: 64, gated: true, biased: true, act: relu, members: by["most"]})
		add("mixed/columns", n, sparseCase{gate: quant.Q8_0, up: quant.Q4_0, down: quant.Q6_K, embd: 96, ff: 256, gated: true, act: relu, members: by["most"], columns: true})
		if n == 33 {
			continue
		}
		for _, name := range []string{"none", "all", "the first", "one", "a tenth", "most", "odd ones"} {
			add(fmt.Sprintf("sets/%s F16, ungated", name), n, same(quant.F16, sparseCase{embd: 96, ff: 96, biased: true, act: relu, members: by[name]}))
			add(fmt.Sprintf("sets/%s Q4_0, gated", name), n, same(quant.Q4_0, sparseCase{embd: 96, ff: 96, gated: true, biased: true, act: relu, members: by[name]}))
		}
		for _, act := range activations() {
			for _, gated := range []bool{true, false} {
				add(fmt.Sprintf("activations/%s, gated %t", named(act), gated), n, same(quant.Q8_0, sparseCase{embd: 64, ff: 100, gated: gated, biased: true, act: act, members: by["most"]}))
				add(fmt.Sprintf("activations/%s, gated %t, all", named(act), gated), n, same(quant.F32, sparseCase{embd: 64, ff: 100, gated: gated, biased: true, act: act}))
			}
		}
	}
	for _, n := range []int{1, 5, 33, 70} {
		all = append(all, script{name: fmt.Sprintf("SparseFFN/largest gates/%d tokens", n), tokens: n, play: playCut})
	}
	return append(all, adaptedScripts()...)
}

// adaptedScripts are layers with adapters on some of their matrices.
func adaptedScripts() (all []script) {
	by := sets()
	for _, c := range []struct {
		name string
		adaptedCase
	}{
		{"gated, all neurons", adaptedCase{gate: true, up: true, down: true, c: sparseCase{gated: true, act: compute.Activation{Kind: compute.ReLU}}}},
		{"gated, dense", adaptedCase{gate: true, up: true, down: true, c: sparseCase{gated: true, act: compute.Activation{Kind: compute.SiLU}, columns: true}}},
		{"gated, a tenth", adaptedCase{gate: true, up: true, down: true, c: sparseCase{gated: true, act: compute.Activation{Kind: compute.ReLU}, members: by["a tenth"], ordered: true}}},
		{"gate alone, most", adaptedCase{gate: true, c: sparseCase{gated: true, act: compute.Activation{Kind: compute.SiLU}, members: by["most"], columns: true, ordered: true}}},
		{"up alone", adaptedCase{up: true, c: sparseCase{gated: true, biased: true, act: compute.Activation{Kind: compute.ReLU}}}},
		{"down alone, most", adaptedCase{down: true, c: sparseCase{gated: true, act: compute.Activation{Kind: compute.ReLU}, members: by["most"]}}},
		{"ungated, all neurons", adaptedCase{up: true, down: true, c: sparseCase{biased: true, act: compute.Activation{Kind: compute.ReLU2}}}},
		{"ungated, a tenth", adaptedCase{up: true, down: true, c: sparseCase{biased: true, act: compute.Activation{Kind: compute.ReLU}, members: by["a tenth"]}}},
	} {
		for _, n := range []int{1, 5, 70} {
			all = append(all, script{name: fmt.Sprintf("SparseFFN/adapter, %s/%d tokens", c.name, n), tokens: n, pinnedApart: c.down, play: c.play})
		}
	}
	return all
}

// adaptedCase is a float layer with adapters on these matrices.
type adaptedCase struct {
	gate, up, down bool
	c              sparseCase
}

// adaptedTolerance bounds the error of sums of floats, as a share of the largest in a row.
const adaptedTolerance = 1e-4

func (a adaptedCase) play(s *stage) {
	const embd, ff, rank = 64, 96, 32
	c := a.c
	c.ff = ff
	set := compute.Set{Rows: len(s.step), N: ff}
	if c.members != nil {
		set = choose(s, ff, c.members)
	}
	var order []int32
	if c.ordered {
		order = everyone(ff)
		slices.Reverse(order)
	}
	matrix := func(rows, cols int, use compute.Use) *compute.Matrix {
		return s.ordered(quant.F32, rows, cols, s.normal(rows*cols), use, order).Matrix
	}
	f := compute.SparseWeights{Up: matrix(ff, embd, compute.Rows), Act: c.act}
	if f.Down = matrix(ff, embd, compute.Rows); c.columns {
		f.Down = matrix(embd, ff, compute.Columns)
	}
	if c.gated {
		f.Gate = matrix(ff, embd, compute.Rows)
	}
	if c.biased {
		f.DownBias, f.UpBias = s.vector(s.normal(embd)), s.vector(s.normal(ff))
	}
	if a.gate {
		f.Adapter.GateB, f.Adapter.GateLow = matrix(ff, rank, compute.Rows), s.input(rank, s.normal(s.all*rank))
	}
	if a.up {
		f.Adapter.UpB, f.Adapter.UpLow = matrix(ff, rank, compute.Rows), s.input(rank, s.normal(s.all*rank))
	}
	if a.down {
		f.Adapter.DownA, f.Adapter.DownLow = matrix(rank, ff, compute.Columns), s.output(rank)
	}
	x, out := s.input(embd, s.normal(s.all*embd)), s.output(embd)
	s.run(func(v compute.Verbs) { v.SparseFFN(out, x, set, f) })
	s.keep("output", out, ofRow(adaptedTolerance))
	if a.down {
		s.keep("narrow output", f.Adapter.DownLow, ofRow(adaptedTolerance))
	}
}

// cutTolerance bounds the error of an output, as a share of the largest in its row: a gate that rounding puts on the
// other side of the cut adds next to nothing.
const cutTolerance = 1e-4

// playCut keeps a twentieth of the gates.
func playCut(s *stage) {
	const embd, ff = 64, 320
	deviations := float32(1.6448536)
	f := compute.SparseWeights{
		Gate: s.matrix(quant.F32, ff, embd, s.normal(ff*embd), compute.Rows).Matrix, Up: s.matrix(quant.F32, ff, embd, s.normal(ff*embd), compute.Rows).Matrix,
		Down: s.matrix(quant.F32, ff, embd, s.normal(ff*embd), compute.Rows).Matrix,
		Act:  compute.Activation{Kind: compute.GELU}, Cut: &deviations,
	}
	x, out := s.input(embd, s.normal(s.all*embd)), s.output(embd)
	s.run(func(v compute.Verbs) { v.SparseFFN(out, x, compute.Set{Rows: len(s.step), N: ff}, f) })
	s.keep("output", out, ofRow(cutTolerance))
}

func playSparse(s *stage, c sparseCase) {
	set := compute.Set{Rows: len(s.step), N: c.ff}
	if c.members != nil {
		set = choose(s, c.ff, c.members)
	}
	var order []int32
	if c.ordered {
		by := s.normal(c.ff)
		order = everyone(c.ff)
		slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(by[a], by[b]) })
	}
	matrix := func(typ quant.Type, rows, cols int, use compute.Use) weight {
		values := s.normal
		if !c.normal {
			values = func(n int) []float32 { return s.sharp(typ, n) }
		}
		return s.ordered(typ, rows, cols, values(rows*cols), use, order)
	}
	var count compute.NeuronCount
	l := layer{sparseCase: c, order: order, upW: matrix(c.up, c.ff, c.embd, compute.Rows), long: s.all > s.few}
	f := compute.SparseWeights{Up: l.upW.Matrix, Act: c.act, Count: &count}
	if c.columns {
		l.downW = matrix(c.down, c.embd, c.ff, compute.Columns)
	} else {
		l.downW = matrix(c.down, c.ff, c.embd, compute.Rows)
	}
	f.Down = l.downW.Matrix
	if c.gated {
		l.gateW = matrix(c.gate, c.ff, c.embd, compute.Rows)
		f.Gate = l.gateW.Matrix
	}
	if c.biased {
		l.downBias = s.normal(c.embd)
		f.DownBias = s.vector(l.downBias)
		if !c.gated {
			l.upBias = s.normal(c.ff)
			f.UpBias = s.vector(l.upBias)
		}
	}
	l.x = s.eights(s.all, c.embd)
	if c.normal {
		l.x = s.normal(s.all * c.embd)
	}
	x, out := s.input(c.embd, l.x), s.output(c.embd)
	s.run(func(v compute.Verbs) { v.SparseFFN(out, x, set, f) })
	s.keep("output", out, l.bound)
	if c.act.Sparse() && !c.normal && !s.halves { // rounded weights may turn a sign
		s.keepTotal("count of tokens, predicted, gated and active neurons", []float32{float32(count.Tokens), float32(count.Predicted), float32(count.Gated), float32(count.Active)}, exact)
	}
}
