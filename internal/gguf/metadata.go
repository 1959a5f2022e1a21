package gguf

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// Lookup returns the value of key as it was read.
func (f *File) Lookup(key string) (any, bool) {
	i, ok := f.index[key]
	if !ok {
		return nil, false
	}
	return f.Keys[i].Value, true
}

func (f *File) wrongType(key string, v any, want string) error {
	return fmt.Errorf("%s: key %q is a %T, not %s", f.Path, key, v, want)
}

// Uint reads a non-negative integer of any width; ok is false where the key is absent.
func (f *File) Uint(key string) (v uint64, ok bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return 0, false, nil
	}
	r := reflect.ValueOf(x)
	switch {
	case r.CanUint():
		return r.Uint(), true, nil
	case r.CanInt() && r.Int() >= 0:
		return uint64(r.Int()), true, nil
	case r.CanInt():
		return 0, true, fmt.Errorf("%s: key %q is negative: %d", f.Path, key, r.Int())
	}
	return 0, true, f.wrongType(key, x, "an integer")
}

// Float reads a number.
func (f *File) Float(key string) (v float64, ok bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return 0, false, nil
	}
	r := reflect.ValueOf(x)
	switch {
	case r.CanFloat():
		return r.Float(), true, nil
	case r.CanInt():
		return float64(r.Int()), true, nil
	case r.CanUint():
		return float64(r.Uint()), true, nil
	}
	return 0, true, f.wrongType(key, x, "a number")
}

func typed[T any](f *File, key, want string) (v T, ok bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return v, false, nil
	}
	if v, is := x.(T); is {
		return v, true, nil
	}
	return v, true, f.wrongType(key, x, want)
}

// Bool reads a truth value.
func (f *File) Bool(key string) (bool, bool, error) { return typed[bool](f, key, "a bool") }

// String reads a text.
func (f *File) String(key string) (string, bool, error) { return typed[string](f, key, "a string") }

// Strings reads an array of texts.
func (f *File) Strings(key string) ([]string, bool, error) {
	return typed[[]string](f, key, "an array of strings")
}

// Float32s reads an array of float32.
func (f *File) Float32s(key string) ([]float32, bool, error) {
	return typed[[]float32](f, key, "an array of float32")
}

// Int32s reads an array of integers of any width that fit int32.
func (f *File) Int32s(key string) ([]int32, bool, error) {
	x, ok := f.Lookup(key)
	if !ok {
		return nil, false, nil
	}
	if v, is := x.([]int32); is {
		return v, true, nil
	}
	r := reflect.ValueOf(x)
	if r.Kind() != reflect.Slice || !isInteger(r.Type().Elem()) {
		return nil, true, f.wrongType(key, x, "an array of integers")
	}
	out := make([]int32, r.Len())
	for i := range out {
		e := r.Index(i)
		switch {
		case e.CanInt() && e.Int() >= math.MinInt32 && e.Int() <= math.MaxInt32:
			out[i] = int32(e.Int())
		case e.CanUint() && e.Uint() <= math.MaxInt32:
			out[i] = int32(e.Uint())
		default:
			return nil, true, fmt.Errorf("%s: key %q: element %d does not fit a 32-bit integer", f.Path, key, i)
		}
	}
	return out, true, nil
}

func isInteger(t reflect.Type) bool {
	v := reflect.Zero(t)
	return v.CanInt() || v.CanUint()
}

// Override replaces or adds a key: typ is int, float, bool or str, as in llama.cpp's --override-kv.
func (f *File) Override(key, typ, value string) error {
	var v any
	var err error
	switch typ {
	case "int":
		v, err = strconv.ParseInt(value, 10, 64)
	case "float":
		v, err = strconv.ParseFloat(value, 64)
	case "bool":
		v, err = strconv.ParseBool(value)
	case "str":
		v = value
	default:
		return fmt.Errorf("override of key %q: type %q is not one of int, float, bool, str", key, typ)
	}
	if err != nil {
		return fmt.Errorf("override of key %q: %q is no %s", key, value, typ)
	}
	f.Set(key, v)
	return nil
}

// Set replaces or adds a key in memory; the value's type is one that files have.
func (f *File) Set(key string, v any) {
	if i, ok := f.index[key]; ok {
		f.Keys[i].Value = v
		return
	}
	f.index[key] = len(f.Keys)
	f.Keys = append(f.Keys, KV{key, v})
}
