package jinja

import (
	"slices"
	"strings"
)

// A keyed is an item with its sorting key.
type keyed struct {
	item Value
	keys []Value
}

// sorted sorts stably by keys; in reverse, equal items keep their order, as in Python.
func (r *render) sorted(items []keyed, reverse bool) ([]Value, error) {
	var failed error
	slices.SortStableFunc(items, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		if err := r.work(1); err != nil {
			failed = err
			return 0
		}
		c, _, err := r.orderItems(a.keys, b.keys, 0)
		if err != nil {
			failed = err
		}
		if reverse {
			return -c
		}
		return c
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]Value, len(items))
	for i := range items {
		out[i] = items[i].item
	}
	return out, r.growTimes(len(out), valueSize)
}

func sortFilter(c *call, a []Value) (Value, error) {
	fold := !given(a[2])
	getters := []*getter{newGetter(a[3], fold)}
	if s, ok := text(a[3]); a[3] != nil && ok {
		getters = nil
		for _, attribute := range strings.Split(s, ",") {
			getters = append(getters, newGetter(attribute, fold))
		}
	}
	var items []keyed
	err := c.r.each(a[0], func(v Value) error {
		k := keyed{item: v}
		if err := c.r.growTimes(1+len(getters), 2*valueSize); err != nil {
			return err
		}
		for _, g := range getters {
			key, err := g.get(c.r, v)
			if err != nil {
				return err
			}
			k.keys = append(k.keys, key)
		}
		items = append(items, k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out, err := c.r.sorted(items, given(a[1]))
	return &List{out}, err
}

func dictsortFilter(c *call, a []Value) (Value, error) {
	d, ok := a[0].(*Dict)
	if !ok {
		return nil, typeErrorf("dictsort needs a dict, not %s", typeName(a[0]))
	}
	by := "key"
	if a[2] != nil {
		by, _ = text(a[2])
	}
	if by != "key" && by != "value" {
		return nil, typeErrorf("you can only sort by either \"key\" or \"value\"")
	}
	if err := c.r.growTimes(d.Len(), 4*valueSize); err != nil {
		return nil, err
	}
	items := make([]keyed, d.Len())
	for i, k := range d.keys {
		key := k
		if by == "value" {
			key = d.vals[i]
		}
		if !given(a[1]) {
			var err error
			if key, err = c.r.folded(key); err != nil {
				return nil, err
			}
		}
		items[i] = keyed{&Tuple{items: []Value{k, d.vals[i]}}, []Value{key}}
	}
	out, err := c.r.sorted(items, given(a[3]))
	return &List{out}, err
}

func groupbyFilter(c *call, a []Value) (Value, error) {
	g := newGetter(a[1], !given(a[3]))
	g.value = a[2]
	var items []keyed
	err := c.r.each(a[0], func(v Value) error {
		key, err := g.get(c.r, v)
		items = append(items, keyed{v, []Value{key}})
		if err != nil {
			return err
		}
		return c.r.grow(2 * valueSize)
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.r.sorted(items, false); err != nil {
		return nil, err
	}
	g.fold = false
	var groups []Value
	var group *List
	var last Value
	for _, k := range items {
		same := false
		if group != nil {
			if same, err = c.r.equal(last, k.keys[0]); err != nil {
				return nil, err
			}
		}
		if !same {
			name, err := g.get(c.r, k.item)
			if err != nil {
				return nil, err
			}
			group, last = &List{}, k.keys[0]
			groups = append(groups, &Tuple{items: []Value{name, group}, group: true})
		}
		group.Items = append(group.Items, k.item)
	}
	return &List{groups}, nil
}

// extreme makes min (-1) and max (1).
func extreme(sign int) func(c *call, a []Value) (Value, error) {
	return func(c *call, a []Value) (Value, error) {
		g := newGetter(a[2], !given(a[1]))
		var best, bestKey Value
		err := c.r.each(a[0], func(v Value) error {
			key, err := g.get(c.r, v)
			if err != nil {
				return err
			}
			if best != nil {
				order, _, err := c.r.order(key, bestKey, 0)
				if err != nil || order*sign <= 0 {
					return err
				}
			}
			best, bestKey = v, key
			return nil
		})
		if err == nil && best == nil {
			best = &Undefined{hint: "No aggregated item, sequence was empty."}
		}
		return best, err
	}
}

func uniqueFilter(c *call, a []Value) (Value, error) {
	g := newGetter(a[2], !given(a[1]))
	next, err := c.r.iterate(a[0])
	if err != nil {
		return nil, err
	}
	seen := &Dict{}
	return generator(func() (Value, bool, error) {
		for {
			v, ok, err := next()
			if err != nil || !ok {
				return nil, false, err
			}
			key, err := g.get(c.r, v)
			if err == nil {
				err = c.r.work(1)
			}
			if err == nil {
				err = c.r.grow(2 * valueSize)
			}
			if err != nil {
				return nil, false, err
			}
			if i, err := c.r.find(seen, key); err != nil {
				return nil, false, err
			} else if i >= 0 {
				continue
			}
			return v, true, seen.put(key, true)
		}
	}), nil
}

func sumFilter(c *call, a []Value) (Value, error) {
	var sum Value = int64(0)
	if a[2] != nil {
		sum = a[2]
	}
	if _, ok := text(sum); ok {
		return nil, typeErrorf("sum() can't sum strings")
	}
	g := newGetter(a[1], false)
	err := c.r.each(a[0], func(v Value) error {
		v, err := g.get(c.r, v)
		if err == nil {
			sum, err = c.r.binary("+", sum, v)
		}
		return err
	})
	return sum, err
}

func randomFilter(c *call, a []Value) (Value, error) {
	n, ok := length(a[0])
	if !ok {
		return nil, typeErrorf("object of type '%s' has no len()", typeName(a[0]))
	}
	if n == 0 {
		return &Undefined{hint: "No random item, sequence was empty."}, nil
	}
	v, ok := element(a[0], c.r.now().UnixNano()%int64(n))
	if !ok {
		return nil, typeErrorf("'%s' object has no items to choose from", typeName(a[0]))
	}
	return v, nil
}
