package placement

import (
	"cmp"
	"math"
	"slices"
)

// Solve places m on the machine so that a token takes the least time that the search finds; docs/placement.md says how
// near that is to the best placement. It fails on what Check refuses, and if parts that are pinned to a GPU do not fit.
// Otherwise, if nothing fits, everything is in RAM.
func Solve(m Model, on Machine) (Plan, error) {
	if err := m.Check(); err != nil {
		return Plan{}, err
	}
	if err := on.Check(); err != nil {
		return Plan{}, err
	}
	place := func() (Plan, error) {
		places, err := newMultiGPU(&m, &on).places()
		if err != nil {
			return Plan{}, err
		}
		return priceStep(&m, &on, places, 1)
	}
	best, err := place()
	if err != nil || best.dear(&on) == 0 {
		return best, err
	}
	next := best
	for range dearer {
		last := on.dear
		if on.dear = next.dear(&on); math.Abs(on.dear-last) <= 0.01*last {
			break
		}
		if next, err = place(); err != nil {
			return best, nil
		}
		if next.before(&best) {
			best = next
		}
	}
	return best, nil
}

// dearer is how often a model is placed again, at most, because RAM has room for other units than when its bytes were
// priced.
const dearer = 6

// before reports whether p is the better plan: it fits, or lacks less, or is faster.
func (p *Plan) before(q *Plan) bool {
	if p.Disk.Lacks != q.Disk.Lacks {
		return p.Disk.Lacks < q.Disk.Lacks
	}
	return p.Seconds < q.Seconds
}

// solver places consecutive layers, from RAM back to RAM, on one GPU.
type solver struct {
	on     *Machine
	gpu    int
	curves []curve
	budget int64 // without overhead
	fixed  [][len(modes)]fixed
}

// fixed holds a layer's cost in a mode, in seconds and bytes. The units' own cost is included if the mode takes none or
// all of them.
type fixed struct {
	seconds float64
	bytes   int64
}

// assignment is a mode for each layer.
type assignment []int8

func newSolver(on *Machine, gpu int, curves []curve) *solver {
	g := &on.GPUs[gpu]
	s := &solver{on: on, gpu: gpu, curves: curves, budget: g.Budget - g.Overhead, fixed: make([][len(modes)]fixed, len(curves))}
	for l := range curves {
		for i, m := range modes {
			s.fixed[l][i] = m.fixed(&curves[l], on, g)
		}
	}
	return s
}

// fixed returns the mode's cost; price has the same terms for a single place.
func (m mode) fixed(c *curve, on *Machine, g *GPU) fixed {
	var f fixed
	if !m.possible(c) {
		f.seconds = math.Inf(1)
		return f
	}
	host, gpu := on.speeds(), g.speeds()
	read := func(bytes int64, onGPU bool, part func(*Speeds) Rate) {
		s := &host
		if onGPU {
			f.bytes += bytes
			s = &gpu
		} else {
			f.seconds += on.dear * float64(bytes)
		}
		f.seconds += part(s).seconds(float64(bytes))
	}
	read(c.y.Attention+c.y.KV, m.attention, c.y.attention)
	if !m.attention {
		f.seconds += on.dear * float64(c.y.Expanded)
	}
	read(c.y.Predictor, m.predictor, func(s *Speeds) Rate { return s.Predictor })
	switch m.units {
	case none:
		f.seconds += c.units(0)
	case all:
		f.seconds += c.units(c.n)
		f.bytes += c.y.Units.Size * int64(c.n)
	}
	if m != modes[inRAM] {
		f.seconds += g.launch() + on.HandOff*handOffs(m.attention, m.units == all, c.y.Predictor > 0 && !m.predictor)
	}
	return f
}

// solve returns the best assignment found, with the hot counts of its split layers, and its time.
func (s *solver) solve() (assignment, []int, float64) {
	best := s.least()
	hot, seconds := s.fill(best)
	if s.budget <= 0 || len(s.curves) == 0 {
		return best, hot, seconds
	}
	high, low := s.bracket()
	a, b := s.cheapest(high), s.cheapest(low)
	for _, start := range []assignment{a, b, s.between(a, b), s.run()} {
		if as, ks, t := s.improve(start, high); t < seconds {
			best, hot, seconds = as, ks, t
		}
	}
	return best, hot, seconds
}

// least returns the assignment with the fewest bytes on the GPU: only what is pinned there.
func (s *solver) least() assignment {
	return s.most(func(bytes int64) int64 { return -bytes })
}

// full returns the assignment with the most bytes on the GPU: all but what is pinned to RAM.
func (s *solver) full() assignment {
	return s.most(func(bytes int64) int64 { return bytes })
}

// most returns the possible mode with the greatest worth, without modes that split units; the first of equal ones. If
// none is possible it returns the first.
func (s *solver) most(worth func(bytes int64) int64) assignment {
	a := make(assignment, len(s.curves))
	for l := range a {
		best := int64(math.MinInt64)
		for m, f := range s.fixed[l] {
			if w := worth(f.bytes); modes[m].units != some && !math.IsInf(f.seconds, 1) && w > best {
				best, a[l] = w, int8(m)
			}
		}
	}
	return a
}

// between returns the fastest assignment that is a on one side of a layer and b on the other. If many equal layers
// change at one price, a fits with much to spare and b not at all.
func (s *solver) between(a, b assignment) assignment {
	best, seconds := a, math.Inf(1)
	for l := range a {
		if a[l] == b[l] {
			continue
		}
		for _, mixed := range []assignment{slices.Concat(a[:l], b[l:]), slices.Concat(b[:l], a[l:])} {
			if _, t := s.fill(mixed); t < seconds {
				best, seconds = mixed, t
			}
		}
	}
	return best
}

// run returns the fastest assignment of consecutive whole layers on the GPU, as many as fit from each layer on, and the
// others in RAM. This is placing by layers, starting at any layer.
func (s *solver) run() assignment {
	least, full := s.least(), s.full()
	best, seconds := least, math.Inf(1)
	for from := range s.curves {
		a := slices.Clone(least)
		left := s.budget
		for l := range a {
			left -= s.fixed[l][a[l]].bytes
		}
		for l := from; l < len(a); l++ {
			if left += s.fixed[l][least[l]].bytes - s.fixed[l][full[l]].bytes; left < 0 {
				break
			}
			a[l] = full[l]
		}
		if _, t := s.fill(a); t < seconds {
			best, seconds = a, t
		}
	}
	return best
}

// bound returns what no placement is faster than: at any price, the cheapest assignment less the price of the whole
// budget.
func (s *solver) bound() float64 {
	if s.budget <= 0 || len(s.curves) == 0 {
		_, seconds := s.fill(s.least())
		return seconds
	}
	price, _ := s.bracket()
	if price <= leastPrice {
		price = 0
	}
	return s.after(s.values(price))[0][0] - price*float64(s.budget)
}

// The bounds of the price of a byte on the GPU: the first is far below anything that matters in a token's time, the
// second far above what any byte can save. The steps halve the distance between their logarithms.
const (
	leastPrice = 1e-18 // seconds a byte
	mostPrice  = 1.0
	priceSteps = 48
)

// bracket finds two neighbouring prices: at high the worthwhile parts fit the GPU, at low they no longer do (or
// everything fits).
func (s *solver) bracket() (high, low float64) {
	high, low = mostPrice, leastPrice
	if s.taken(s.cheapest(low), low) <= s.budget {
		return low, low
	}
	for range priceSteps {
		mid := math.Sqrt(high * low)
		if s.taken(s.cheapest(mid), mid) <= s.budget {
			high = mid
		} else {
			low = mid
		}
	}
	return high, low
}

// taken returns the bytes of a at a price.
func (s *solver) taken(a assignment, price float64) int64 {
	var n int64
	for l, m := range a {
		n += s.fixed[l][m].bytes
		if modes[m].units == some {
			n += s.curves[l].y.Units.Size * int64(s.curves[l].worth(price))
		}
	}
	return n
}

// value returns the time of layer l in mode m, with what its bytes are worth at the price.
func (s *solver) value(l, m int, price float64) float64 {
	f := &s.fixed[l][m]
	v := f.seconds + price*float64(f.bytes)
	if modes[m].units == some && !math.IsInf(v, 1) {
		c := &s.curves[l]
		k := c.worth(price)
		v += c.units(k) + price*float64(c.y.Units.Size)*float64(k)
	}
	return v
}

// home returns where a layer in mode m leaves the token: 0 in RAM, 1 on the GPU.
func home(m int) int {
	if modes[m].attention {
		return 1
	}
	return 0
}

// cheapest returns the assignment of least time and price: one pass over the layers, for the two homes a token can
// have.
func (s *solver) cheapest(price float64) assignment {
	v := s.values(price)
	after := s.after(v)
	a := make(assignment, len(v))
	at := 0
	for l := range v {
		best := math.Inf(1)
		for m := range modes {
			if t := s.moves(at, home(m)) + v[l][m] + after[l+1][home(m)]; t < best {
				best, a[l] = t, int8(m)
			}
		}
		at = home(int(a[l]))
	}
	return a
}

func (s *solver) moves(from, to int) float64 {
	if from == to {
		return 0
	}
	return s.on.HandOff / 2
}

func (s *solver) values(price float64) [][len(modes)]float64 {
	v := make([][len(modes)]float64, len(s.curves))
	for l := range v {
		for m := range modes {
			v[l][m] = s.value(l, m, price)
		}
	}
	return v
}

// after[l][h] is the least value of the layers from l on, for a token that comes from home h and ends in RAM.
// [layers+1]
func (s *solver) after(v [][len(modes)]float64) [][2]float64 {
	out := make([][2]float64, len(v)+1)
	out[len(v)] = [2]float64{0, s.moves(1, 0)}
	for l := len(v) - 1; l >= 0; l-- {
		for h := range out[l] {
			out[l][h] = math.Inf(1)
			for m := range modes {
				out[l][h] = min(out[l][h], s.moves(h, home(m))+v[l][m]+out[l+1][home(m)])
			}
		}
	}
	return out
}

// move is another mode for one layer, and the least that every assignment with it loses on the bound.
type move struct {
	layer int
	mode  int8
	loss  float64
}

// promising returns the moves that can be part of an assignment faster than seconds, those that lose least first: by
// Lagrangian duality a mode that is not the cheapest adds its loss to the bound.
func (s *solver) promising(price, seconds float64) []move {
	v := s.values(price)
	after := s.after(v)
	bound := after[0][0] - price*float64(s.budget)
	var list []move
	before := [2]float64{0, math.Inf(1)}
	for l := range v {
		next := [2]float64{math.Inf(1), math.Inf(1)}
		for m := range modes {
			h := home(m)
			t := min(before[0]+s.moves(0, h), before[1]+s.moves(1, h)) + v[l][m]
			next[h] = min(next[h], t)
			if loss := t + after[l+1][h] - after[0][0]; bound+loss < seconds {
				list = append(list, move{l, int8(m), loss})
			}
		}
		before = next
	}
	slices.SortStableFunc(list, func(a, b move) int { return cmp.Compare(a.loss, b.loss) })
	return list
}
