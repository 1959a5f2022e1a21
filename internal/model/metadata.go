package model

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// metadata reads keys of one file and keeps the first error, so that a list of reads needs one check.
type metadata struct {
	f       *gguf.File
	further int // layers that arrays have numbers of behind those of the model's
	err     error
}

func (m *metadata) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%s: %s", m.f.Path, fmt.Sprintf(format, args...))
	}
}

// count reads an integer in [1, max]; absent is def, and an error where def is 0.
func (m *metadata) count(key string, def, max int) int {
	v, ok, err := m.f.Uint(key)
	switch {
	case err != nil:
		if m.err == nil {
			m.err = err
		}
	case !ok && def == 0:
		m.fail("key %q is missing", key)
	case !ok:
		return def
	case v < 1 || v > uint64(max):
		m.fail("key %q: %d is outside 1…%d", key, v, max)
	default:
		return int(v)
	}
	return 1
}

// counts reads an integer in [1, maxWidth] for each of n layers: one for all of them, or an array. Absent is def, and
// an error where def is nil.
func (m *metadata) counts(key string, n int, def func(layer int) int) []int {
	return m.countsFrom(1, key, n, def)
}

// countsFrom is counts of integers from least on.
func (m *metadata) countsFrom(least int32, key string, n int, def func(layer int) int) []int {
	out := make([]int, n)
	if v, ok := m.f.Lookup(key); ok && reflect.ValueOf(v).Kind() == reflect.Slice {
		list, _, err := m.f.Int32s(key)
		switch {
		case err != nil && m.err == nil:
			m.err = err
		case err == nil && len(list) != n && len(list) != n+m.further:
			m.fail("key %q: %d numbers for %d layers", key, len(list), n)
		}
		for l := range out {
			out[l] = 1
			switch {
			case m.err != nil:
			case list[l] < least || list[l] > maxWidth:
				m.fail("key %q: %d of layer %d is outside %d…%d", key, list[l], l, least, maxWidth)
			default:
				out[l] = int(list[l])
			}
		}
		return out
	}
	if v, ok, err := m.f.Uint(key); least == 0 && ok && err == nil && v == 0 {
		return out
	}
	if _, ok := m.f.Lookup(key); ok || def == nil {
		return slices.Repeat([]int{m.count(key, 0, maxWidth)}, n)
	}
	for l := range out {
		out[l] = def(l)
	}
	return out
}

func (m *metadata) float(key string, def float64) float64 {
	v, ok, err := m.f.Float(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

// within returns a number from low to high, which NaN is not.
func (m *metadata) within(key string, def, low, high float64) float64 {
	v := m.float(key, def)
	if !(v >= low && v <= high) {
		m.fail("key %q: %g is not a number from %g to %g", key, v, low, high)
	}
	return v
}

func (m *metadata) flag(key string, def bool) bool {
	v, ok, err := m.f.Bool(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

// divided reports whether a file divides the pairs of heads among the coordinates of pictures.
func (m *metadata) divided(key string) bool {
	v, _, err := m.f.Int32s(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	return slices.ContainsFunc(v, func(n int32) bool { return n != 0 })
}

func (m *metadata) text(key, def string) string {
	v, ok, err := m.f.String(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}
