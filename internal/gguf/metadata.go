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

// Uint reads a non-negative whole number of any numeric type; ok is false if the key is absent.
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
	case r.CanFloat() && r.Float() >= 0 && r.Float() < 1<<63 && r.Float() == math.Trunc(r.Float()):
		return uint64(r.Float()), true, nil
	case r.CanFloat():
		return 0, true, fmt.Errorf("%s: key %q is %v, not a whole number from 0 on", f.Path, key, r.Float())
	}
	return 0, true, f.wrongType(key, x, "an integer")
}

// Float reads a number.
func (f *File) Float(key string) (v float64, ok bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return 0, false, nil
	}
	if v, is := asFloat(reflect.ValueOf(x)); is {
		return v, true, nil
	}
	return 0, true, f.wrongType(key, x, "a number")
}

// asFloat returns a number of any type as a float64.
func asFloat(r reflect.Value) (v float64, ok bool) {
	switch {
	case r.CanFloat():
		return r.Float(), true
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	}
	return 0, false
}

// Bool reads a truth value, which may be a number: 0 is false, any other is true.
func (f *File) Bool(key string) (v, ok bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return false, false, nil
	}
	if v, is := asBool(reflect.ValueOf(x)); is {
		return v, true, nil
	}
	return false, true, f.wrongType(key, x, "a bool")
}

// asBool returns a truth value, or whether a number is not 0.
func asBool(r reflect.Value) (v, ok bool) {
	if r.Kind() == reflect.Bool {
		return r.Bool(), true
	}
	n, ok := asFloat(r)
	return n != 0, ok
}

// String reads a text.
func (f *File) String(key string) (v string, ok bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return "", false, nil
	}
	if v, is := x.(string); is {
		return v, true, nil
	}
	return "", true, f.wrongType(key, x, "a string")
}

// Strings reads an array of texts.
func (f *File) Strings(key string) ([]string, bool, error) {
	return array(f, key, "an array of strings", func(r reflect.Value) (string, bool) {
		return r.String(), r.Kind() == reflect.String
	})
}

// Bools reads an array of truth values, which may be numbers, as Bool does.
func (f *File) Bools(key string) ([]bool, bool, error) {
	return array(f, key, "an array of bools", asBool)
}

// Float32s reads an array of numbers of any type.
func (f *File) Float32s(key string) ([]float32, bool, error) {
	return array(f, key, "an array of numbers", func(r reflect.Value) (float32, bool) {
		v, ok := asFloat(r)
		return float32(v), ok
	})
}

// Int32s reads an array of whole numbers of any type that fit int32.
func (f *File) Int32s(key string) ([]int32, bool, error) {
	return array(f, key, "an array of whole numbers of 32 bits", func(r reflect.Value) (int32, bool) {
		v, ok := asFloat(r)
		return int32(v), ok && v >= math.MinInt32 && v <= math.MaxInt32 && v == math.Trunc(v)
	})
}

// Uints reads an array of whole numbers from 0 on.
func (f *File) Uints(key string) ([]uint64, bool, error) {
	return array(f, key, "an array of whole numbers from 0 on", func(r reflect.Value) (uint64, bool) {
		switch {
		case r.CanUint():
			return r.Uint(), true
		case r.CanInt():
			return uint64(r.Int()), r.Int() >= 0
		}
		return 0, false
	})
}

// IDs reads one id from 0 to n-1 or an array of them, and leaves out other numbers. In existing files negative numbers
// and the largest of a type mean no id; strange reports whether there were others.
func (f *File) IDs(key string, n int) (ids []int32, strange bool, err error) {
	x, ok := f.Lookup(key)
	if !ok {
		return nil, false, nil
	}
	take := func(v float64) {
		switch {
		case v >= 0 && v < float64(n) && v == math.Trunc(v):
			ids = append(ids, int32(v))
		case !(v < 0 || v == math.MaxInt32 || v == math.MaxUint32 || v == math.MaxInt64 || v == math.MaxUint64):
			strange = true
		}
	}
	r := reflect.ValueOf(x)
	if v, is := asFloat(r); is {
		take(v)
		return ids, strange, nil
	}
	list, _, err := array(f, key, "a token's id or an array of them", asFloat)
	for _, v := range list {
		take(v)
	}
	return ids, strange, err
}

// array reads an array, each element with as. An empty one may be of any type, because some writers take the type from
// the elements.
func array[T any](f *File, key, want string, as func(element reflect.Value) (T, bool)) ([]T, bool, error) {
	x, ok := f.Lookup(key)
	if !ok {
		return nil, false, nil
	}
	if v, is := x.([]T); is {
		return v, true, nil
	}
	r := reflect.ValueOf(x)
	if r.Kind() != reflect.Slice {
		return nil, true, f.wrongType(key, x, want)
	}
	out := make([]T, r.Len())
	for i := range out {
		if out[i], ok = as(r.Index(i)); !ok {
			return nil, true, fmt.Errorf("%s: key %q is not %s: element %d does not fit", f.Path, key, want, i)
		}
	}
	return out, true, nil
}

// Override replaces or adds a key. typ is int, float, bool or str, as in llama.cpp's --override-kv.
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

// Set replaces or adds a key in memory. The value must have a type that files can hold.
func (f *File) Set(key string, v any) {
	if i, ok := f.index[key]; ok {
		f.Keys[i].Value = v
		return
	}
	f.index[key] = len(f.Keys)
	f.Keys = append(f.Keys, KV{key, v})
}
