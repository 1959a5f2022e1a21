package convert

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// fields is an object of a JSON file that is read key by key. It keeps the first error.
type fields struct {
	path string // the file, and the object's key in it
	of   map[string]json.RawMessage
	err  error
}

// within returns the object of a key, or one without fields if there is none. It does not keep its errors.
func (f *fields) within(key string) *fields {
	in := &fields{path: fmt.Sprintf("%s: key %q", f.path, key)}
	if raw, ok := f.find(key); ok {
		in.err = checkpoint.DecodeJSON(in.path, raw, &in.of)
	}
	return in
}

// find returns the value of the first of keys that is present and not null.
func (f *fields) find(keys ...string) (json.RawMessage, bool) {
	for _, key := range keys {
		if raw := f.of[key]; len(raw) > 0 && string(raw) != "null" {
			return raw, true
		}
	}
	return nil, false
}

func (f *fields) has(keys ...string) bool {
	_, ok := f.find(keys...)
	return ok
}

func (f *fields) fail(key, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: key %q: %s", f.path, key, fmt.Sprintf(format, args...))
	}
}

// count returns the number, from 1 to most, under the first of these names that is present, or def if none is; def 0:
// one must be. If the file has a list of equal numbers, such as width and height, it returns the first.
func (f *fields) count(def, most int, keys ...string) int {
	raw, ok := f.find(keys...)
	if !ok {
		if def == 0 {
			f.fail(keys[0], "it is missing")
		}
		return max(1, def)
	}
	var n int
	var list []int
	switch {
	case json.Unmarshal(raw, &n) == nil:
	case json.Unmarshal(raw, &list) == nil && len(list) > 0:
		n = list[0]
		for _, other := range list {
			if other != n {
				f.fail(keys[0], "%.40s are not equal", raw)
			}
		}
	default:
		f.fail(keys[0], "%.40s is not a whole number", raw)
	}
	if n < 1 || n > most {
		f.fail(keys[0], "%d is outside 1…%d", n, most)
		return 1
	}
	return n
}

// number returns a finite number, or def if it is absent.
func (f *fields) number(def float64, key string) float64 {
	raw, ok := f.find(key)
	if !ok {
		return def
	}
	n := math.NaN()
	if json.Unmarshal(raw, &n) != nil || math.IsNaN(n) {
		f.fail(key, "%.40s is not a number", raw)
		return def
	}
	return n
}

// text returns a text, or def if it is absent.
func (f *fields) text(def, key string) string {
	raw, ok := f.find(key)
	if !ok {
		return def
	}
	s := def
	if json.Unmarshal(raw, &s) != nil {
		f.fail(key, "%.40s is not a text", raw)
	}
	return s
}

// read decodes a key's value into v, which stays as it is if the key is absent.
func (f *fields) read(key string, v any) {
	if raw, ok := f.find(key); ok && f.err == nil {
		f.err = checkpoint.DecodeJSON(fmt.Sprintf("%s: key %q", f.path, key), raw, v)
	}
}
