package cpu

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

const (
	// layersAhead is the number of layers that a prompt reads ahead.
	layersAhead = 2
	// keptShare is the share of slots, as a divisor, that is kept for layers ahead and for what is borrowed.
	keptShare = 2
	// aheadShare is the share of slots, as a divisor, for units that are read ahead.
	aheadShare = 8
)

// readAhead begins to read units of the next layers that a prompt of tokens tokens will probably use: units with at
// least one expected use, or all of them if this layer used nearly all. The disk reads them when it has nothing else to
// read. Units that are in RAM already are held there until their layer's turn.
func (s *store) readAhead(tokens int) {
	all := len(s.units) >= s.b.units-s.b.units/8
	read := 0
	for i, b := 0, s.b.next; i < layersAhead && b != nil; i, b = i+1, b.next {
		likely := func(u int32) bool { return all || b.class.cache.Expected(b.first+u)*float64(tokens) >= 1 }
		if len(b.kept) == 0 {
			b.keepLikely(likely)
		}
		for _, u := range b.kept {
			if b.fresh[u] {
				read++
			}
		}
		for u := int32(0); u < int32(b.units) && read < max(1, b.class.slots/aheadShare); u++ {
			if b.slot(u) == residency.Absent && likely(u) && !b.unread[u] {
				if !s.ahead(b, u) {
					break
				}
				read++
			}
		}
	}
	s.flush()
}

// keepLikely holds likely units that are in RAM, so that they keep their slots.
func (b *bundle) keepLikely(likely func(unit int32) bool) {
	for u := range int32(b.units) {
		if b.slot(u) != residency.Absent && likely(u) && b.class.mayKeep() {
			b.class.cache.Hold(b.first + u)
			b.keep(u)
		}
	}
}

// mayKeep reports whether another unit may keep its slot.
func (c *class) mayKeep() bool { return c.kept < c.slots/keptShare }

// keep notes that a unit is held until b's turn.
func (b *bundle) keep(unit int32) {
	b.kept = append(b.kept, unit)
	b.class.kept++
}

// ahead begins to read a unit, and reports whether there was a slot for it.
func (s *store) ahead(b *bundle, unit int32) bool {
	if !b.class.mayKeep() {
		return false
	}
	slot, _, ok := b.class.cache.Ahead(b.first + unit)
	if !ok {
		return false
	}
	s.read(b, unit, slot, true).holds = false
	b.guessed = append(b.guessed, unit)
	b.keep(unit)
	return true
}

// letGo releases the units that b keeps. A unit that is on its way is held until it has arrived.
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

// letAllGo releases the units that any bundle keeps, and reports whether there were some.
func (s *store) letAllGo() (any bool) {
	for _, b := range s.bundles {
		any = any || len(b.kept) > 0
		s.letGo(b)
	}
	return any
}

// lose removes a unit that could not be read from those that b keeps.
func (s *store) lose(b *bundle, unit int32) {
	if i := slices.Index(b.kept, unit); i >= 0 {
		b.kept = slices.Delete(b.kept, i, i+1)
		b.class.kept--
	}
}
