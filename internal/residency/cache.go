package residency

import (
	"math"
	"slices"
)

// CacheTuning has the constants of Cache; TunedCache returns those that did best in the simulations of
// docs/benchmarks/2026-11-cache-simulated.md.
type CacheTuning struct {
	HalfLife float64 // tokens after which a use counts half
	Waste    float64 // units guessed in vain for each unit that a step had to read
	Burst    float64 // more units guessed in vain, as a share of the slots
	Spare    float64 // a guess takes the slot of a unit only if fewer tokens than this share are expected to use the unit
}

// leastBurst is the least number of guesses in vain if there are twice as many slots, because a layer's experts are
// guessed together.
const leastBurst = 16

// TunedCache returns the constants that did best in the simulations of docs/benchmarks/2026-11-cache-simulated.md.
func TunedCache() CacheTuning {
	return CacheTuning{HalfLife: 128, Waste: 0.5, Burst: 1.0 / 32, Spare: 0.25}
}

// Cache decides which units of a model stay in RAM's slots. A unit is read from disk as a whole: an expert or a neuron.
// Cache moves no bytes. It belongs to one goroutine.
//
// The weight of a unit is the number of its uses, each of which counts half after every HalfLife tokens. Weights are
// not lowered as time passes; a later use counts more instead (forward decay: Cormode, Shkapenyuk, Srivastava and Xu,
// "Forward Decay: A Practical Time Decay Model for Streaming Systems", 2009). So the order of two units changes only
// when one of them is used. Absent units keep their weights: one use does not put a unit above those that are used
// often, and what a prompt reads once is evicted before what texts use all the time.
//
// A heap finds the unit with the least weight. Weights only grow, so the heap's keys may be old: a key is updated when
// it comes to the top. So Use is one addition, and Admit is O(log slots) in the long run. After Add nothing is
// allocated.
type Cache struct {
	tuning CacheTuning
	long   float64 // weight of a unit that every token uses, in uses of now
	age    float64 // tokens since a use had a weight of 1
	now    float64 // weight of a use by the last token of the step
	each   float64 // mean weight of a use by the tokens of the step
	units  []cachedUnit
	seats  []seat       // [slots]
	free   []int32      // slots that hold nothing; the last one is taken first
	open   int          // slots from this one on are closed
	order  []ranked     // heap of 4 children a node: what may be evicted, the least first
	step   uint16       // counts steps
	passed []passedUnit // may be evicted before those in order; by falling weight, and the last one goes first
	use    CacheUse
	burst  float64 // bound of credit
	credit float64 // guesses that may be in vain now
	right  float64 // share of the latest guesses that was used
}

// passedUnit is a unit that a step read and will not use again: see Pass.
type passedUnit struct {
	unit   int32
	weight float64 // before that use
}

type cachedUnit struct {
	weight float64
	slot   int32  // or Absent
	guess  bool   // it was read for a guess and not used yet
	step   uint16 // the last one that used it, in Cache.step's counting
}

type seat struct {
	unit    int32 // Absent: none
	holds   int32
	ordered bool // it is in order
}

// ranked is a slot in the order of eviction. Its key is at most its unit's weight.
type ranked struct {
	key  float64
	slot int32
}

func (a ranked) before(b ranked) bool { return a.key < b.key || a.key == b.key && a.slot < b.slot }

// CacheUse counts what a cache of units did. A step uses a unit once, for any number of tokens.
type CacheUse struct {
	Hits        int64 // uses of units that had stayed
	Misses      int64 // uses of units that were absent
	Guessed     int64 // units that were read for a guess
	GuessesUsed int64 // guesses used before they were evicted: neither hits nor misses
	GuessesLost int64 // guesses evicted before they were used
	Left        int64 // uses of absent units that were done without: not among the uses
}

// Add adds another cache's counts.
func (u *CacheUse) Add(v CacheUse) {
	u.Hits += v.Hits
	u.Misses += v.Misses
	u.Guessed += v.Guessed
	u.GuessesUsed += v.GuessesUsed
	u.GuessesLost += v.GuessesLost
	u.Left += v.Left
}

// Since returns the counts since an earlier state.
func (u CacheUse) Since(then CacheUse) CacheUse {
	return CacheUse{
		u.Hits - then.Hits, u.Misses - then.Misses,
		u.Guessed - then.Guessed, u.GuessesUsed - then.GuessesUsed, u.GuessesLost - then.GuessesLost, u.Left - then.Left,
	}
}

// Uses returns how many times steps used units.
func (u CacheUse) Uses() int64 { return u.Hits + u.Misses + u.GuessesUsed }

// NewCache returns a cache with this many empty slots that knows no units.
func NewCache(slots int, t CacheTuning) *Cache {
	c := &Cache{
		tuning: t, long: 1 / -math.Expm1(-math.Ln2/t.HalfLife), now: 1, each: 1,
		seats: make([]seat, slots), free: make([]int32, slots), order: make([]ranked, 0, slots), open: slots,
		burst: max(math.Ceil(t.Burst*float64(slots)), float64(min(leastBurst, (slots+1)/2))), right: 1,
	}
	c.credit = c.burst
	for i := range c.seats {
		c.seats[i].unit = Absent
		c.free[i] = int32(slots - 1 - i)
	}
	return c
}

// Add adds this many absent units and returns the number of the first.
func (c *Cache) Add(units int) (first int32) {
	first = int32(len(c.units))
	c.units = append(c.units, slices.Repeat([]cachedUnit{{slot: Absent}}, units)...)
	return first
}

// Expect sets the share of tokens that is expected to use a unit, as a profile measured it, as if tokens had used the
// unit so until now.
func (c *Cache) Expect(unit int32, share float64) {
	if share > 0 {
		c.units[unit].weight += share * c.long * c.now
	}
}

// Expected returns the share of tokens that is expected to use a unit.
func (c *Cache) Expected(unit int32) float64 { return c.units[unit].weight / (c.long * c.now) }

// Weights are divided by 2^rescaled before they could leave the range of numbers. A unit too small for that has not
// been used for as many half-lives.
const rescaled = 512

// Step begins a step of this many tokens: time passes, and the following uses belong to them.
func (c *Cache) Step(tokens int) {
	if tokens < 1 {
		return
	}
	for _, y := range c.passed {
		if s := c.units[y.unit].slot; s != Absent && c.seats[s].holds == 0 {
			c.rank(s)
		}
	}
	c.passed = c.passed[:0]
	c.step++
	c.age += float64(tokens)
	for c.age > rescaled*c.tuning.HalfLife {
		c.age -= rescaled * c.tuning.HalfLife
		c.rescale()
	}
	c.now = math.Exp2(c.age / c.tuning.HalfLife)
	c.each = c.now
	if tokens > 1 { // the mean of now·2^(−i/HalfLife) for i below tokens
		c.each *= -math.Expm1(-math.Ln2*float64(tokens)/c.tuning.HalfLife) * c.long / float64(tokens)
	}
}

func (c *Cache) rescale() {
	factor := math.Ldexp(1, -rescaled)
	for i := range c.units {
		c.units[i].weight *= factor
	}
	c.reorder()
}

// reorder brings all keys up to date.
func (c *Cache) reorder() {
	for i := range c.order {
		c.order[i].key = c.units[c.seats[c.order[i].slot].unit].weight
	}
	for i := len(c.order) / 4; i >= 0; i-- {
		c.down(i)
	}
}

// Use counts that this many tokens of the step use a unit. It comes before the unit's Admit.
func (c *Cache) Use(unit int32, tokens int) {
	u := &c.units[unit]
	u.weight += float64(tokens) * c.each
	u.step = c.step
	switch {
	case u.slot == Absent:
		c.use.Misses++
		c.earn()
	case u.guess:
		u.guess = false
		c.use.GuessesUsed++
		c.credit++
		c.settle(1)
		c.earn()
	default:
		c.use.Hits++
	}
}

// Leave counts an absent unit that this many tokens of the step would have used, and that is not read for them.
func (c *Cache) Leave(unit int32, tokens int) {
	c.units[unit].weight += float64(tokens) * c.each
	c.use.Left += int64(tokens)
}

// earn counts a unit that had to be read. The fewer of the latest guesses were used, the fewer are allowed next.
func (c *Cache) earn() {
	c.credit = min(c.credit+c.tuning.Waste*c.right, c.burst)
}

// settle counts a guess: 1 if it was used, 0 if not.
func (c *Cache) settle(used float64) {
	const recent = 64 // guesses
	c.right += (used - c.right) / recent
}

// Slot returns where a unit is, or Absent.
func (c *Cache) Slot(unit int32) int32 { return c.units[unit].slot }

// Hold makes a present unit keep its slot until Release was called as often as Hold, Admit and Guess together.
func (c *Cache) Hold(unit int32) { c.seats[c.units[unit].slot].holds++ }

// Release ends a Hold, also one by Admit or Guess.
func (c *Cache) Release(unit int32) {
	s := c.units[unit].slot
	if s == Absent || c.seats[s].holds == 0 {
		return
	}
	if c.seats[s].holds--; c.seats[s].holds == 0 {
		c.rank(s)
	}
}

// rank puts a slot into the order, unless it is in it.
func (c *Cache) rank(slot int32) {
	if s := &c.seats[slot]; !s.ordered {
		s.ordered = true
		c.order = append(c.order, ranked{c.units[s.unit].weight, slot})
		c.up(len(c.order) - 1)
	}
}

// Pass is Release for a unit that was read for the step, used by this many of its tokens, and not used again in the
// step. A prompt uses nearly all units once a step, layer after layer. Among units that are expected to be used equally
// often, the one just used is needed last. So it is the first to lose its slot during this step, unless its weight
// before the step was larger than that of others.
func (c *Cache) Pass(unit int32, tokens int) {
	s := c.units[unit].slot
	if s == Absent || c.seats[s].holds != 1 || c.seats[s].ordered {
		c.Release(unit)
		return
	}
	c.seats[s].holds = 0
	y := passedUnit{unit, c.units[unit].weight - float64(tokens)*c.each}
	at := len(c.passed)
	for ; at > 0 && c.passed[at-1].weight < y.weight; at-- { // most are at most the last one
	}
	c.passed = slices.Insert(c.passed, at, y)
}

// Admit gives an absent unit a slot and holds it: a free slot, or the slot of the unit with the least weight that is
// not held. That unit becomes absent and is returned as lost; otherwise lost is Absent. ok is false if every slot is
// held. A unit that has a slot is held there.
func (c *Cache) Admit(unit int32) (slot, lost int32, ok bool) {
	if s := c.units[unit].slot; s != Absent {
		c.seats[s].holds++
		return s, Absent, true
	}
	if len(c.free) == 0 && c.victim() == Absent {
		return Absent, Absent, false
	}
	slot, lost = c.seat(unit)
	return slot, lost, true
}

// Guess gives a slot to an absent unit that a step may need, as Admit does, and holds it. ok is false if the unit has a
// slot, if Guesses is 0, or if the unit that would lose its slot is worth more: that unit must be an unused guess, or
// be expected by a share of less than Spare of the tokens.
func (c *Cache) Guess(unit int32) (slot, lost int32, ok bool) {
	if c.units[unit].slot != Absent || c.Guesses() == 0 {
		return Absent, Absent, false
	}
	if len(c.free) == 0 {
		s := c.victim()
		if s == Absent || !c.units[c.seats[s].unit].guess && c.Expected(c.seats[s].unit) >= c.tuning.Spare {
			return Absent, Absent, false
		}
	}
	slot, lost = c.seat(unit)
	c.units[unit].guess = true
	c.use.Guessed++
	c.credit--
	return slot, lost, true
}

// Ahead is Admit for an absent unit that the step will very probably use. The unit is read before its Use, which counts
// as the use of a guess. It does not lower Guesses.
func (c *Cache) Ahead(unit int32) (slot, lost int32, ok bool) {
	if slot, lost, ok = c.Admit(unit); ok {
		c.units[unit].guess = true
		c.use.Guessed++
	}
	return slot, lost, ok
}

// Guesses returns how many guesses may be made now. Guesses that were in vain or are not used yet are at most Waste
// times the units that steps had to read, plus Burst times the slots. The fewer of the latest guesses were used, the
// fewer are allowed.
func (c *Cache) Guesses() int { return int(max(c.credit, 0)) }

// Drop makes a unit absent, whoever holds it, because its bytes could not be read. A dropped guess counts as never
// made.
func (c *Cache) Drop(unit int32) {
	s := c.units[unit].slot
	if s == Absent {
		return
	}
	y := &c.seats[s]
	if y.ordered {
		i := slices.IndexFunc(c.order, func(r ranked) bool { return r.slot == s })
		c.remove(i)
	}
	c.forget(unit)
	*y = seat{unit: Absent}
	c.free = append(c.free, s)
}

// Close empties the slots from first on, and gives them to no unit until Open, so that their memory can be used for
// something else. None of them may be held.
func (c *Cache) Close(first int) {
	closed := func(slot int32) bool { return int(slot) >= first }
	for s := first; s < c.open; s++ {
		if u := c.seats[s].unit; u != Absent {
			c.forget(u)
			c.seats[s] = seat{unit: Absent}
		}
	}
	c.open = min(c.open, first)
	c.free = slices.DeleteFunc(c.free, closed)
	c.order = slices.DeleteFunc(c.order, func(r ranked) bool { return closed(r.slot) })
	c.reorder()
}

// Open ends Close.
func (c *Cache) Open() {
	for s := len(c.seats) - 1; s >= c.open; s-- {
		c.free = append(c.free, int32(s))
	}
	c.open = len(c.seats)
}

// forget makes a unit absent. A guess counts as never made.
func (c *Cache) forget(unit int32) {
	u := &c.units[unit]
	if u.guess {
		u.guess = false
		c.use.Guessed--
		c.credit = min(c.credit+1, c.burst)
	}
	u.slot = Absent
}

// Counted returns the cache's counts.
func (c *Cache) Counted() CacheUse { return c.use }

// victim returns the slot that is given away next, or Absent.
func (c *Cache) victim() int32 {
	least := c.least()
	for n := len(c.passed); n > 0; n-- {
		y := c.passed[n-1]
		if s := c.units[y.unit].slot; s != Absent && c.seats[s].holds == 0 && !c.seats[s].ordered {
			if least == Absent || c.before(y, c.seats[least].unit) {
				return s
			}
			break
		}
		c.passed = c.passed[:n-1]
	}
	return least
}

// before reports whether a passed unit is evicted before another one: if it was not expected to be used more often. The
// step's uses count for both or for neither.
func (c *Cache) before(y passedUnit, other int32) bool {
	w := y.weight
	if c.units[other].step == c.step {
		w = c.units[y.unit].weight
	}
	return w <= c.units[other].weight*(1+1e-9) // differences by rounding do not count
}

// seat puts an absent unit into a free slot, or into the victim's slot.
func (c *Cache) seat(unit int32) (slot, lost int32) {
	lost = Absent
	if n := len(c.free); n > 0 {
		slot, c.free = c.free[n-1], c.free[:n-1]
	} else {
		if slot = c.victim(); c.seats[slot].ordered {
			c.remove(0)
		} else {
			c.passed = c.passed[:len(c.passed)-1]
		}
		lost = c.seats[slot].unit
		gone := &c.units[lost]
		gone.slot = Absent
		if gone.guess {
			gone.guess = false
			c.use.GuessesLost++
			c.settle(0)
		}
	}
	c.seats[slot] = seat{unit: unit, holds: 1}
	c.units[unit].slot = slot
	return slot, lost
}

// least brings the unheld slot with the least weight to the top of the order and returns it, or Absent. Held ones leave
// the order until they are released.
func (c *Cache) least() int32 {
	old := 0 // keys met so far
	for len(c.order) > 0 {
		top := &c.order[0]
		s := &c.seats[top.slot]
		if s.holds > 0 {
			s.ordered = false
			c.remove(0)
			continue
		}
		if w := c.units[s.unit].weight; w > top.key {
			top.key = w
			c.down(0)
			if old++; old > 64 && old > len(c.order)/16 {
				c.reorder()
				old = 0
			}
			continue
		}
		return top.slot
	}
	return Absent
}

func (c *Cache) remove(i int) {
	last := len(c.order) - 1
	moved := c.order[last]
	c.order = c.order[:last]
	if i < last {
		c.order[i] = moved
		c.down(i)
		c.up(i)
	}
}

func (c *Cache) up(i int) {
	r := c.order[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !r.before(c.order[parent]) {
			break
		}
		c.order[i] = c.order[parent]
		i = parent
	}
	c.order[i] = r
}

func (c *Cache) down(i int) {
	n := len(c.order)
	if i >= n {
		return
	}
	r := c.order[i]
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		child := first
		for j := first + 1; j < min(first+4, n); j++ {
			if c.order[j].before(c.order[child]) {
				child = j
			}
		}
		if !c.order[child].before(r) {
			break
		}
		c.order[i] = c.order[child]
		i = child
	}
	c.order[i] = r
}
