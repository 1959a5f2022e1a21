package neuron

import (
	"cmp"
	"fmt"
	"slices"
)

// Order says which neuron is stored where: Order[layer][i] is the original index of the neuron stored i-th. Hottest
// first makes every set of hot neurons a prefix. [layer][n_ff]
type Order [][]int32

// HotCounts is how many neurons of each layer are hot: of layer l, [0, HotCounts[l]) in the order. [layer]
type HotCounts []int

// Order is hottest first by count; neurons that are equally hot keep their order.
func (s *Stats) Order() Order {
	o := make(Order, len(s.Layers))
	for l, counts := range s.Layers {
		o[l] = make([]int32, len(counts))
		for i := range o[l] {
			o[l][i] = int32(i)
		}
		slices.SortStableFunc(o[l], func(a, b int32) int { return cmp.Compare(counts[b], counts[a]) })
	}
	return o
}

// Check returns an error for a layer that is not a permutation of its neurons. widths [layer] is n_ff of each layer.
func (o Order) Check(widths []int) error {
	if len(o) != len(widths) {
		return fmt.Errorf("an order of %d layers for a model of %d", len(o), len(widths))
	}
	for l, layer := range o {
		if len(layer) != widths[l] {
			return fmt.Errorf("layer %d: an order of %d neurons for a layer of %d", l, len(layer), widths[l])
		}
		seen := make([]bool, len(layer))
		for at, i := range layer {
			switch {
			case i < 0 || int(i) >= len(layer):
				return fmt.Errorf("layer %d: place %d of the order names neuron %d of %d", l, at, i, len(layer))
			case seen[i]:
				return fmt.Errorf("layer %d: the order names neuron %d twice", l, i)
			}
			seen[i] = true
		}
	}
	return nil
}

// Identity reports whether every neuron is stored at its own index, as in prepared files.
func (o Order) Identity() bool {
	for _, layer := range o {
		for at, i := range layer {
			if int(i) != at {
				return false
			}
		}
	}
	return true
}

// Inverse returns the place of each neuron: Inverse[layer][i] is that of the neuron with original index i. o must be
// valid.
func (o Order) Inverse() Order {
	inv := make(Order, len(o))
	for l, layer := range o {
		inv[l] = make([]int32, len(layer))
		for at, i := range layer {
			inv[l][i] = int32(at)
		}
	}
	return inv
}

// Check reports a hot count beyond its layer. widths [layer] is n_ff of each layer.
func (s HotCounts) Check(widths []int) error {
	if len(s) != len(widths) {
		return fmt.Errorf("hot counts of %d layers for a model of %d", len(s), len(widths))
	}
	for l, hot := range s {
		if hot < 0 || hot > widths[l] {
			return fmt.Errorf("layer %d: %d of %d neurons cannot be hot", l, hot, widths[l])
		}
	}
	return nil
}
