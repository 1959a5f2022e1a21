package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomMerges returns merges of symbols: of a trained list each makes a new symbol of earlier ones; of another one
// they are in no order, and symbols are made in several ways.
func randomMerges(random *rand.Rand, symbols, count int, trained bool) *bpe {
	b := &bpe{merges: newPairTable(count)}
	type line struct{ left, right, made int32 }
	var lines []line
	for i := range count {
		made := int32(symbols + i)
		known := symbols + i
		if !trained {
			made, known = int32(random.IntN(symbols+count)), symbols+count
		}
		lines = append(lines, line{int32(random.IntN(known)), int32(random.IntN(known)), made})
	}
	for rank, l := range lines {
		if _, _, ok := b.merges.get(l.left, l.right); !ok {
			b.merges.set(l.left, l.right, int32(rank), l.made)
		}
	}
	return b
}

// TestMergeListed: very long words are merged as with a queue.
func TestMergeListed(t *testing.T) {
	const seed = 5
	random := rand.New(rand.NewPCG(seed, seed))
	merged := 0
	for round := range 40 {
		symbols := 1 + random.IntN(4)
		b := randomMerges(random, symbols, 1+random.IntN(40), round%2 == 0)
		ids := make([]int32, longestQueued+1+random.IntN(longestQueued))
		for i := range ids {
			if round%3 > 0 || i == 0 { // else all are equal
				ids[i] = int32(random.IntN(symbols))
			}
		}
		var got, want bpeMerger
		for _, m := range []*bpeMerger{&got, &want} {
			m.ids, m.starts = slices.Clone(ids), make([]int32, len(ids))
			for i := range m.starts {
				m.starts[i] = int32(i)
			}
		}
		b.merge(&got)
		// The definition: the pair of the lowest rank, and of those the left one, until there is none.
		b.mergeByDefinition(&want)
		if !slices.Equal(got.ids, want.ids) || !slices.Equal(got.starts, want.starts) {
			t.Fatalf("seed %d, round %d: %d symbols are left, and by definition %d", seed, round, len(got.ids), len(want.ids))
		}
		merged += len(ids) - len(got.ids)
		if len(got.lists.places) != 0 || len(got.lists.ranks) != 0 || slices.ContainsFunc(got.lists.last, func(n int32) bool { return n != 0 }) {
			t.Fatal("lists are not left empty")
		}
	}
	if merged < longestQueued {
		t.Errorf("%d merges in all", merged)
	}
}

// mergeByDefinition merges as mergeShort does, which looks through all pairs.
func (b *bpe) mergeByDefinition(m *bpeMerger) {
	n := len(m.ids)
	m.ranks, m.made = grow(m.ranks, n), grow(m.made, n)
	for i := range n - 1 {
		b.pair(m, int32(i), int32(i+1))
	}
	b.mergeShort(m)
}

// TestPlacesInOrder: long lists, which are sorted by digits, are in order.
func TestPlacesInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l rankLists
	var want []int32
	for range 5000 {
		at := int32(random.IntN(1 << 30))
		l.add(7, at)
		want = append(want, at)
	}
	slices.Sort(want)
	if rank, got, ok := l.next(); !ok || rank != 7 || !slices.Equal(got, want) {
		t.Errorf("rank %d, %d places in another order", rank, len(got))
	}
}
