package tokenizer

import "slices"

// longestQueued is the number of symbols up to which a queue of pairs is faster than lists of them. The lists' time is
// linear in a word's length.
const longestQueued = 1 << 12

// rankLists hold the places of mergeable pairs, a list for each rank. Merging takes one list after the other, the
// lowest rank first, each from left to right: as a rule, the product of a merge can only be merged at a higher rank, so
// a list no longer grows once it is taken.
type rankLists struct {
	last   []int32     // rank -> 1 more than its last entry; 0: none
	places []rankPlace // all entries
	ranks  rankQueue   // those that have entries
	turn   []int32     // the places of the current rank
	sorted []int32     // scratch of sorting them
}

// rankPlace is an entry: where a pair begins, and the index of the previous entry of the same rank, plus 1.
type rankPlace struct{ at, before int32 }

func (l *rankLists) add(rank, at int32) {
	if int(rank) >= len(l.last) {
		l.last = append(l.last, make([]int32, int(rank)+1-len(l.last))...)
	}
	if l.last[rank] == 0 {
		l.ranks.push(uint64(rank))
	}
	l.places = append(l.places, rankPlace{at, l.last[rank]})
	l.last[rank] = int32(len(l.places))
}

// next empties the list of the lowest rank and returns its places in order, which are valid until the next call; ok is
// false if there is none.
func (l *rankLists) next() (rank int32, places []int32, ok bool) {
	if len(l.ranks) == 0 {
		l.places = l.places[:0]
		return 0, nil, false
	}
	rank = int32(l.ranks.pop())
	l.turn = l.turn[:0]
	for i := l.last[rank]; i > 0; i = l.places[i-1].before {
		l.turn = append(l.turn, l.places[i-1].at)
	}
	l.last[rank] = 0
	l.sort()
	return rank, l.turn, true
}

// sort sorts turn: long lists by digits, in linear time.
func (l *rankLists) sort() {
	const (
		few   = 1 << 10
		digit = 11
	)
	slices.Reverse(l.turn) // most were added from left to right
	if len(l.turn) <= few || slices.IsSorted(l.turn) {
		slices.Sort(l.turn)
		return
	}
	for shift := 0; shift < 32; shift += digit {
		var begin [1<<digit + 1]int32
		for _, at := range l.turn {
			begin[uint32(at)>>shift&(1<<digit-1)+1]++
		}
		for i := range 1 << digit {
			begin[i+1] += begin[i]
		}
		l.sorted = grow(l.sorted, len(l.turn))
		for _, at := range l.turn {
			to := &begin[uint32(at)>>shift&(1<<digit-1)]
			l.sorted[*to] = at
			*to++
		}
		l.turn, l.sorted = l.sorted, l.turn
	}
}

// mergeListed merges the symbols of a very long word. If the product of a merge can be merged by an earlier line, which
// no trained list has, the rest goes into the queue.
func (b *bpe) mergeListed(m *bpeMerger) {
	l := &m.lists
	n := len(m.ids)
	for i, rank := range m.ranks[:n] {
		if rank != noMerge {
			l.add(rank, int32(i))
		}
	}
	for {
		rank, places, ok := l.next()
		if !ok {
			return
		}
		for i, at := range places {
			if m.ranks[at] != rank { // merged or changed since
				continue
			}
			early := false
			for _, changed := range b.join(m, at) {
				if changed >= 0 && m.ranks[changed] != noMerge {
					l.add(m.ranks[changed], changed)
					early = early || m.ranks[changed] <= rank
				}
			}
			if early {
				b.queueListed(m, rank, places[i+1:])
				return
			}
		}
	}
}

// queueListed moves the content of the lists into the queue, with places of a rank, and continues with it.
func (b *bpe) queueListed(m *bpeMerger, rank int32, places []int32) {
	for _, at := range places {
		m.queue.push(uint64(rank)<<32 | uint64(at))
	}
	for {
		rank, places, ok := m.lists.next()
		if !ok {
			break
		}
		for _, at := range places {
			m.queue.push(uint64(rank)<<32 | uint64(at))
		}
	}
	b.mergeQueued(m)
}
