package jinja

import (
	"math/big"
	"unicode/utf8"
)

// A Value is a value of the template language, which are Python's:
//
//	None, bool, int64, *big.Int (beyond int64), float64, string, Markup,
//	*List, *Tuple, *Dict, *Undefined
//
// and values that only templates make: ranges, dict views, iterators, namespaces, macros, functions and loops. Values
// other than namespaces, iterators and the counters of loops and cyclers never change once a template can see them, so
// one value may serve many renderings at once.
type Value any

// None is Python's None.
type None struct{}

// Markup is a string that is HTML already, as the filters safe and escape return it.
type Markup string

// A List is a Python list.
type List struct{ Items []Value }

// A Tuple is a Python tuple. A tuple of groupby has names for its two items.
type Tuple struct {
	items []Value
	group bool
}

// Undefined is the value of names and attributes that do not exist. It prints as nothing, is empty and false, and any
// other use of it is an error that names it.
type Undefined struct {
	hint     string // the whole message, or empty
	name     Value  // the missing name
	obj      Value  // the object without it; nil for variables
	security bool   // the attribute exists, but templates may not use it
}

func (u *Undefined) fault() error {
	kind := ErrUndefined
	if u.security {
		kind = ErrSecurity
	}
	if u.hint != "" {
		return faultf(kind, "%s", u.hint)
	}
	if u.obj == nil {
		return faultf(kind, "%s is undefined", shortRepr(u.name))
	}
	if _, ok := u.name.(string); !ok {
		return faultf(kind, "%s has no element %s", objectName(u.obj), shortRepr(u.name))
	}
	return faultf(kind, "'%s' has no attribute %s", objectName(u.obj), shortRepr(u.name))
}

func objectName(v Value) string {
	if _, ok := v.(None); ok {
		return "None"
	}
	return typeName(v) + " object"
}

// A namespace is the object that {% set ns.name = … %} changes.
type namespace struct{ attrs *Dict }

// A rangeValue is Python's range.
type rangeValue struct{ start, stop, step, n int64 }

func (r rangeValue) at(i int64) int64 { return r.start + i*r.step }

// A view is the result of a dict's keys, values or items.
type view struct {
	dict *Dict
	kind string // "keys", "values" or "items"
}

func (v view) at(i int) Value {
	switch v.kind {
	case "keys":
		return v.dict.keys[i]
	case "values":
		return v.dict.vals[i]
	}
	return &Tuple{items: []Value{v.dict.keys[i], v.dict.vals[i]}}
}

// typeName returns the name that Python gives to the value's type.
func typeName(v Value) string {
	switch v := v.(type) {
	case None:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Markup:
		return "Markup"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *Undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case rangeValue:
		return "range"
	case view:
		return "dict_" + v.kind
	case *iterator:
		return v.kind
	case *macro:
		return "Macro"
	case *function:
		return "function"
	case *loop:
		return "LoopContext"
	case *cycler:
		return "Cycler"
	case *joiner:
		return "Joiner"
	}
	return "object"
}

// text returns the string in v, whether it is markup or not.
func text(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case None, *Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case Markup:
		return v != ""
	}
	if n, ok := length(v); ok {
		return n != 0
	}
	return true
}

// length returns Python's len(v); ok is false for values without a length.
func length(v Value) (n int, ok bool) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case Markup:
		return utf8.RuneCountInString(string(v)), true
	case *List:
		return len(v.Items), true
	case *Tuple:
		return len(v.items), true
	case *Dict:
		return v.Len(), true
	case rangeValue:
		return int(v.n), true
	case view:
		return v.dict.Len(), true
	case *Undefined:
		return 0, true
	}
	return 0, false
}
