package disk

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Speed is how fast a disk was read in pieces of one size, at one depth.
type Speed struct {
	Bytes   int64   `json:"bytes"`              // of a piece
	Depth   int     `json:"depth"`              // pieces read at once
	InOrder bool    `json:"in_order,omitempty"` // one after the other; otherwise at random offsets
	Read    float64 `json:"read"`               // bytes per second
}

// PerSecond returns how many pieces were read in a second.
func (s Speed) PerSecond() float64 { return s.Read / float64(s.Bytes) }

// Speeds are the speeds of one disk, as Measure returns them.
type Speeds []Speed

// Check reports figures that no disk has.
func (s Speeds) Check() error {
	for _, v := range s {
		if v.Bytes < 1 || v.Depth < 1 || !(v.Read > 0 && v.Read < 1e15) {
			return fmt.Errorf("%g bytes/s in pieces of %d bytes, %d at a time, is no speed of a disk", v.Read, v.Bytes, v.Depth)
		}
	}
	return nil
}

// InOrder returns the speed of reading in order; 0: it was not measured. [bytes per second]
func (s Speeds) InOrder() float64 {
	best := 0.0
	for _, v := range s {
		if v.InOrder {
			best = max(best, v.Read)
		}
	}
	return best
}

// best returns the fastest speed of each size at random offsets, up to this depth, by rising size.
func (s Speeds) best(depth int) []Speed {
	fastest := map[int64]Speed{}
	for _, v := range s {
		if !v.InOrder && v.Depth <= depth && v.Read > fastest[v.Bytes].Read {
			fastest[v.Bytes] = v
		}
	}
	var list []Speed
	for _, v := range fastest {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b Speed) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return list
}

// At returns the speed of reads of this many bytes at random offsets at the best depth; 0 if nothing was measured.
// Between two measured sizes, the time of a piece is interpolated. A smaller piece takes as long as the smallest, a
// larger one is read as fast as the largest. [bytes per second]
func (s Speeds) At(size int64) float64 { return s.AtDepth(size, math.MaxInt) }

// AtDepth is At for at most this many reads at once.
func (s Speeds) AtDepth(size int64, depth int) float64 {
	list := s.best(depth)
	if len(list) == 0 || size < 1 {
		return 0
	}
	i, found := slices.BinarySearchFunc(list, size, func(v Speed, size int64) int { return cmp.Compare(v.Bytes, size) })
	switch {
	case found || i == len(list):
		return list[min(i, len(list)-1)].Read
	case i == 0:
		return float64(size) * list[0].PerSecond()
	}
	less, more := list[i-1], list[i]
	part := float64(size-less.Bytes) / float64(more.Bytes-less.Bytes)
	return float64(size) / ((1-part)/less.PerSecond() + part/more.PerSecond())
}

// enough is the part of the best speed that Depth asks for.
const enough = 0.95

// Depth returns how many pieces of this many bytes must be read at once for 95 % of the best speed. For a size that was
// not measured it is that of the next smaller one, which needs no fewer. It is 1 if nothing was measured.
func (s Speeds) Depth(size int64) int {
	list := s.best(math.MaxInt)
	if len(list) == 0 {
		return 1
	}
	best := list[0]
	for _, v := range list {
		if v.Bytes <= size {
			best = v
		}
	}
	depth := best.Depth
	for _, v := range s {
		if !v.InOrder && v.Bytes == best.Bytes && v.Read >= enough*best.Read {
			depth = min(depth, v.Depth)
		}
	}
	return depth
}
