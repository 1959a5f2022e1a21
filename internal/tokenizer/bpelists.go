package tokenizer

import "slices"

// longestQueued is the number of symbols up to which a queue of pairs is quicker than lists of them. The lists' time
// grows with a word's length and no faster.
const longestQueued = 1 << 12

// rankLists hold the places of pairs that can be merged, a list for each rank. Merging takes one list after the other,
// the lowest rank first, each from left to right: what a merge makes can as a rule only be merged at a higher rank, so
// that no list grows any more once it is its turn.
type rankLists struct {
	last   []int32     // rank -> 1 more than its last entry; 0: none
	places []rankPlace // all entries
	ranks  rankQueue   // those that have entries
	turn   []int32     // the places of the rank whose turn it is
	sorted []int32     // scratch of sorting them
}

// rankPlace is an entry: where a pair begins, and 1 more than the entry before it of the same rank.
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

// sort sorts turn: long lists by digits, in time that grows with their length.
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

// mergeListed merges the symbols of a very long word. Where a merge makes what an earlier line of the list merges,
// which no trained list has, all that is left goes into the queue.
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

// queueListed moves what is in the lists into the queue, with places of a rank, and goes on by it.
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
