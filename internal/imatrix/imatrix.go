// Package imatrix holds importance matrices: the average size of the inputs of each of a model's matrices, element by
// element. Quantising with one keeps the weights precise that meet large inputs. Files are llama.cpp's, in the current
// GGUF form and in the older one.
//
// Source: llama.cpp's tools/imatrix and common/imatrix-loader.cpp (at 3f545bec).
package imatrix

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Matrix is the collection of one or several texts.
type Matrix struct {
	Datasets    []string // the texts' names
	Chunks      int      // of ChunkTokens tokens each
	ChunkTokens int      // 0: not known, as in files of the older form
	Entries     map[string]*Entry
}

// Entry is the collection for one tensor, which may hold several matrices, one for each expert.
type Entry struct {
	Sums   []float32 // Σ x² of the inputs, element by element; matrix after matrix
	Counts []int64   // inputs of each matrix
}

// New returns an empty matrix.
func New(chunkTokens int) *Matrix {
	return &Matrix{ChunkTokens: chunkTokens, Entries: map[string]*Entry{}}
}

// Names returns the names of the entries' tensors, sorted.
func (m *Matrix) Names() []string { return slices.Sorted(maps.Keys(m.Entries)) }

// Keep removes the entries with names that wanted does not accept.
func (m *Matrix) Keep(wanted func(name string) bool) {
	maps.DeleteFunc(m.Entries, func(name string, _ *Entry) bool { return !wanted(name) })
}

// cols returns the number of elements of an input.
func (e *Entry) cols() int { return len(e.Sums) / len(e.Counts) }

// Mean returns the mean squares of the inputs, matrix after matrix. A matrix without inputs has ones, because nothing
// is known of it.
func (e *Entry) Mean() []float32 {
	mean := make([]float32, len(e.Sums))
	cols := e.cols()
	for i, n := range e.Counts {
		for j := i * cols; j < (i+1)*cols; j++ {
			if mean[j] = 1; n > 0 {
				mean[j] = e.Sums[j] / float32(n)
			}
		}
	}
	return mean
}

// Missing returns how many of the entry's matrices had no inputs.
func (e *Entry) Missing() (n int) {
	for _, c := range e.Counts {
		if c == 0 {
			n++
		}
	}
	return n
}

// Add adds another matrix's sums. The older form, which knows only chunks, counts as the inputs of that many of m's
// chunks. Errors name what does not fit.
func (m *Matrix) Add(other *Matrix) error {
	inputs := 1 // for each count
	if other.ChunkTokens == 0 {
		inputs = max(1, m.ChunkTokens)
	}
	for _, name := range other.Names() {
		from, to := other.Entries[name], m.Entries[name]
		if to == nil {
			to = &Entry{make([]float32, len(from.Sums)), make([]int64, len(from.Counts))}
			m.Entries[name] = to
		}
		if !to.spread(len(from.Counts)) || len(to.Sums) != len(from.Sums) {
			return fmt.Errorf("%q has %d sums and %d counts in one matrix, %d and %d in another: they are not of the same model",
				name, len(to.Sums), len(to.Counts), len(from.Sums), len(from.Counts))
		}
		for i, v := range from.Sums {
			to.Sums[i] += v * float32(inputs)
		}
		for i := range to.Counts {
			to.Counts[i] += from.Counts[i%len(from.Counts)] * int64(inputs)
		}
	}
	m.Datasets = append(m.Datasets, other.Datasets...)
	if m.ChunkTokens == 0 {
		m.ChunkTokens = other.ChunkTokens
	}
	m.Chunks += other.Chunks
	return nil
}

// spread turns one count for all matrices into a count for each, and reports whether there are n then, or one to be
// added for all.
func (e *Entry) spread(n int) bool {
	if len(e.Counts) == 1 && n > 1 {
		e.Counts = slices.Repeat(e.Counts, n)
	}
	return len(e.Counts) == n || n == 1
}

// check refuses entries with inconsistent sizes and numbers that cannot be sums of squares.
func (e *Entry) check() error {
	if len(e.Counts) == 0 || len(e.Sums) == 0 || len(e.Sums)%len(e.Counts) != 0 {
		return fmt.Errorf("%d sums do not go with %d counts", len(e.Sums), len(e.Counts))
	}
	for _, n := range e.Counts {
		if n < 0 {
			return fmt.Errorf("a count is %d", n)
		}
	}
	for _, v := range e.Sums {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("a sum of squares is %g", v)
		}
	}
	return nil
}
