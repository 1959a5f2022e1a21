package jinja

import "unicode/utf8"

// A nextFunc returns the next item; ok is false after the last.
type nextFunc func() (v Value, ok bool, err error)

// An iterator gives each item once, as Python's generators do: filters like map and select return them.
type iterator struct {
	kind string // Python's name of the type
	next nextFunc
}

func generator(next nextFunc) *iterator { return &iterator{"generator", next} }

// indexed returns the items 0 to n-1 of something.
func indexed(n int, at func(int) Value) nextFunc {
	i := 0
	return func() (Value, bool, error) {
		if i >= n {
			return nil, false, nil
		}
		i++
		return at(i - 1), true, nil
	}
}

// iterate returns Python's iter(v).
func (r *render) iterate(v Value) (nextFunc, error) {
	switch v := v.(type) {
	case *List:
		return indexed(len(v.Items), func(i int) Value { return v.Items[i] }), nil
	case *Tuple:
		return indexed(len(v.items), func(i int) Value { return v.items[i] }), nil
	case *Dict:
		return indexed(len(v.keys), func(i int) Value { return v.keys[i] }), nil
	case view:
		return indexed(v.dict.Len(), v.at), nil
	case rangeValue:
		return indexed(int(v.n), func(i int) Value { return v.at(int64(i)) }), nil
	case string:
		return runes(v), nil
	case Markup:
		return runes(string(v)), nil
	case *iterator:
		return v.next, nil
	case *Undefined:
		return indexed(0, nil), nil
	case *loop:
		return func() (Value, bool, error) {
			item, ok, err := v.advance()
			return &Tuple{items: []Value{item, v}}, ok, err
		}, nil
	}
	return nil, typeErrorf("'%s' object is not iterable", typeName(v))
}

func runes(s string) nextFunc {
	return func() (Value, bool, error) {
		if s == "" {
			return nil, false, nil
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true, nil
	}
}

// each calls do for each item of v.
func (r *render) each(v Value, do func(Value) error) error {
	next, err := r.iterate(v)
	if err != nil {
		return err
	}
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return err
		}
		if err := r.work(1); err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
}

// items returns Python's list(v). The result may share memory with v and must not be changed.
func (r *render) items(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, nil
	case *Tuple:
		return v.items, nil
	}
	var items []Value
	err := r.each(v, func(item Value) error {
		items = append(items, item)
		return r.grow(valueSize)
	})
	return items, err
}

// copied is items in separate memory.
func (r *render) copied(v Value) ([]Value, error) {
	items, err := r.items(v)
	if err == nil {
		err = r.growTimes(len(items), valueSize)
	}
	if err != nil {
		return nil, err
	}
	return append([]Value(nil), items...), nil
}
