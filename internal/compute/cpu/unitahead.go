package cpu

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// layersAhead is the number of layers that a prompt reads ahead.
const layersAhead = 2

// readAhead has the next layers' units read that a prompt of so many tokens will probably use, while the disk has
// nothing else to read: those that it is expected to use at all, or all of them if this layer used nearly all. What is
// in RAM of them stays there until their turn. Half of the slots are for these at most.
func (s *store) readAhead(tokens int) {
	next := s.b.next
	all := len(s.units) >= s.b.units-s.b.units/8
	for range layersAhead {
		if next == nil || !s.ahead(next, tokens, all) {
			break
		}
		next = next.next
	}
	s.flush()
}

// ahead does it for a layer. It reports whether there is room for more.
func (s *store) ahead(b *bundle, tokens int, all bool) bool {
	cache := b.class.cache
	likely := func(u int32) bool { return all || cache.Expected(b.first+u)*float64(tokens) >= 1 }
	keep := func(u int32) {
		b.kept = append(b.kept, u)
		b.class.kept++
	}
	most := b.class.slots / 2
	if len(b.kept) == 0 {
		for u := range int32(b.units) {
			if n := b.first + u; b.class.kept < most && cache.Slot(n) != residency.Absent && likely(u) {
				cache.Hold(n)
				keep(u)
			}
		}
	}
	for u := range int32(b.units) {
		if cache.Slot(b.first+u) != residency.Absent || !likely(u) {
			continue
		}
		if b.class.kept >= most {
			return false
		}
		slot, _, ok := cache.Ahead(b.first + u)
		if !ok {
			return false
		}
		s.read(b, u, slot, true).holds = false
		b.guessed = append(b.guessed, u)
		keep(u)
	}
	return true
}

// letGo releases the units that b keeps. What is on its way is held until it has arrived.
func (s *store) letGo(b *bundle) {
	for _, u := range b.kept {
		if l := b.loads[u]; l != nil && !l.holds {
			l.holds = true
			continue
		}
		b.class.cache.Release(b.first + u)
	}
	b.class.kept -= len(b.kept)
	b.kept = b.kept[:0]
}

// letAllGo does it for all bundles, and reports whether any kept some.
func (s *store) letAllGo() (any bool) {
	for _, b := range s.bundles {
		any = any || len(b.kept) > 0
		s.letGo(b)
	}
	return any
}

// lose says that a unit that b keeps could not be read.
func (s *store) lose(b *bundle, unit int32) {
	if i := slices.Index(b.kept, unit); i >= 0 {
		b.kept = slices.Delete(b.kept, i, i+1)
		b.class.kept--
	}
}
