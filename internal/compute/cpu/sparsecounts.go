package cpu

import (
	"math/bits"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// show counts the neurons that tokens needed.
func (f *sparseFFN) show(b *compute.NeuronBins) {
	lists := f.open
	if !f.all {
		lists = f.s
	}
	for t := range f.tokens {
		b.Add(f.w.First, lists.token(t))
	}
}

// bytes returns the bytes that were read of the weights.
func (f *sparseFFN) bytes(whole bool) int64 {
	first, total := f.w.Gate, int64(0)
	switch {
	case first == nil:
		first = f.w.Up
	case f.upped:
		total = rowsBytes(f.w.Up, int64(f.n))
	default:
		total = rowsBytes(f.w.Up, f.union(f.open))
	}
	if f.gated {
		total += rowsBytes(first, int64(f.n))
	} else {
		total += rowsBytes(first, f.union(f.s))
	}
	if whole {
		return total + int64(len(mem(f.w.Down).data))
	}
	return total + f.columnBytes(f.active[:(f.n+63)/64])
}

// columnBytes returns the bytes that were read of a layer's down projection. active are the neurons that some row
// needed.
func (f *sparseFFN) columnBytes(active []uint64) (total int64) {
	down := mem(f.w.Down)
	column, scales := int64(down.rowBytes), int64(0)
	if down.layout == groups {
		scales = int64(kernel.Super(f.out.Cols) * quant.QKK * 2)
		column = (column - scales) / kernel.GroupNeurons
	}
	for _, word := range active {
		total += int64(bits.OnesCount64(word)) * column
		if uint32(word) != 0 {
			total += scales
		}
		if word>>kernel.GroupNeurons != 0 {
			total += scales
		}
	}
	return total
}

// union counts the neurons that are in some token's list: their rows are read once for all tokens.
func (f *sparseFFN) union(lists *set) int64 { return f.unionOf(lists, 0, f.tokens) }

// unionOf is union of rows [from, to).
func (f *sparseFFN) unionOf(lists *set, from, to int) (n int64) {
	seen := grown(&f.seen, (f.n+63)/64)
	clear(seen)
	for t := from; t < to; t++ {
		for _, i := range lists.token(t) {
			if bit := uint64(1) << (i % 64); seen[i/64]&bit == 0 {
				seen[i/64] |= bit
				n++
			}
		}
	}
	return n
}

func rowsBytes(w *compute.Matrix, n int64) int64 { return n * int64(mem(w).rowBytes) }

// predicted counts the neurons of the sets.
func (f *sparseFFN) predicted() int64 {
	if f.all {
		return int64(f.tokens) * int64(f.n)
	}
	n := 0
	for t := range f.tokens {
		n += f.s.count[t]
	}
	return int64(n)
}

// countActive notes which of row t's listed neurons, in ascending order, have an a_i that is not zero.
func (f *sparseFFN) countActive(t int, list []int32, a []float32) {
	active := f.activeOf(t)
	count, at, word := 0, int32(0), uint64(0)
	for i, n := range list {
		if a[i] == 0 {
			continue
		}
		if n/64 != at {
			atomic.OrUint64(&active[at], word)
			at, word = n/64, 0
		}
		word |= 1 << (n % 64)
		count++
	}
	atomic.OrUint64(&active[at], word)
	f.counts[1].Add(int64(count))
}
