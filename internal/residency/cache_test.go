package residency_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// plainCache decides by the words of Cache's documentation: it keeps each unit's uses, weighs them exactly, and looks at
// every slot.
type plainCache struct {
	halfLife int64
	weight   []*big.Float // [units] in uses at token 0
	now      int64
	tokens   int64 // of the step
	slot     []int32
	unit     []int32 // [slots]
	holds    []int
}

func newPlain(units, slots int, halfLife int64) *plainCache {
	p := &plainCache{halfLife: halfLife, tokens: 1, holds: make([]int, slots)}
	for range units {
		p.weight, p.slot = append(p.weight, new(big.Float).SetPrec(200)), append(p.slot, residency.Absent)
	}
	for range slots {
		p.unit = append(p.unit, residency.Absent)
	}
	return p
}

// power returns 2^(tokens/halfLife).
func (p *plainCache) power(tokens int64) *big.Float {
	whole := tokens / p.halfLife
	f := new(big.Float).SetPrec(200).SetFloat64(math.Exp2(float64(tokens%p.halfLife) / float64(p.halfLife)))
	return f.SetMantExp(f, int(whole))
}

func (p *plainCache) use(u int32, n int64) {
	for i := range p.tokens {
		w := p.power(p.now - i)
		w.Mul(w, big.NewFloat(float64(n)/float64(p.tokens)))
		p.weight[u].Add(p.weight[u], w)
	}
}

func (p *plainCache) admit(u int32) (slot, lost int32, ok bool) {
	best := -1
	for s, v := range p.unit {
		if v == residency.Absent {
			best = s
			break
		}
		if p.holds[s] > 0 {
			continue
		}
		if best < 0 || p.weight[v].Cmp(p.weight[p.unit[best]]) < 0 {
			best = s
		}
	}
	if best < 0 {
		return residency.Absent, residency.Absent, false
	}
	lost = p.unit[best]
	if lost != residency.Absent {
		p.slot[lost] = residency.Absent
	}
	p.unit[best], p.slot[u], p.holds[best] = u, int32(best), 1
	return int32(best), lost, true
}

// near says that two weights are the same but for rounding, so that either may go.
func (p *plainCache) near(a, b int32) bool {
	x, _ := p.weight[a].Float64()
	y, _ := p.weight[b].Float64()
	if math.IsInf(x, 0) || math.IsInf(y, 0) {
		q, _ := new(big.Float).Quo(p.weight[a], p.weight[b]).Float64()
		return math.Abs(q-1) < 1e-9
	}
	return math.Abs(x-y) <= 1e-9*(x+y)
}

// TestAgainstPlain plays random uses, steps, holds and admissions to a cache and to one that looks at every slot and
// reckons in 200 bits: the same units go, or, where two weigh the same, one of them.
func TestAgainstPlain(t *testing.T) {
	for name, spec := range map[string]struct {
		units, slots int
		halfLife     int64
		steps, most  int // and tokens of the longest step
	}{
		"small":          {20, 6, 16, 8000, 4},
		"half":           {200, 100, 64, 3000, 3},
		"a single slot":  {5, 1, 8, 2000, 2},
		"long, rescaled": {60, 20, 4, 6000, 40}, // 30,000 half-lives
	} {
		t.Run(name, func(t *testing.T) { againstPlain(t, spec.units, spec.slots, spec.halfLife, spec.steps, spec.most) })
	}
}

func againstPlain(t *testing.T, units, slots int, halfLife int64, steps, most int) {
	r := testenv.Rand(t)
	tuning := residency.TunedCache()
	tuning.HalfLife = float64(halfLife)
	c := residency.NewCache(slots, tuning)
	if first := c.Add(units - 3); first != 0 {
		t.Fatalf("the first unit is %d", first)
	}
	if first := c.Add(3); first != int32(units-3) {
		t.Fatalf("the first of three more is %d of %d", first, units)
	}
	p := newPlain(units, slots, halfLife)
	held := map[int32]int{}
	admissions, refusals, ties := 0, 0, 0
	for i := range steps {
		tokens := 1
		if r.IntN(10) == 0 {
			tokens = 1 + r.IntN(most)
		}
		c.Step(tokens)
		p.now, p.tokens = p.now+int64(tokens), int64(tokens)
		for range 1 + r.IntN(8) {
			u := draw(r, units)
			n := 1 + r.IntN(tokens)
			c.Use(u, n)
			p.use(u, int64(n))
			if s := c.Slot(u); s != p.slot[u] {
				t.Fatalf("step %d: unit %d is in slot %d, and should be in %d", i, u, s, p.slot[u])
			}
			switch {
			case c.Slot(u) == residency.Absent:
				slot, lost, ok := c.Admit(u)
				wslot, wlost, wok := p.admit(u)
				if ok != wok {
					t.Fatalf("step %d: unit %d admitted: %v, and should be: %v", i, u, ok, wok)
				}
				if !ok {
					refusals++
					continue
				}
				admissions++
				if slot != wslot || lost != wlost {
					if lost == residency.Absent || wlost == residency.Absent || !p.near(lost, wlost) {
						t.Fatalf("step %d: unit %d came to slot %d in place of %d, and should have come to %d in place of %d", i, u, slot, lost, wslot, wlost)
					}
					ties++ // have the plain one do the same
					p.slot[lost], p.slot[wlost] = residency.Absent, wslot
					p.unit[wslot], p.holds[wslot] = wlost, 0
					p.slot[u], p.unit[slot], p.holds[slot] = slot, u, 1
				}
				held[u]++
			case r.IntN(2) == 0:
				c.Hold(u)
				p.holds[p.slot[u]]++
				held[u]++
			}
		}
		for u := int32(0); u < int32(units); u++ {
			for held[u] > 0 && r.IntN(3) > 0 {
				c.Release(u)
				p.holds[p.slot[u]]--
				held[u]--
			}
		}
		check(t, c, units, slots, held)
	}
	if admissions < steps/4 {
		t.Errorf("only %d admissions", admissions)
	}
	t.Logf("%d admissions, %d refused, %d ties", admissions, refusals, ties)
}

// draw returns a unit, those of low numbers more often.
func draw(r *rand.Rand, units int) int32 {
	return min(int32(float64(units)*math.Pow(r.Float64(), 2)), int32(units-1))
}

// check holds the cache to what is always so: a slot holds one unit, and what is held is in a slot.
func check(t *testing.T, c *residency.Cache, units, slots int, held map[int32]int) {
	t.Helper()
	in := map[int32]int32{}
	for u := range int32(units) {
		s := c.Slot(u)
		if s == residency.Absent {
			if held[u] > 0 {
				t.Fatalf("unit %d is held and absent", u)
			}
			continue
		}
		if other, twice := in[s]; twice || s < 0 || int(s) >= slots {
			t.Fatalf("unit %d is in slot %d, as %d is", u, s, other)
		}
		in[s] = u
	}
}
