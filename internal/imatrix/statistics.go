package imatrix

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Statistics describes the mean squares of one tensor's inputs, as llama-imatrix --show-statistics does.
type Statistics struct {
	Name      string
	Layer     int    // −1: the tensor is in none
	Part      string // the name without the layer
	Elems     int    // of matrices that had inputs
	Sum       float64
	Min, Max  float64
	Mean      float64
	Deviation float64 // the standard deviation
	Active    float64 // share of elements above 1e-5
	Entropy   float64 // bits, of the elements' shares of the sum
	Outlying  float64 // share of elements more than a deviation above the mean
	Alike     float64 // cosine with the same tensor's sums in the layer before; 0 if there is none
}

// inactive is the largest mean square of an element that counts as inactive.
const inactive = 1e-5

// Statistics describes all tensors with inputs: by part, and within a part by sum, the largest first.
func (m *Matrix) Statistics() []Statistics {
	var all []Statistics
	for name, e := range m.Entries {
		s := Statistics{Name: name}
		s.Layer, s.Part = layerOf(name)
		if !s.describe(e) {
			continue
		}
		if before := m.Entries[fmt.Sprintf("blk.%d.%s", s.Layer-1, s.Part)]; s.Layer > 0 && before != nil {
			s.Alike = cosine(e.Sums, before.Sums)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Statistics) int {
		return cmp.Or(strings.Compare(a.Part, b.Part), cmp.Compare(b.Sum, a.Sum), strings.Compare(a.Name, b.Name))
	})
	return all
}

// describe sets the figures that depend only on e, and reports whether there were inputs.
func (s *Statistics) describe(e *Entry) bool {
	var x []float64
	cols := e.cols()
	for i, n := range e.Counts {
		for j := i * cols; n > 0 && j < (i+1)*cols; j++ {
			x = append(x, float64(e.Sums[j])/float64(n))
		}
	}
	if len(x) == 0 {
		return false
	}
	s.Elems, s.Min, s.Max = len(x), slices.Min(x), slices.Max(x)
	var squares float64
	active := 0
	for _, v := range x {
		s.Sum += v
		squares += v * v
		if v > inactive {
			active++
		}
	}
	n := float64(len(x))
	s.Mean, s.Active = s.Sum/n, float64(active)/n
	s.Deviation = math.Sqrt(max(0, squares/n-s.Mean*s.Mean))
	outlying := 0
	for _, v := range x {
		if v > 0 {
			s.Entropy -= v / s.Sum * math.Log2(v/s.Sum)
		}
		if s.Deviation > 0 && (v-s.Mean)/s.Deviation > 1 {
			outlying++
		}
	}
	s.Outlying = float64(outlying) / n
	return true
}

// cosine returns the cosine of the angle between two vectors; 0 if their lengths differ or one is zero.
func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var ab, aa, bb float64
	for i, v := range a {
		ab += float64(v) * float64(b[i])
		aa += float64(v) * float64(v)
		bb += float64(b[i]) * float64(b[i])
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// layerOf takes a tensor's name apart.
func layerOf(name string) (layer int, part string) {
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		if number, part, ok := strings.Cut(rest, "."); ok {
			if n, err := strconv.Atoi(number); err == nil && n >= 0 {
				return n, part
			}
		}
	}
	return -1, name
}
