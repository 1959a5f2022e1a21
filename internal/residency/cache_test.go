package residency_test

import (
	"fmt"
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
	open     int // slots
}

func newPlain(units, slots int, halfLife int64) *plainCache {
	p := &plainCache{halfLife: halfLife, tokens: 1, holds: make([]int, slots), open: slots}
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
	for s, v := range p.unit[:p.open] {
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

// close empties the slots from first on, and admits units to none of them.
func (p *plainCache) close(first int) {
	for s := first; s < p.open; s++ {
		if u := p.unit[s]; u != residency.Absent {
			p.drop(u)
		}
	}
	p.open = first
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

func (p *plainCache) drop(u int32) {
	s := p.slot[u]
	p.slot[u], p.unit[s], p.holds[s] = residency.Absent, residency.Absent, 0
}

// follow has u in slot in place of lost, where the cache chose so and wslot with wlost is as good.
func (p *plainCache) follow(u, slot, lost, wslot, wlost int32) {
	p.unit[wslot], p.holds[wslot] = wlost, 0
	if lost != residency.Absent {
		p.slot[lost], p.slot[wlost] = residency.Absent, wslot
	}
	p.slot[u], p.unit[slot], p.holds[slot] = slot, u, 1
}

// TestAgainstPlain plays random uses, steps, holds, admissions and errors of reading to a cache and to one that looks at
// every slot and reckons in 200 bits: the same units go, or, where two weigh the same, one of them.
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
	for u := range int32(units / 2) {
		share := r.Float64()
		c.Expect(u, share)
		p.weight[u].SetFloat64(share / (1 - math.Exp2(-1/float64(halfLife))))
	}
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
				if (lost == residency.Absent) != (wlost == residency.Absent) || lost != wlost && !p.near(lost, wlost) {
					t.Fatalf("step %d: unit %d came to slot %d in place of %d, and should have come to %d in place of %d", i, u, slot, lost, wslot, wlost)
				}
				if lost != wlost {
					ties++
				}
				if slot != wslot {
					p.follow(u, slot, lost, wslot, wlost)
				}
				if r.IntN(50) == 0 {
					c.Drop(u)
					p.drop(u)
					continue
				}
				held[u]++
			case r.IntN(2) == 0:
				c.Hold(u)
				p.holds[p.slot[u]]++
				held[u]++
			case r.IntN(100) == 0:
				c.Drop(u)
				p.drop(u)
				held[u] = 0
			}
		}
		for u := int32(0); u < int32(units); u++ {
			for held[u] > 0 && r.IntN(3) > 0 {
				c.Release(u)
				p.holds[p.slot[u]]--
				held[u]--
			}
		}
		if r.IntN(20) == 0 {
			closeSome(r, c, p)
		}
		check(t, c, units, p.open, held)
	}
	if admissions < steps/10 {
		t.Errorf("only %d admissions", admissions)
	}
	t.Logf("%d admissions, %d refused, %d ties", admissions, refusals, ties)
}

// closeSome closes the slots after the last one that is held, or some of them, and opens all others.
func closeSome(r *rand.Rand, c *residency.Cache, p *plainCache) {
	first := 1
	for s, holds := range p.holds {
		if holds > 0 {
			first = s + 1
		}
	}
	c.Open()
	p.open = len(p.unit)
	first += r.IntN(p.open - first + 1)
	c.Close(first)
	p.close(first)
}

// draw returns a unit. Units with low numbers are more likely.
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

// newCache returns a cache of units without a history, with a half-life of 16 tokens.
func newCache(units, slots int) *residency.Cache {
	tuning := residency.TunedCache()
	tuning.HalfLife = 16
	c := residency.NewCache(slots, tuning)
	c.Add(units)
	return c
}

// read has a token use units, reads those that are absent, and reports how many were.
func read(c *residency.Cache, units ...int32) (misses int) {
	c.Step(1)
	for _, u := range units {
		c.Use(u, 1)
		if c.Slot(u) == residency.Absent {
			misses++
		}
		c.Admit(u)
		c.Release(u)
	}
	return misses
}

func TestHeldUnitsStay(t *testing.T) {
	c := newCache(4, 2)
	c.Admit(0)
	c.Hold(0)
	c.Admit(1)
	if slot, lost, ok := c.Admit(2); ok || slot != residency.Absent || lost != residency.Absent {
		t.Errorf("unit 2 came to slot %d in place of %d, and both slots are held", slot, lost)
	}
	if _, _, ok := c.Guess(2); ok {
		t.Error("a guess came to a held slot")
	}
	c.Release(0) // is held once more
	c.Release(1)
	at := c.Slot(1)
	if slot, lost, ok := c.Admit(2); !ok || slot != at || lost != 1 {
		t.Errorf("unit 2 came to slot %d in place of %d, %v; only slot %d is not held", slot, lost, ok, at)
	}
	if slot, lost, ok := c.Admit(0); !ok || slot != c.Slot(0) || lost != residency.Absent {
		t.Errorf("unit 0 was in slot %d, and came to %d in place of %d, %v", c.Slot(0), slot, lost, ok)
	}
	c.Release(3) // is absent
	c.Release(0)
	c.Release(0)
	c.Release(0) // once too often
	if slot, lost, ok := c.Admit(3); !ok || lost != 0 {
		t.Errorf("unit 3 came to slot %d in place of %d, %v; unit 0 is held no more", slot, lost, ok)
	}
}

// TestPromptsLeaveWhatIsUsed: a prompt that uses every unit, each by few of its tokens, takes one of the slots.
func TestPromptsLeaveWhatIsUsed(t *testing.T) {
	const units, slots = 64, 8
	c := newCache(units, slots)
	hot := []int32{3, 9, 27, 40, 41, 50, 63}
	for range 100 {
		read(c, hot...)
	}
	c.Step(32)
	for u := range int32(units) {
		tokens := 1
		for _, h := range hot {
			if u == h {
				tokens = 32
			}
		}
		c.Use(u, tokens)
		c.Admit(u)
		c.Release(u)
	}
	if misses := read(c, hot...); misses > 0 {
		t.Errorf("%d of %d units that every token uses are absent after a prompt", misses, len(hot))
	}
}

// TestWhatIsNoLongerUsedGoes: units that every token used for long go when others have been used for some half-lives.
func TestWhatIsNoLongerUsedGoes(t *testing.T) {
	c := newCache(16, 8)
	for range 5000 {
		read(c, 0, 1, 2, 3, 4, 5, 6, 7)
	}
	tokens := 0
	for read(c, 8, 9, 10, 11, 12, 13, 14, 15) > 0 {
		if tokens++; tokens > 2*16 {
			t.Fatal("what every token used until two half-lives ago is still there in place of what every token uses")
		}
	}
	t.Logf("%d tokens", tokens)
}

// TestGuesses plays guesses that are partly used, and checks the bound on lost guesses: half of the units that were
// needed, and half of the slots.
func TestGuesses(t *testing.T) {
	for _, right := range []float64{0, 0.3, 0.7, 1} {
		r := testenv.Rand(t)
		const units, slots = 1000, 32
		c := newCache(units, slots)
		var held []int32
		for range 4000 {
			c.Step(1)
			needed := int32(r.IntN(units))
			for k := range 2 {
				g := needed
				if k > 0 || r.Float64() >= right {
					g = int32(r.IntN(units))
				}
				most := c.Guesses()
				if _, _, ok := c.Guess(g); ok {
					held = append(held, g)
					if most == 0 || c.Guesses() != most-1 {
						t.Fatalf("%d guesses may be made after one, and %d before", c.Guesses(), most)
					}
				}
			}
			c.Use(needed, 1)
			if _, _, ok := c.Admit(needed); !ok {
				t.Fatal("no slot for a unit that a step needs")
			}
			c.Release(needed)
			for _, g := range held {
				c.Release(g)
			}
			held = held[:0]
			use := c.Counted()
			if open := float64(use.Guessed - use.GuessesUsed); open > 0.5*float64(use.Misses+use.GuessesUsed)+slots/2 {
				t.Fatalf("%+v: more is unused than may be", use)
			}
		}
		use := c.Counted()
		t.Logf("%g right: %+v", right, use)
		if use.Uses() != 4000 || use.Guessed < use.GuessesUsed+use.GuessesLost {
			t.Errorf("%+v of 4000 uses", use)
		}
		if right < 0.5 && use.Guessed > 4000/4 || right > 0.5 && use.GuessesUsed < 4000/4 {
			t.Errorf("%g of the first guesses are right: %+v", right, use)
		}
	}
}

// TestAWrongGuessIsTheNextToGo: it counts no use, so that the one slot that it took is what it costs.
func TestAWrongGuessIsTheNextToGo(t *testing.T) {
	c := newCache(40, 32)
	for range 10 {
		for u := range int32(32) {
			read(c, u)
		}
	}
	slot, lost, ok := c.Guess(32)
	if !ok || lost != 0 {
		t.Fatalf("a guess came to slot %d in place of %d, %v; unit 0 was used least recently", slot, lost, ok)
	}
	c.Release(32)
	c.Use(33, 1)
	if _, lost, _ := c.Admit(33); lost != 32 {
		t.Errorf("unit %d went in place of the guess that was not used", lost)
	}
	want := residency.CacheUse{Hits: 9 * 32, Misses: 33, Guessed: 1, GuessesLost: 1}
	if use := c.Counted(); use != want {
		t.Errorf("%+v, want %+v", use, want)
	}
}

// TestNoGuessInPlaceOfWhatIsUsed: a guess takes no slot of a unit that half of the tokens use.
func TestNoGuessInPlaceOfWhatIsUsed(t *testing.T) {
	c := newCache(40, 2)
	for range 100 {
		read(c, 0)
		read(c, 1)
	}
	if slot, lost, ok := c.Guess(2); ok {
		t.Errorf("a guess came to slot %d in place of %d", slot, lost)
	}
	c.Step(32) // two half-lives later an eighth of the tokens is expected to use either
	if _, _, ok := c.Guess(2); !ok {
		t.Error("no guess came to the slot of a unit that is hardly used")
	}
}

func TestDrop(t *testing.T) {
	c := newCache(4, 2)
	c.Admit(0)
	c.Hold(0)
	c.Drop(0) // its bytes did not come
	if c.Slot(0) != residency.Absent {
		t.Errorf("unit 0 was dropped and is in slot %d", c.Slot(0))
	}
	for u := range int32(2) {
		if _, lost, ok := c.Admit(u); !ok || lost != residency.Absent {
			t.Errorf("unit %d came in place of %d, %v, and a slot was free", u, lost, ok)
		}
		c.Release(u)
	}
	c.Drop(1) // is not held
	c.Drop(3) // is absent
	if _, lost, ok := c.Guess(3); !ok || lost != residency.Absent {
		t.Errorf("a guess came in place of %d, %v, and a slot was free", lost, ok)
	}
	c.Drop(3)
	if use := c.Counted(); use.Guessed != 0 || c.Guesses() != 1 {
		t.Errorf("%+v, and %d guesses may be made, after one was dropped", use, c.Guesses())
	}
}

// TestExpected: a unit that a share of the tokens uses is expected to be used by that share, however long the steps are.
func TestExpected(t *testing.T) {
	for _, tokens := range []int{1, 4, 64} {
		c := newCache(2, 1)
		for range 4096 / tokens {
			c.Step(tokens)
			c.Use(0, tokens)
			c.Use(1, max(tokens/4, 1))
		}
		want := float64(max(tokens/4, 1)) / float64(tokens)
		if all, part := c.Expected(0), c.Expected(1); math.Abs(all-1) > 1e-9 || math.Abs(part-want) > 1e-9 {
			t.Errorf("steps of %d tokens: units that all and %g of the tokens use are expected to be used by %g and %g", tokens, want, all, part)
		}
	}
}

func TestCacheUse(t *testing.T) {
	a, b := residency.CacheUse{1, 2, 3, 4, 5, 6}, residency.CacheUse{10, 20, 30, 40, 50, 60}
	sum := a
	sum.Add(b)
	if sum != (residency.CacheUse{11, 22, 33, 44, 55, 66}) || sum.Since(a) != b || sum.Uses() != 77 {
		t.Errorf("%+v, since the first %+v, %d uses", sum, sum.Since(a), sum.Uses())
	}
}

// A unit that was done without counts as used by as many tokens, but not as a use, a hit or a miss.
func TestLeave(t *testing.T) {
	c := residency.NewCache(2, residency.TunedCache())
	c.Add(3)
	read(c, 0, 1)
	for range 3 {
		c.Step(1)
		c.Leave(2, 1)
	}
	if use := c.Counted(); use.Left != 3 || use.Uses() != 2 || c.Slot(2) != residency.Absent {
		t.Errorf("%+v", use)
	}
	c.Step(1)
	if read(c, 2); c.Slot(2) == residency.Absent || c.Expected(2) <= c.Expected(0) {
		t.Errorf("a unit that was wanted four times is expected as often as by %g of the tokens, one that was used once by %g", c.Expected(2), c.Expected(0))
	}
}

// steady returns a cache with slots for half of its units, and tokens that use units by a power law, uses units each.
func steady(tb testing.TB, units, uses int) (*residency.Cache, [][]int32) {
	tb.Helper()
	c := residency.NewCache(units/2, residency.TunedCache())
	c.Add(units)
	r := rand.New(rand.NewPCG(1, 1))
	tokens := make([][]int32, 512)
	for i := range tokens {
		for range uses {
			// The square root makes shares of rank^-1/2; neighbors in rank are far from each other in memory.
			tokens[i] = append(tokens[i], int32(uint64(float64(units)*math.Pow(r.Float64(), 2))*7919%uint64(units)))
		}
	}
	for _, token := range tokens {
		read(c, token...)
	}
	return c, tokens
}

func TestNothingIsAllocated(t *testing.T) {
	c, tokens := steady(t, 10_000, 100)
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		read(c, tokens[i%len(tokens)]...)
		if _, _, ok := c.Guess(tokens[(i+1)%len(tokens)][0]); ok {
			c.Release(tokens[(i+1)%len(tokens)][0])
		}
		i++
	}); n > 0 {
		t.Errorf("%g allocations a token", n)
	}
}

// BenchmarkCache plays tokens of some thousand uses. Times are the processor's, of a use, its hold and release, and its
// admission if it is a miss.
func BenchmarkCache(b *testing.B) {
	for _, v := range []struct{ units, uses int }{{10_000, 384}, {100_000, 5_000}, {1_000_000, 10_000}} {
		b.Run(fmt.Sprintf("%d-units", v.units), func(b *testing.B) {
			c, tokens := steady(b, v.units, v.uses)
			for _, what := range []string{"use", "read"} {
				b.Run(what, func(b *testing.B) {
					before, began, i := c.Counted(), testenv.ProcessorTime(b), 0
					for b.Loop() {
						token := tokens[i%len(tokens)]
						if what == "read" {
							read(c, token...)
						} else {
							for _, u := range token {
								c.Use(u, 1)
							}
						}
						i++
					}
					use := c.Counted().Since(before)
					b.ReportMetric(float64((testenv.ProcessorTime(b)-began).Nanoseconds())/float64(use.Uses()), "ns/use")
					b.ReportMetric(100*float64(use.Misses)/float64(use.Uses()), "%misses")
				})
			}
		})
	}
}

// TestPass: among units with equal expected use, a prompt keeps some from layer to layer, instead of losing each before
// its next turn. Units that are expected to be used more than others stay, whenever they come.
func TestPass(t *testing.T) {
	const layers, units, slots = 8, 32, 128
	c := residency.NewCache(slots, residency.TunedCache())
	c.Add(layers * units)
	hot := int32(5*units + 3)
	for round := range 6 {
		c.Step(512)
		then := c.Counted()
		for u := range int32(layers * units) {
			uses := 32
			if u == hot {
				uses = 400
			}
			absent := c.Slot(u) == residency.Absent
			c.Use(u, uses)
			if _, _, ok := c.Admit(u); !ok {
				t.Fatal("no slot can be given away")
			}
			if absent {
				c.Pass(u, uses)
			} else {
				c.Release(u)
			}
		}
		if use := c.Counted().Since(then); round > 1 && use.Hits < slots-2 {
			t.Errorf("step %d: %d uses of units that had stayed in %d slots", round, use.Hits, slots)
		}
	}
	if c.Slot(hot) == residency.Absent {
		t.Error("the unit that is used most did not stay")
	}
}
