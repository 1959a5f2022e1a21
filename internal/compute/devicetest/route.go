package devicetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// weightTolerance is the share of an expert's weight that its exponential, the sum of all and the division by it may
// cost in float32.
const weightTolerance = 4e-6

// routes are ways to choose experts, by name.
func routes() map[string]compute.Routing {
	return map[string]compute.Routing{
		"softmax":              {Score: compute.Softmax, Scale: 1},
		"softmax, normalised":  {Score: compute.Softmax, Normalised: true, MinSum: 6e-5, Scale: 1},
		"sigmoid":              {Score: compute.Sigmoid, Scale: 2.5},
		"sigmoid, normalised":  {Score: compute.Sigmoid, Normalised: true, MinSum: 1e-20, Scale: 1.8},
		"large least sum":      {Score: compute.Softmax, Normalised: true, MinSum: 100, Scale: 1},
		"softmax of chosen":    {Score: compute.SoftmaxChosen, Scale: 1},
		"root of softplus":     {Score: compute.RootSoftplus, Normalised: true, MinSum: 1e-20, Scale: 1.5},
		"groups":               {Score: compute.Sigmoid, Groups: 4, GroupsUsed: 2, Normalised: true, MinSum: 1e-20, Scale: 2.5},
		"groups by their best": {Score: compute.Softmax, Groups: 4, GroupsUsed: 2, GroupsByBest: true, Scale: 16},
		"groups of softmax":    {Score: compute.Softmax, Groups: 4, GroupsUsed: 3, Scale: 16},
	}
}

// routeNames are the names of routes in order.
func routeNames() (names []string) {
	for name := range routes() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func routeScripts() (all []script) {
	for _, name := range routeNames() {
		for _, shape := range []struct{ used, n int }{{1, 8}, {2, 8}, {8, 64}, {4, 4}, {6, 160}} {
			how := routes()[name]
			if how.Check(shape.used, shape.n) != nil {
				continue
			}
			const n = 33 // fewer tokens are parts of this step: see companies
			for _, biased := range []bool{false, true} {
				all = append(all, script{
					name: fmt.Sprintf("Route/%s/%d of %d/biased %t/%d tokens", name, shape.used, shape.n, biased, n), tokens: n,
					play: func(s *stage) { playRoute(s, shape.used, shape.n, biased, false, how) },
				})
			}
			all = append(all, script{
				name: fmt.Sprintf("Route/%s/%d of %d/factors/%d tokens", name, shape.used, shape.n, n), tokens: n,
				play: func(s *stage) { playRoute(s, shape.used, shape.n, false, true, how) },
			})
		}
	}
	for _, n := range []int{1, 33} {
		all = append(all, script{name: fmt.Sprintf("Route/ties/%d tokens", n), tokens: n, play: playTies})
		all = append(all, script{name: fmt.Sprintf("Route/no numbers/%d tokens", n), tokens: n, play: playNoNumbers})
		all = append(all, script{name: fmt.Sprintf("Route/given/%d tokens", n), tokens: n, play: playGiven})
		for _, cols := range []int{1, 33, 4096} {
			for _, act := range ofAttention() {
				all = append(all, script{name: fmt.Sprintf("GateRows/%s/%d columns/%d tokens", named(act), cols, n), tokens: n, play: func(s *stage) {
					x, logits := s.inOut(cols, s.uneven(s.all, cols)), s.input(1, s.normal(s.all))
					s.run(func(v compute.Verbs) { v.GateRowsBy(x, logits, act.Kind) })
					s.keep("gated", x, element(smoothTolerance))
				}})
			}
		}
	}
	const heads, head, n = 6, 24, 33 // rows of heads, each with its own logit
	for _, act := range ofAttention() {
		all = append(all, script{name: fmt.Sprintf("GateRows/%s/%d heads of %d/%d tokens", named(act), heads, head, n), tokens: n, play: func(s *stage) {
			x, logits := s.inOut(heads*head, s.uneven(s.all, heads*head)), s.input(heads, s.normal(s.all*heads))
			s.run(func(v compute.Verbs) { v.GateRowsBy(x.Split(head), logits.Split(1), act.Kind) })
			s.keep("gated", x, element(smoothTolerance))
		}})
	}
	return all
}

// logits returns a token's logits so far apart that no rounding changes their order, or the order of their scores.
// [all, n]
func (s *stage) logits(n int) []float32 {
	order := s.normal(s.all * n)
	logits := make([]float32, s.all*n)
	for t := range s.all {
		by := everyone(n)
		slices.SortFunc(by, func(a, b int32) int {
			if order[t*n+int(a)] < order[t*n+int(b)] {
				return -1
			}
			return 1
		})
		for i, e := range by {
			logits[t*n+int(e)] = 8*(float32(i)+0.25)/float32(n) - 4
		}
	}
	return logits
}

// biases are multiples of an eighth plus little, so that groups' sums and experts' ranks stay apart.
func (s *stage) biases(n int) []float32 {
	b := s.normal(n)
	for i := range b {
		b[i] = float32(math.Round(float64(b[i]) * 4))
	}
	return b
}

// playRoute shows the weight of every expert: each adds a one to its own output.
func playRoute(s *stage, used, n int, biased, factored bool, how compute.Routing) {
	logits := s.logits(n)
	var bias, factors *compute.Vector
	if biased {
		bias = s.vector(s.biases(n))
	}
	if factored {
		factors = s.vector(s.normal(n))
	}
	keepWeights(s, "weights", s.route(logits, used, n, bias, factors, how), element(weightTolerance))
}

// playGiven gives tokens their experts, some twice.
func playGiven(s *stage) {
	const used, n = 3, 8
	given := make([]float32, s.all*used)
	for i := range given {
		given[i] = float32(i * i % n)
	}
	c, err := s.dev.Choice(len(s.step)+guardRows, used, n)
	s.must(err)
	c = c.First(len(s.step))
	in, chosen := s.input(n, s.logits(n)), s.input(used, given)
	s.run(func(v compute.Verbs) { v.RouteTo(c, in, chosen, routes()["root of softplus"]) })
	keepWeights(s, "weights", c, element(weightTolerance))
}

// route does a Route of logits [all, n].
func (s *stage) route(logits []float32, used, n int, bias, factors *compute.Vector, how compute.Routing) compute.Choice {
	c, err := s.dev.Choice(len(s.step)+guardRows, used, n)
	s.must(err)
	c = c.First(len(s.step))
	in := s.input(n, logits)
	s.run(func(v compute.Verbs) { v.Route(c, in, bias, factors, how) })
	return c
}

// keepWeights keeps each token's weights by expert, by experts that are only biases.
func keepWeights(s *stage, label string, c compute.Choice, b bound) {
	out := experts(s, c)
	s.keep(label, out, b)
}

// experts returns each token's weights by expert.
func experts(s *stage, c compute.Choice) compute.Tensor {
	const embd, ff = 8, 4
	identity := make([]float32, c.N*c.N)
	for e := range c.N {
		identity[e*c.N+e] = 1
	}
	zeros := func(rows, cols int) *compute.Matrix {
		return s.matrix(quant.F32, rows, cols, make([]float32, rows*cols), compute.Dense).Matrix
	}
	w := compute.ExpertWeights{Up: zeros(c.N*ff, embd), Down: zeros(c.N*c.N, ff), DownBias: s.vector(identity), Act: compute.Activation{Kind: compute.ReLU}}
	x, out := s.input(embd, make([]float32, s.all*embd)), s.output(c.N)
	s.run(func(v compute.Verbs) { v.Experts(out, x, c, w) })
	return out
}

// playTies has many equal logits: the experts with the lower numbers are chosen.
func playTies(s *stage) {
	const n, used = 16, 3
	logits := make([]float32, s.all*n)
	for i := range logits {
		t, e := i/n, i%n
		logits[i] = float32((e*5 + t) % 3)
	}
	keepWeights(s, "weights", s.route(logits, used, n, nil, nil, routes()["softmax, normalised"]), element(weightTolerance))
	keepWeights(s, "one of each", s.route(make([]float32, s.all*n), 1, n, nil, nil, compute.Routing{Score: compute.Sigmoid, Scale: 1}), element(weightTolerance))
}

// playNoNumbers has tokens with NaN and infinities among their logits. Those with NaN have only NaN weights; the others
// are not affected.
func playNoNumbers(s *stage) {
	const n, used = 8, 4
	logits := s.logits(n)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for i := range logits {
		switch t, e := i/n, i%n; {
		case t%4 == 0 && e%3 == 0, t%4 == 1:
			logits[i] = nan
		case t%4 == 2 && e%4 != 1:
			logits[i] = -inf
		}
	}
	for _, name := range routeNames() {
		c := s.route(logits, used, n, nil, nil, routes()[name])
		out := experts(s, c)
		o := output{label: name + ": which are numbers", bound: exact}
		for i := range out.Rows {
			row := slices.Clone(s.read(out, i))
			for j, v := range row {
				if v != v {
					row[j] = 1
				} else {
					row[j] = 0
				}
			}
			o.rows = append(o.rows, row)
		}
		s.kept = append(s.kept, o)
	}
}
