package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// series are the values of one metric by the values of its labels.
type series[T any] struct {
	name, help string
	labels     []string
	begin      func() *T // a value that nothing was counted in

	mu sync.Mutex
	of map[string]*T // by the labels' values, with a separator after each
}

// separator is in no valid text.
const separator = "\xff"

func newSeries[T any](name, help string, begin func() *T, labels ...string) *series[T] {
	return &series[T]{name: name, help: help, labels: labels, begin: begin, of: map[string]*T{}}
}

// at returns the value for these values of the labels.
func (s *series[T]) at(values ...string) *T {
	key := ""
	for _, v := range values {
		key += strings.ToValidUTF8(v, "\ufffd") + separator
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.of[key]
	if v == nil {
		v = s.begin()
		s.of[key] = v
	}
	return v
}

// each calls do for every value, in the order of the labels' values.
func (s *series[T]) each(do func(labels []label, v *T)) {
	s.mu.Lock()
	all := maps.Clone(s.of)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var labels []label
		for i, v := range strings.Split(key, separator)[:len(s.labels)] {
			labels = append(labels, label{s.labels[i], v})
		}
		do(labels, all[key])
	}
}

// A histogram counts values by the least bound that they do not exceed.
type histogram struct {
	bounds []float64 // rising

	mu     sync.Mutex
	counts []uint64 // one more than bounds: the last is of values beyond
	sum    float64
}

// histograms returns the histograms of one metric.
func histograms(name, help string, bounds []float64, labels ...string) *series[histogram] {
	return newSeries(name, help, func() *histogram { return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)} }, labels...)
}

// observe counts v.
func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += v
}

// counters returns the counters of one metric.
func counters(name, help string, labels ...string) *series[atomic.Int64] {
	return newSeries(name, help, func() *atomic.Int64 { return new(atomic.Int64) }, labels...)
}

// rising returns n bounds. The first is first, and each further one is twice the one before it.
func rising(first float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = first * float64(uint64(1)<<i)
	}
	return out
}
