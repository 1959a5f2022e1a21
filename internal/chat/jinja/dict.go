package jinja

import (
	"math"
	"math/big"
	"strconv"
)

// A Dict is a Python dict: it keeps the order in which keys were first set.
// The zero Dict is empty and ready to use.
type Dict struct {
	keys, vals []Value
	index      map[any]int // hash key to position, if there are more than indexFrom entries
}

// indexFrom is the size from which a dict has an index: below it comparing keys one by one is faster.
const indexFrom = 12

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// Set sets the entry of a string key.
func (d *Dict) Set(key string, v Value) {
	if i := d.findString(key); i >= 0 {
		d.vals[i] = v
		return
	}
	d.add(key, key, v)
}

// Get returns the entry of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	if i := d.findString(key); i >= 0 {
		return d.vals[i], true
	}
	return nil, false
}

// All calls yield for each entry, in order.
func (d *Dict) All(yield func(key, v Value) bool) {
	for i, k := range d.keys {
		if !yield(k, d.vals[i]) {
			return
		}
	}
}

func (d *Dict) findString(key string) int {
	if d.index != nil {
		if i, ok := d.index[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range d.keys {
		if s, ok := text(k); ok && s == key {
			return i
		}
	}
	return -1
}

func (d *Dict) add(hash any, key, v Value) {
	d.keys, d.vals = append(d.keys, key), append(d.vals, v)
	if d.index != nil {
		d.index[hash] = len(d.keys) - 1
		return
	}
	if len(d.keys) <= indexFrom {
		return
	}
	d.index = make(map[any]int, 2*len(d.keys))
	for i, k := range d.keys {
		h, _ := hashKey(k, 0)
		d.index[h] = i
	}
}

// find returns the position of key, or -1; it fails if the key cannot be hashed.
func (d *Dict) find(key Value) (int, error) {
	if s, ok := text(key); ok {
		return d.findString(s), nil
	}
	h, err := hashKey(key, 0)
	if err != nil {
		return -1, err
	}
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i, nil
		}
		return -1, nil
	}
	for i, k := range d.keys {
		if kh, _ := hashKey(k, 0); kh == h {
			return i, nil
		}
	}
	return -1, nil
}

func (d *Dict) put(key, v Value) error {
	if s, ok := text(key); ok {
		if i := d.findString(s); i >= 0 {
			d.vals[i] = v
		} else {
			d.add(s, key, v)
		}
		return nil
	}
	i, err := d.find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.vals[i] = v
		return nil
	}
	h, _ := hashKey(key, 0)
	d.add(h, key, v)
	return nil
}

// find returns the position of key in d, or -1, and counts the work and the memory of hashing it.
func (r *render) find(d *Dict, key Value) (int, error) {
	if err := r.hash(key, 0); err != nil {
		return -1, err
	}
	return d.find(key)
}

// put sets an entry of d, and counts the work and the memory of hashing its key.
func (r *render) put(d *Dict, key, v Value) error {
	if err := r.hash(key, 0); err != nil {
		return err
	}
	return d.put(key, v)
}

// hash counts what hashing a key takes: a string is read, and a tuple's strings are copied.
func (r *render) hash(key Value, depth int) error {
	if s, ok := text(key); ok {
		return r.scan(len(s))
	}
	t, ok := key.(*Tuple)
	if !ok {
		return nil
	}
	if depth > maxValueDepth {
		return faultf(ErrDepth, "a value is nested more than %d deep", maxValueDepth)
	}
	for _, item := range t.items {
		if err := r.work(1); err != nil {
			return err
		}
		s, _ := text(item)
		if err := r.grow(valueSize + len(s)); err != nil {
			return err
		}
		if err := r.hash(item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dict) clone() *Dict {
	c := &Dict{keys: append([]Value(nil), d.keys...), vals: append([]Value(nil), d.vals...)}
	if d.index != nil {
		c.index = make(map[any]int, len(d.index))
		for k, i := range d.index {
			c.index[k] = i
		}
	}
	return c
}

type (
	tupleKey     string
	bigKey       string
	undefinedKey struct{}
)

// hashKey returns a comparable value that is equal for keys that are equal in Python: 1, 1.0 and True are one key.
func hashKey(v Value, depth int) (any, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case Markup:
		return string(v), nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case *big.Int:
		return bigKey(v.String()), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), nil
		}
		return v, nil
	case *Undefined:
		return undefinedKey{}, nil
	case *Tuple:
		return hashTuple(v, depth)
	case *List, *Dict, view:
		return nil, typeErrorf("unhashable type: '%s'", typeName(v))
	}
	return v, nil
}

func hashTuple(t *Tuple, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, faultf(ErrDepth, "a value is nested more than %d deep", maxValueDepth)
	}
	var b []byte
	for _, item := range t.items {
		h, err := hashKey(item, depth+1)
		if err != nil {
			return nil, err
		}
		var part string
		switch h := h.(type) {
		case string:
			part = "s" + h
		case int64:
			part = "i" + strconv.FormatInt(h, 10)
		case float64:
			part = "f" + strconv.FormatFloat(h, 'g', -1, 64)
		case tupleKey:
			part = "t" + string(h)
		case bigKey:
			part = "b" + string(h)
		case None:
			part = "n"
		case undefinedKey:
			part = "u"
		default:
			return nil, typeErrorf("a tuple with a %s in it cannot be a key", typeName(item))
		}
		b = strconv.AppendInt(b, int64(len(part)), 10)
		b = append(append(b, ':'), part...)
	}
	return tupleKey(b), nil
}
