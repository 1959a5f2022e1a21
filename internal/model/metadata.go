package model

import (
	"cmp"
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

// count reads an integer in [1, max]. If it is absent or 0, by which writers say that a file has none, count returns def;
// where def is 0, too, that is an error.
func (m *metadata) count(key string, def, max int) int {
	v, ok, err := m.f.Uint(key)
	ok = ok && (v > 0 || def == 0)
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

// optional reads an integer in [1, max]; absent and 0 are 0.
func (m *metadata) optional(key string, max int) int {
	if v, ok, err := m.f.Uint(key); err == nil && (!ok || v == 0) {
		return 0
	}
	return m.count(key, 0, max)
}

// counts reads an integer in [1, maxWidth] for each of n layers: one for all of them, or an array. Where it is absent or
// 0, def says it; if def is nil, that is an error.
func (m *metadata) counts(key string, n int, def func(layer int) int) []int {
	return m.countsFrom(1, key, n, def)
}

// countsFrom is counts of integers from least on; 0 is def only below least.
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
			case list[l] == 0 && least > 0 && def != nil:
				out[l] = def(l)
			case list[l] < least || list[l] > maxWidth:
				m.fail("key %q: %d of layer %d is outside %d…%d", key, list[l], l, least, maxWidth)
			default:
				out[l] = int(list[l])
			}
		}
		return out
	}
	v, ok, err := m.f.Uint(key)
	if none := ok && err == nil && v == 0; none && least == 0 {
		return out
	} else if ok && !(none && def != nil) || def == nil {
		return slices.Repeat([]int{m.count(key, 0, maxWidth)}, n)
	}
	for l := range out {
		out[l] = def(l)
	}
	return out
}

// perLayer reads an array that says yes or no of each of n layers. It returns false where the key has no array.
func (m *metadata) perLayer(key string, n int) (yes []bool, said bool) {
	if v, ok := m.f.Lookup(key); !ok || reflect.ValueOf(v).Kind() != reflect.Slice {
		return nil, false
	}
	yes, _, err := m.f.Bools(key)
	switch {
	case err != nil:
		m.err = cmp.Or(m.err, err)
	case len(yes) != n && len(yes) != n+m.further:
		m.fail("key %q: %d values for %d layers", key, len(yes), n)
	default:
		return yes[:n:n], true
	}
	return nil, false
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

// within returns a number from low to high, which NaN is not. If it is absent, it is def, and likewise if it is 0 and low
// is more: so writers say that a file has none.
func (m *metadata) within(key string, def, low, high float64) float64 {
	v := m.float(key, def)
	if v == 0 && low > 0 {
		v = def
	}
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

// text reads a text; absent and empty are def.
func (m *metadata) text(key, def string) string {
	v, _, err := m.f.String(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	return cmp.Or(v, def)
}
