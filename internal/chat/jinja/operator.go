package jinja

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// binary returns a op b for + - * / // % and **.
func (r *render) binary(op string, a, b Value) (Value, error) {
	if v, ok, err := arithmetic(op, a, b); ok {
		return v, err
	}
	if u, ok := a.(*Undefined); ok {
		return nil, u.fault()
	}
	s, isText := text(a)
	if op == "%" && isText {
		v, err := r.percent(s, b)
		return like(a, v), err
	}
	if u, ok := b.(*Undefined); ok {
		return nil, u.fault()
	}
	switch op {
	case "+":
		if v, ok, err := r.add(a, b); ok {
			return v, err
		}
	case "*":
		if n, ok := small(b); ok {
			if v, ok, err := r.repeat(a, n); ok {
				return v, err
			}
		}
		if n, ok := small(a); ok {
			if v, ok, err := r.repeat(b, n); ok {
				return v, err
			}
		}
	}
	if isText && op == "+" {
		return nil, typeErrorf("can only concatenate str (not \"%s\") to str", typeName(b))
	}
	return nil, typeErrorf("unsupported operand types for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

// like returns s as markup if v is markup.
func like(v Value, s string) Value {
	if _, ok := v.(Markup); ok {
		return Markup(s)
	}
	return s
}

// add concatenates strings, lists or tuples; ok is false for anything else.
func (r *render) add(a, b Value) (v Value, ok bool, err error) {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			return x + y, true, r.grow(len(x) + len(y))
		case Markup:
			return Markup(escapeHTML(x)) + y, true, r.grow(6*len(x) + len(y))
		}
	case Markup:
		switch y := b.(type) {
		case string:
			return x + Markup(escapeHTML(y)), true, r.grow(len(x) + 6*len(y))
		case Markup:
			return x + y, true, r.grow(len(x) + len(y))
		}
	case *List:
		if y, ok := b.(*List); ok {
			items, err := r.concat(x.Items, y.Items)
			return &List{items}, true, err
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			items, err := r.concat(x.items, y.items)
			return &Tuple{items: items}, true, err
		}
	}
	return nil, false, nil
}

func (r *render) concat(a, b []Value) ([]Value, error) {
	if err := r.growTimes(len(a)+len(b), valueSize); err != nil {
		return nil, err
	}
	return append(append(make([]Value, 0, len(a)+len(b)), a...), b...), nil
}

// repeat returns a * n for strings, lists and tuples.
func (r *render) repeat(a Value, n int64) (v Value, ok bool, err error) {
	size := 1
	var items []Value
	switch a := a.(type) {
	case string:
		size = len(a)
	case Markup:
		size = len(a)
	case *List:
		items, size = a.Items, valueSize*len(a.Items)
	case *Tuple:
		items, size = a.items, valueSize*len(a.items)
	default:
		return nil, false, nil
	}
	n = max(n, 0)
	if size == 0 {
		n = 0
	}
	if n > math.MaxInt32 {
		return nil, true, r.grow(-1)
	}
	if err := r.growTimes(int(n), size); err != nil {
		return nil, true, err
	}
	if s, ok := text(a); ok {
		return like(a, strings.Repeat(s, int(n))), true, nil
	}
	all := make([]Value, 0, int(n)*len(items))
	for range n {
		all = append(all, items...)
	}
	if _, ok := a.(*Tuple); ok {
		return &Tuple{items: all}, true, nil
	}
	return &List{all}, true, nil
}

// compare is a op b for the comparisons, in and not in.
func (r *render) compare(op string, a, b Value) (bool, error) {
	if err := r.work(1); err != nil {
		return false, err
	}
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		ok, err := r.equal(a, b)
		return !ok, err
	case "in":
		return r.contains(b, a)
	case "not in":
		ok, err := r.contains(b, a)
		return !ok, err
	}
	c, ordered, err := r.order(a, b, 0)
	if err != nil {
		return false, err
	}
	if !ordered { // a NaN
		return false, nil
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// scan counts the work of reading n bytes or items.
func (r *render) scan(n int) error { return r.work(n / 64) }

// equal is a == b.
func (r *render) equal(a, b Value) (bool, error) { return r.equalAt(a, b, 0) }

func (r *render) equalAt(a, b Value, depth int) (bool, error) {
	if depth > maxValueDepth {
		return false, faultf(ErrDepth, "a value is nested more than %d deep", maxValueDepth)
	}
	if s, ok := text(a); ok {
		t, ok := text(b)
		if !ok || len(s) != len(t) {
			return false, nil
		}
		return s == t, r.scan(len(s))
	}
	if c, ordered, ok := compareNumbers(a, b); ok {
		return ordered && c == 0, nil
	}
	switch x := a.(type) {
	case None:
		_, ok := b.(None)
		return ok, nil
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok, nil
	case *List:
		if y, ok := b.(*List); ok {
			return r.equalItems(x.Items, y.Items, depth)
		}
		return false, nil
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return r.equalItems(x.items, y.items, depth)
		}
		return false, nil
	case *Dict:
		if y, ok := b.(*Dict); ok {
			return r.equalDicts(x, y, depth)
		}
		return false, nil
	case rangeValue:
		y, ok := b.(rangeValue)
		return ok && x.n == y.n && (x.n == 0 || x.start == y.start && (x.n == 1 || x.step == y.step)), nil
	case view:
		y, ok := b.(view)
		if ok && x.kind == "items" && y.kind == "items" {
			return r.equalDicts(x.dict, y.dict, depth)
		}
		if ok && x.kind == "keys" && y.kind == "keys" {
			return r.equalKeys(x.dict, y.dict)
		}
		return ok && x == y, nil
	}
	return sameObject(a, b), nil
}

func (r *render) equalItems(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if err := r.work(1); err != nil {
			return false, err
		}
		if ok, err := r.equalAt(a[i], b[i], depth+1); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (r *render) equalDicts(a, b *Dict, depth int) (bool, error) {
	if ok, err := r.equalKeys(a, b); err != nil || !ok {
		return false, err
	}
	for i, k := range a.keys {
		j, _ := b.find(k)
		if ok, err := r.equalAt(a.vals[i], b.vals[j], depth+1); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (r *render) equalKeys(a, b *Dict) (bool, error) {
	if a.Len() != b.Len() {
		return false, nil
	}
	for _, k := range a.keys {
		if err := r.work(1); err != nil {
			return false, err
		}
		if i, err := r.find(b, k); err != nil || i < 0 {
			return false, err
		}
	}
	return true, nil
}

// sameObject is Python's a is b.
func sameObject(a, b Value) bool {
	switch x := a.(type) {
	case *big.Int:
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0
	case *Undefined:
		y, ok := b.(*Undefined)
		return ok && x == y
	}
	return a == b // values are comparable: the composite ones are pointers
}

// compareNumbers compares two numbers; ordered is false for a NaN, ok is false if one is not a number.
func compareNumbers(a, b Value) (c int, ordered, ok bool) {
	if x, xok := small(a); xok {
		if y, yok := small(b); yok {
			return cmp.Compare(x, y), true, true
		}
	}
	if x, xok := integer(a); xok {
		if y, yok := integer(b); yok {
			return x.Cmp(y), true, true
		}
	}
	x, xok := float(a)
	y, yok := float(b)
	if !xok || !yok {
		return 0, false, false
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return 0, false, true
	}
	if math.IsInf(x, 0) || math.IsInf(y, 0) {
		return cmp.Compare(x, y), true, true
	}
	return exact(a).Cmp(exact(b)), true, true
}

// exact returns a finite number without rounding.
func exact(v Value) *big.Rat {
	if f, ok := v.(float64); ok {
		return new(big.Rat).SetFloat64(f)
	}
	i, _ := integer(v)
	return new(big.Rat).SetInt(i)
}

// order compares numbers, strings, lists or tuples; ordered is false if a NaN decides.
func (r *render) order(a, b Value, depth int) (c int, ordered bool, err error) {
	for _, v := range []Value{a, b} {
		if u, ok := v.(*Undefined); ok {
			return 0, false, u.fault()
		}
	}
	if depth > maxValueDepth {
		return 0, false, faultf(ErrDepth, "a value is nested more than %d deep", maxValueDepth)
	}
	if s, ok := text(a); ok {
		if t, ok := text(b); ok {
			return strings.Compare(s, t), true, r.scan(min(len(s), len(t)))
		}
	}
	if c, ordered, ok := compareNumbers(a, b); ok {
		return c, ordered, nil
	}
	switch x := a.(type) {
	case *List:
		if y, ok := b.(*List); ok {
			return r.orderItems(x.Items, y.Items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return r.orderItems(x.items, y.items, depth)
		}
	}
	return 0, false, typeErrorf("'%s' and '%s' cannot be ordered", typeName(a), typeName(b))
}

func (r *render) orderItems(a, b []Value, depth int) (int, bool, error) {
	for i := range min(len(a), len(b)) {
		if err := r.work(1); err != nil {
			return 0, false, err
		}
		if same, err := r.equalAt(a[i], b[i], depth+1); err != nil {
			return 0, false, err
		} else if !same {
			return r.order(a[i], b[i], depth+1)
		}
	}
	return cmp.Compare(len(a), len(b)), true, nil
}

// contains is item in v.
func (r *render) contains(v, item Value) (bool, error) {
	if s, ok := text(v); ok {
		sub, ok := text(item)
		if !ok {
			return false, typeErrorf("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		return strings.Contains(s, sub), r.scan(len(s))
	}
	switch v := v.(type) {
	case *Dict:
		i, err := r.find(v, item)
		return i >= 0, err
	case view:
		if v.kind == "keys" {
			i, err := r.find(v.dict, item)
			return i >= 0, err
		}
	case *namespace:
		return false, typeErrorf("argument of type 'Namespace' is not iterable")
	case rangeValue:
		f, ok := float(item)
		if !ok || f != math.Trunc(f) || v.n == 0 || math.Abs(f) > 1<<53 {
			return false, nil
		}
		i := (int64(f) - v.start) / v.step
		return i >= 0 && i < v.n && v.at(i) == int64(f), nil
	}
	next, err := r.iterate(v)
	if err != nil {
		return false, typeErrorf("argument of type '%s' is not iterable", typeName(v))
	}
	for {
		x, ok, err := next()
		if err != nil || !ok {
			return false, err
		}
		if err := r.work(1); err != nil {
			return false, err
		}
		if same, err := r.equal(x, item); err != nil || same {
			return same, err
		}
	}
}
