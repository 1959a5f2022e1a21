package jinja

import "math"

// maxRange is the longest range, as in Jinja2's sandbox.
const maxRange = 100_000

// globals are the names that every template knows.
var globals = map[string]Value{
	"range":           fn("start / stop step", makeRange),
	"dict":            rawFn(makeDict),
	"namespace":       rawFn(makeNamespace),
	"cycler":          rawFn(makeCycler),
	"joiner":          fn("/ sep", makeJoiner),
	"raise_exception": fn("message", raise),
	"strftime_now":    fn("format", strftimeNow),
}

func makeRange(_ *call, a []Value) (Value, error) {
	n := [3]int64{0, 0, 1}
	for i, v := range a {
		var err error
		if n[i], err = wantInt(v, "a bound of range", n[i]); err != nil {
			return nil, err
		}
	}
	r := rangeValue{start: n[0], stop: n[1], step: n[2]}
	if a[1] == nil {
		r.start, r.stop = 0, n[0]
	}
	if r.step == 0 {
		return nil, typeErrorf("range() arg 3 must not be zero")
	}
	span, step := float64(r.stop)-float64(r.start), float64(r.step)
	size := math.Max(0, math.Ceil(span/step))
	if size > maxRange {
		return nil, faultf(ErrMemory, "range too big: ranges of more than %d items are not allowed", maxRange)
	}
	r.n = int64(size)
	return r, nil
}

func makeDict(c *call) (Value, error) {
	d := &Dict{}
	if len(c.args) > 1 {
		return nil, typeErrorf("dict expected at most 1 argument, got %d", len(c.args))
	}
	if len(c.args) == 1 {
		if from, ok := c.args[0].(*Dict); ok {
			d = from.clone()
			if err := c.r.growTimes(d.Len(), 2*valueSize); err != nil {
				return nil, err
			}
		} else if err := fillDict(c.r, d, c.args[0]); err != nil {
			return nil, err
		}
	}
	if c.named != nil {
		for k, v := range c.named.All {
			if err := d.put(k, v); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

func fillDict(r *render, d *Dict, pairs Value) error {
	return r.each(pairs, func(v Value) error {
		pair, err := r.items(v)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return typeErrorf("a dict is made of pairs, not of %d values", len(pair))
		}
		if err := r.grow(2 * valueSize); err != nil {
			return err
		}
		return r.put(d, pair[0], pair[1])
	})
}

func makeNamespace(c *call) (Value, error) {
	d, err := makeDict(c)
	if err != nil {
		return nil, err
	}
	return &namespace{d.(*Dict)}, nil
}

func raise(c *call, a []Value) (Value, error) {
	s, err := c.r.str(a[0])
	if err != nil {
		return nil, err
	}
	return nil, faultf(ErrRaised, "%s", s)
}

func strftimeNow(c *call, a []Value) (Value, error) {
	format, err := wantText(a[0], "a time format")
	if err != nil {
		return nil, err
	}
	if err := c.r.growTimes(len(format), 16); err != nil {
		return nil, err
	}
	return strftime(c.r.now(), format), nil
}

// A cycler gives its items in turn.
type cycler struct {
	items []Value
	pos   int
}

func makeCycler(c *call) (Value, error) {
	if len(c.args) == 0 || c.named != nil {
		return nil, typeErrorf("cycler needs at least one item")
	}
	return &cycler{items: c.args}, nil
}

func (c *cycler) attribute(name string) Value {
	switch name {
	case "current":
		return c.items[c.pos]
	case "next":
		return fn("", func(*call, []Value) (Value, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		})
	case "reset":
		return fn("", func(*call, []Value) (Value, error) {
			c.pos = 0
			return None{}, nil
		})
	}
	return nil
}

// A joiner gives nothing when first called, and its separator after that.
type joiner struct {
	sep  Value
	used bool
}

func makeJoiner(_ *call, a []Value) (Value, error) {
	if a[0] == nil {
		return &joiner{sep: ", "}, nil
	}
	return &joiner{sep: a[0]}, nil
}

func (j *joiner) call(c *call) (Value, error) {
	if len(c.args) > 0 || c.named != nil {
		return nil, typeErrorf("a joiner takes no arguments")
	}
	if !j.used {
		j.used = true
		return "", nil
	}
	return j.sep, nil
}
