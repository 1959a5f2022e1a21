package tokenizer

import "math/bits"

// pairTable maps pairs of numbers to pairs of numbers: a hash table with open addressing that is filled once.
type pairTable struct {
	slots []pairSlot // a power of two of them, at most half full
	shift int
	count int
}

type pairSlot struct {
	key  uint64 // plus 1; 0 is free
	a, b int32
}

func newPairTable(n int) *pairTable {
	size := 1 << bits.Len(uint(2*n))
	return &pairTable{slots: make([]pairSlot, size), shift: 64 - bits.Len(uint(size-1))}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// slot returns where key is or belongs.
func (t *pairTable) slot(key uint64) *pairSlot {
	mask := len(t.slots) - 1
	for i := int((key * 0x9E3779B97F4A7C15) >> (t.shift & 63)); ; i++ {
		s := &t.slots[i&mask]
		if s.key == key+1 || s.key == 0 {
			return s
		}
	}
}

func (t *pairTable) get(left, right int32) (a, b int32, ok bool) {
	s := t.slot(pairKey(left, right))
	return s.a, s.b, s.key != 0
}

// set enters a pair, or replaces its value. Beyond its initial size the table grows.
func (t *pairTable) set(left, right, a, b int32) {
	if 2*t.count >= len(t.slots) {
		bigger := newPairTable(2 * len(t.slots))
		for _, s := range t.slots {
			if s.key != 0 {
				*bigger.slot(s.key - 1) = s
			}
		}
		t.slots, t.shift = bigger.slots, bigger.shift
	}
	s := t.slot(pairKey(left, right))
	if s.key == 0 {
		t.count++
	}
	*s = pairSlot{pairKey(left, right) + 1, a, b}
}
