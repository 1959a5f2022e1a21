package jinja

import (
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// attribute is o.name: an attribute or method of o, or else its item of that name.
func (r *render) attribute(o Value, name string) (Value, error) {
	v, err := r.member(o, name)
	if v != nil || err != nil {
		return v, err
	}
	if d, ok := o.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return missing(o, name), nil
}

// item is o[key]: an item of o, or else, for strings, its attribute of that name.
func (r *render) item(o, key Value) (Value, error) {
	switch o := o.(type) {
	case *Undefined:
		return nil, o.fault()
	case *Dict:
		if err := r.hash(key, 0); err != nil {
			return nil, err
		}
		if i, err := o.find(key); err == nil && i >= 0 {
			return o.vals[i], nil
		}
	case string, Markup:
		s, _ := text(o)
		if err := r.scan(len(s)); err != nil {
			return nil, err
		}
		if i, ok := small(key); ok {
			if v, ok := character(s, i); ok {
				return v, nil
			}
		}
	default:
		if i, ok := small(key); ok {
			if v, ok := element(o, i); ok {
				return v, nil
			}
		}
	}
	if name, ok := text(key); ok {
		if v, err := r.member(o, name); v != nil || err != nil {
			return v, err
		}
		return missing(o, name), nil
	}
	return missing(o, key), nil
}

func missing(o, name Value) *Undefined {
	if s, ok := name.(string); ok && strings.HasPrefix(s, "__") && strings.HasSuffix(s, "__") {
		return unsafe(o, s)
	}
	return &Undefined{obj: o, name: name}
}

// unsafe returns what stands for an attribute that templates may not use: nothing, until it is used.
func unsafe(o Value, name string) *Undefined {
	return &Undefined{
		hint: "access to attribute '" + name + "' of '" + typeName(o) + "' object is unsafe", name: name, obj: o, security: true,
	}
}

// element is o[i] of a sequence; negative indices count from the end.
func element(o Value, i int64) (Value, bool) {
	if s, ok := text(o); ok {
		return character(s, i)
	}
	n, ok := length(o)
	if !ok {
		return nil, false
	}
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return nil, false
	}
	switch o := o.(type) {
	case *List:
		return o.Items[i], true
	case *Tuple:
		return o.items[i], true
	case rangeValue:
		return o.at(i), true
	}
	return nil, false
}

// character returns the code point of s at i; a negative i counts from the end.
func character(s string, i int64) (Value, bool) {
	for ; i < -1 && s != ""; i++ {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	for ; i > 0 && s != ""; i-- {
		_, n := utf8.DecodeRuneInString(s)
		s = s[n:]
	}
	if s == "" {
		return nil, false
	}
	c, _ := utf8.DecodeRuneInString(s)
	if i < 0 {
		c, _ = utf8.DecodeLastRuneInString(s)
	}
	return string(c), true
}

// member returns the attribute or method that o's type gives it, or nil.
func (r *render) member(o Value, name string) (Value, error) {
	switch o := o.(type) {
	case *Undefined:
		return nil, o.fault()
	case string, Markup:
		if m, ok := r.methods[name]; ok {
			return m.bind(o, name), nil
		}
	case *Dict:
		return dictMember(o, name), nil
	case *List:
		return listMember(o, o.Items, name), nil
	case *Tuple:
		if o.group && name == "grouper" {
			return o.items[0], nil
		}
		if o.group && name == "list" {
			return o.items[1], nil
		}
		if name == "index" || name == "count" {
			return listMember(o, o.items, name), nil
		}
	case *namespace:
		if v, ok := o.attrs.Get(name); ok {
			return v, nil
		}
	case *loop:
		return o.attribute(r, name)
	case *cycler:
		return o.attribute(name), nil
	case *macro:
		if name == "name" {
			return o.node.name, nil
		}
	case int64, *big.Int, bool, float64:
		return numberMember(o, name), nil
	}
	return nil, nil
}

func dictMember(d *Dict, name string) Value {
	switch name {
	case "items", "keys", "values":
		return fn("", func(*call, []Value) (Value, error) { return view{d, name}, nil })
	case "get":
		return rawFn(func(c *call) (Value, error) {
			if len(c.args) < 1 || len(c.args) > 2 || c.named != nil {
				return nil, typeErrorf("get() takes a key and perhaps a default, without names")
			}
			i, err := c.r.find(d, c.args[0])
			switch {
			case err != nil:
				return nil, err
			case i >= 0:
				return d.vals[i], nil
			case len(c.args) == 2:
				return c.args[1], nil
			}
			return None{}, nil
		})
	case "copy":
		return fn("", func(c *call, _ []Value) (Value, error) {
			return d.clone(), c.r.growTimes(d.Len(), 2*valueSize)
		})
	case "clear", "pop", "popitem", "setdefault", "update":
		return unsafe(d, name)
	}
	return nil
}

func listMember(o Value, items []Value, name string) Value {
	switch name {
	case "index":
		return fn("value / start stop", func(c *call, a []Value) (Value, error) {
			from, to, err := window(a[1], a[2], len(items))
			if err != nil {
				return nil, err
			}
			for i := from; i < to; i++ {
				if err := c.r.work(1); err != nil {
					return nil, err
				}
				if same, err := c.r.equal(items[i], a[0]); err != nil || same {
					return int64(i), err
				}
			}
			return nil, typeErrorf("the value is not in the %s", typeName(o))
		})
	case "count":
		return fn("value", func(c *call, a []Value) (Value, error) {
			n := int64(0)
			for _, v := range items {
				if err := c.r.work(1); err != nil {
					return nil, err
				}
				same, err := c.r.equal(v, a[0])
				if err != nil {
					return nil, err
				}
				if same {
					n++
				}
			}
			return n, nil
		})
	case "copy":
		return fn("", func(*call, []Value) (Value, error) { return &List{items}, nil })
	case "append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove":
		return unsafe(o, name)
	}
	return nil
}

func numberMember(o Value, name string) Value {
	f, isFloat := o.(float64)
	switch {
	case name == "real":
		v, _ := signed(o, false)
		return v
	case name == "imag" && isFloat:
		return 0.0
	case name == "imag":
		return int64(0)
	case name == "is_integer":
		return fn("", func(*call, []Value) (Value, error) { return !isFloat || f == float64(int64(f)), nil })
	case name == "bit_length" && !isFloat:
		i, _ := integer(o)
		return fn("", func(*call, []Value) (Value, error) { return int64(i.BitLen()), nil })
	}
	return nil
}

// window turns optional start and end positions into a range within [0, n].
func window(start, end Value, n int) (from, to int, err error) {
	from, to = 0, n
	for i, v := range []Value{start, end} {
		if v == nil {
			continue
		}
		if _, none := v.(None); none {
			continue
		}
		p, ok := small(v)
		if !ok {
			return 0, 0, typeErrorf("slice indices must be integers or None, not %s", typeName(v))
		}
		if p < 0 {
			p += int64(n)
		}
		*[]*int{&from, &to}[i] = int(max(0, min(p, int64(n))))
	}
	return from, to, nil
}

// slice is o[from:to:by].
func (r *render) slice(o Value, bounds [3]Value) (Value, error) {
	if u, ok := o.(*Undefined); ok {
		return nil, u.fault()
	}
	switch o := o.(type) {
	case string, Markup:
		s, _ := text(o)
		c := []rune(s)
		if err := r.grow(5 * len(c)); err != nil {
			return nil, err
		}
		part, err := sliced(c, bounds)
		return like(o, string(part)), err
	case *List:
		items, err := r.slicedItems(o.Items, bounds)
		return &List{items}, err
	case *Tuple:
		items, err := r.slicedItems(o.items, bounds)
		return &Tuple{items: items}, err
	case rangeValue:
		return slicedRange(o, bounds)
	}
	return nil, typeErrorf("'%s' object cannot be sliced", typeName(o))
}

func slicedRange(o rangeValue, bounds [3]Value) (Value, error) {
	from, to, by, err := indices(bounds, o.n)
	if err != nil {
		return nil, err
	}
	part := rangeValue{start: o.at(from), stop: o.at(to), step: o.step * by}
	if d := (to - from) / by; d > 0 || d == 0 && (to-from)*by > 0 {
		part.n = (abs(to-from) + abs(by) - 1) / abs(by)
	}
	return part, nil
}

func (r *render) slicedItems(items []Value, bounds [3]Value) ([]Value, error) {
	if err := r.growTimes(len(items), valueSize); err != nil {
		return nil, err
	}
	return sliced(items, bounds)
}

func sliced[T any](items []T, bounds [3]Value) ([]T, error) {
	from, to, by, err := indices(bounds, int64(len(items)))
	if err != nil {
		return nil, err
	}
	if by == 1 {
		return slices.Clone(items[from:max(from, to)]), nil
	}
	var part []T
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		part = append(part, items[i])
	}
	return part, nil
}

// indices turns the bounds of a slice of n items into positions: from the first, by steps of by, up to but without to.
func indices(bounds [3]Value, n int64) (from, to, by int64, err error) {
	by = 1
	if !isNone(bounds[2]) {
		if by, err = wantInt(bounds[2], "the step of a slice", 1); err != nil {
			return 0, 0, 0, err
		}
		by = max(-n-1, min(by, n+1)) // further than the end makes no difference
	}
	low, high := int64(0), n
	from, to = low, high
	switch {
	case by == 0:
		return 0, 0, 0, typeErrorf("slice step cannot be zero")
	case by < 0:
		low, high = -1, n-1
		from, to = high, low
	}
	for i, p := range []*int64{&from, &to} {
		if isNone(bounds[i]) {
			continue
		}
		if *p, err = wantInt(bounds[i], "a bound of a slice", 0); err != nil {
			return 0, 0, 0, err
		}
		if *p < 0 {
			*p += n
		}
		*p = max(low, min(*p, high))
	}
	return from, to, by, nil
}
