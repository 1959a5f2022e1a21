// Package neuron is plain data about the neurons of a model's feed-forward layers: how often each is active, in
// which order they are stored, and how many of each layer are hot. Layers may differ in width. It reads no files.
package neuron

import (
	"cmp"
	"fmt"
	"math"
)

// Stats counts activations over a calibration text. A neuron is active for a token if its activation is not zero.
type Stats struct {
	Tokens uint64      // tokens observed
	Layers [][]uint32  // [layer][n_ff] tokens for which the neuron was active
	Mass   [][]float32 // [layer][n_ff] Σ|a_i|·‖d_i‖ over the tokens: the neuron's contribution to the residual; or nil
}

// New is empty statistics of layers with n_ff neurons each.
func New(layers, ff int) *Stats {
	s := &Stats{Layers: make([][]uint32, layers)}
	for l := range s.Layers {
		s.Layers[l] = make([]uint32, ff)
	}
	return s
}

// Check reports counts above the number of tokens and masses that are no masses.
func (s *Stats) Check() error {
	if s.Tokens > math.MaxUint32 {
		return fmt.Errorf("%d tokens are more than a neuron's count can hold", s.Tokens)
	}
	if s.Mass != nil && len(s.Mass) != len(s.Layers) {
		return fmt.Errorf("masses of %d layers beside counts of %d", len(s.Mass), len(s.Layers))
	}
	for l, counts := range s.Layers {
		for i, c := range counts {
			if uint64(c) > s.Tokens {
				return fmt.Errorf("layer %d: neuron %d was active for %d of %d tokens", l, i, c, s.Tokens)
			}
		}
		if s.Mass == nil {
			continue
		}
		if len(s.Mass[l]) != len(counts) {
			return fmt.Errorf("layer %d: %d masses beside %d counts", l, len(s.Mass[l]), len(counts))
		}
		for i, m := range s.Mass[l] {
			if !(m >= 0) || math.IsInf(float64(m), 1) {
				return fmt.Errorf("layer %d: neuron %d has a mass of %g", l, i, m)
			}
		}
	}
	return nil
}

// Add merges o, counted over other tokens of the same model, into s. If one of them has no masses, the sum has none.
func (s *Stats) Add(o *Stats) error {
	if len(s.Layers) != len(o.Layers) {
		return fmt.Errorf("statistics of %d and of %d layers do not belong to one model", len(s.Layers), len(o.Layers))
	}
	for l := range s.Layers {
		if len(s.Layers[l]) != len(o.Layers[l]) {
			return fmt.Errorf("layer %d: statistics of %d and of %d neurons do not belong to one model", l, len(s.Layers[l]), len(o.Layers[l]))
		}
	}
	if err := cmp.Or(s.Check(), o.Check()); err != nil {
		return err
	}
	if s.Tokens+o.Tokens > math.MaxUint32 {
		return fmt.Errorf("%d tokens are more than a neuron's count can hold", s.Tokens+o.Tokens)
	}
	s.Tokens += o.Tokens
	if s.Mass == nil || o.Mass == nil {
		s.Mass = nil
	}
	for l, counts := range o.Layers {
		for i, c := range counts {
			s.Layers[l][i] += c
		}
		if s.Mass == nil {
			continue
		}
		for i, m := range o.Mass[l] {
			s.Mass[l][i] += m
		}
	}
	return nil
}

// Permute is s with the neurons of every layer in the given order.
func (s *Stats) Permute(o Order) (*Stats, error) {
	widths := make([]int, len(s.Layers))
	for l := range widths {
		widths[l] = len(s.Layers[l])
	}
	if err := o.Check(widths); err != nil {
		return nil, err
	}
	p := &Stats{Tokens: s.Tokens}
	for l, layer := range o {
		p.Layers = append(p.Layers, apply(layer, s.Layers[l]))
		if s.Mass != nil {
			p.Mass = append(p.Mass, apply(layer, s.Mass[l]))
		}
	}
	return p, nil
}

func apply[T any](order []int32, values []T) []T {
	out := make([]T, len(values))
	for to, from := range order {
		out[to] = values[from]
	}
	return out
}

// Frequencies returns the share of tokens for which each neuron of a layer is active. [n_ff], 0…1; zeros without tokens
func (s *Stats) Frequencies(layer int) []float32 {
	out := make([]float32, len(s.Layers[layer]))
	if s.Tokens == 0 {
		return out
	}
	for i, c := range s.Layers[layer] {
		out[i] = float32(float64(c) / float64(s.Tokens))
	}
	return out
}

// Sparsity returns the share of inactive (token, neuron) pairs of a layer, 0…1; 0 if nothing was observed.
func (s *Stats) Sparsity(layer int) float64 {
	return sparsity(total(s.Layers[layer]), s.Tokens, len(s.Layers[layer]))
}

// Overall returns the share of inactive (token, neuron) pairs of all layers.
func (s *Stats) Overall() float64 {
	var active uint64
	neurons := 0
	for _, counts := range s.Layers {
		active += total(counts)
		neurons += len(counts)
	}
	return sparsity(active, s.Tokens, neurons)
}

func sparsity(active, tokens uint64, neurons int) float64 {
	if tokens == 0 || neurons == 0 {
		return 0
	}
	return 1 - float64(active)/float64(tokens)/float64(neurons)
}

// total returns the number of activations; 2³² neurons of 2³² tokens would fit.
func total(counts []uint32) uint64 {
	var n uint64
	for _, c := range counts {
		n += uint64(c)
	}
	return n
}

// AlwaysOn returns how many neurons of a layer are active for at least the share p of tokens; none if nothing was
// observed.
func (s *Stats) AlwaysOn(layer int, p float64) int {
	if s.Tokens == 0 {
		return 0
	}
	n := 0
	for _, c := range s.Layers[layer] {
		if float64(c)/float64(s.Tokens) >= p {
			n++
		}
	}
	return n
}
