package placement

import (
	"cmp"
	"math"
	"slices"
)

// The search over which layers are touched changes up to this many layers at a time. It ends with the moves that could
// be part of a better assignment, or with its effort: assignments times layers, so that 80 layers take milliseconds.
const (
	mostMoves = 4
	effort    = 20000
)

// improve changes the modes of a few layers at a time for as long as that saves time. An assignment that does not fit
// takes infinitely long, so any that does is better.
func (s *solver) improve(a assignment, price float64) (assignment, []int, float64) {
	hot, seconds := s.fill(a)
	tries := effort / len(s.curves)
	for {
		best, bestHot, before := a, hot, seconds
		moves := s.promising(price, seconds)
		var try func(b assignment, from, depth int)
		try = func(b assignment, from, depth int) {
			for i, m := range moves[:from] {
				if tries <= 0 {
					return
				}
				old := b[m.layer]
				if old == m.mode || old != a[m.layer] {
					continue
				}
				b[m.layer] = m.mode
				tries--
				if ks, t := s.fill(b); t < seconds {
					best, bestHot, seconds = slices.Clone(b), ks, t
				}
				if depth > 1 {
					try(b, i, depth-1)
				}
				b[m.layer] = old
			}
		}
		// Few changes first: most of the possible gain is one move away.
		for depth := 1; depth <= mostMoves && seconds >= before; depth++ {
			try(slices.Clone(a), len(moves), depth)
		}
		if seconds >= before {
			return a, hot, seconds
		}
		a, hot = best, bestHot
	}
}

// fill gives the split layers of a the bytes that its fixed parts leave, where they save most. Marginal gains never
// rise within a layer, so one price divides all units. It returns the hot counts [layers] and the time, infinite if a
// does not fit.
func (s *solver) fill(a assignment) (hot []int, seconds float64) {
	left := s.budget
	at := 0
	var split []int
	for l, m := range a {
		f := &s.fixed[l][m]
		seconds += f.seconds + s.moves(at, home(int(m)))
		at = home(int(m))
		left -= f.bytes
		if modes[m].units == some {
			left -= s.curves[l].y.Units.Size
			split = append(split, l)
		}
	}
	seconds += s.moves(at, 0)
	if math.IsInf(seconds, 1) || left < min(s.budget, 0) {
		return nil, math.Inf(1)
	}
	hot = make([]int, len(a))
	left = s.divide(split, left, hot)
	s.exchange(split, left, hot, seconds)
	for _, l := range split {
		seconds += s.curves[l].units(hot[l])
	}
	return hot, seconds
}

// divide sets the hot counts of the layers of split, which have one unit each already, from left bytes more, and
// returns what stays.
func (s *solver) divide(split []int, left int64, hot []int) int64 {
	few, many, next := make([]int, len(split)), make([]int, len(split)), make([]int, len(split)) // worth at high, at low and between
	for i, l := range split {
		few[i], many[i] = 1, s.curves[l].worth(0)
	}
	more := func(price float64) (n int64) {
		for i, l := range split {
			c := &s.curves[l]
			next[i] = c.worthIn(price, few[i], many[i])
			n += c.y.Units.Size * int64(next[i]-1)
		}
		return n
	}
	high, low := float64(mostPrice), leastPrice
	if more(0) <= left {
		copy(few, many)
		high, low = 0, 0
	}
	for range priceSteps {
		if slices.Equal(few, many) {
			break
		}
		mid := math.Sqrt(high * low)
		if more(mid) <= left {
			high = mid
			few, next = next, few
		} else {
			low = mid
			many, next = next, many
		}
	}
	for i, l := range split {
		hot[l] = few[i]
		left -= s.curves[l].y.Units.Size * int64(few[i]-1)
	}
	for i, l := range split {
		size := s.curves[l].y.Units.Size
		extra := min(int64(many[i]-few[i]), left/max(size, 1))
		hot[l] += int(extra)
		left -= extra * size
	}
	return left
}

// coarse is the share of a token's time that one unit must make for exchange to look at single units; 28672 neurons are
// none.
const coarse = 1e-5

// mostGiven is the largest number of units of a layer that exchange gives up at a time.
const mostGiven = 16

// exchange gives units of one layer for as many of another as fit, where that saves time: units of several sizes leave
// bytes that a price does not divide.
func (s *solver) exchange(split []int, left int64, hot []int, seconds float64) {
	units := func(l, k int) float64 { return s.curves[l].units(k) }
	size := func(l int) int64 { return max(s.curves[l].y.Units.Size, 1) }
	split = slices.DeleteFunc(slices.Clone(split), func(l int) bool { return s.curves[l].cold[1] < coarse*seconds })
	slices.SortStableFunc(split, func(x, y int) int { return cmp.Compare(s.curves[y].cold[1], s.curves[x].cold[1]) })
	next, last := make([]float64, len(hot)), make([]float64, len(hot)) // what one unit more saves, and what the last one does
	margins := func(l int) {
		if last[l] = s.curves[l].save[hot[l]-1]; hot[l] < s.curves[l].n {
			next[l] = s.curves[l].save[hot[l]]
		}
	}
	for _, l := range split {
		margins(l)
	}
	for changed := true; changed; {
		changed = false
		for _, to := range split {
			for _, from := range split {
				for give := 0; give < min(mostGiven+1, hot[from]); give++ {
					if give > 0 && from == to {
						continue
					}
					take := int(min((left+size(from)*int64(give))/size(to), int64(s.curves[to].most-hot[to])))
					if take <= 0 || float64(take)*next[to] <= float64(give)*last[from] { // units after these save less, and those before them more
						continue
					}
					loss := units(from, hot[from]-give) - units(from, hot[from])
					if gain := units(to, hot[to]) - units(to, hot[to]+take); gain > loss+1e-12*seconds {
						hot[from] -= give
						hot[to] += take
						left += size(from)*int64(give) - size(to)*int64(take)
						margins(from)
						margins(to)
						changed = true
					}
				}
			}
		}
	}
}
