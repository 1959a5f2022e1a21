package jinja

import (
	"slices"
	"strings"
)

// filters are Jinja2's built-in filters, with transformers' tojson.
var filters = map[string]*function{
	"abs":            fn("value", absFilter),
	"attr":           fn("obj name", attrFilter),
	"batch":          fn("value linecount / fill_with", batchFilter),
	"capitalize":     textFilter(capitalize),
	"center":         fn("value / width", centerFilter),
	"count":          fn("value", lengthFilter),
	"d":              fn("value / default_value boolean", defaultFilter),
	"default":        fn("value / default_value boolean", defaultFilter),
	"dictsort":       fn("value / case_sensitive by reverse", dictsortFilter),
	"e":              fn("value", escapeFilter),
	"escape":         fn("value", escapeFilter),
	"filesizeformat": fn("value / binary", fileSizeFilter),
	"first":          fn("seq", firstFilter),
	"float":          fn("value / default", floatFilter),
	"forceescape":    fn("value", forceEscapeFilter),
	"format":         rawFn(formatFilter),
	"from_json":      fn("value", fromJSONFilter),
	"groupby":        fn("value attribute / default case_sensitive", groupbyFilter),
	"indent":         fn("s / width first blank", indentFilter),
	"int":            fn("value / default base", intFilter),
	"items":          fn("value", itemsFilter),
	"join":           fn("value / d attribute", joinFilter),
	"last":           fn("seq", lastFilter),
	"length":         fn("value", lengthFilter),
	"list":           fn("value", listFilter),
	"lower":          textFilter(lower),
	"map":            rawFn(mapFilter),
	"max":            fn("value / case_sensitive attribute", extreme(1)),
	"min":            fn("value / case_sensitive attribute", extreme(-1)),
	"pprint":         fn("value", pprintFilter),
	"random":         fn("seq", randomFilter),
	"reject":         rawFn(selection(false, false)),
	"rejectattr":     rawFn(selection(false, true)),
	"replace":        fn("s old new / count", replaceFilter),
	"reverse":        fn("value", reverseFilter),
	"round":          fn("value / precision method", roundFilter),
	"safe":           fn("value", safeFilter),
	"select":         rawFn(selection(true, false)),
	"selectattr":     rawFn(selection(true, true)),
	"slice":          fn("value slices / fill_with", sliceFilter),
	"sort":           fn("value / reverse case_sensitive attribute", sortFilter),
	"string":         fn("value", stringFilter),
	"striptags":      fn("value", stripTagsFilter),
	"sum":            fn("iterable / attribute start", sumFilter),
	"title":          textFilter(titleFilter),
	"tojson":         fn("x / ensure_ascii indent separators sort_keys", toJSONFilter),
	"trim":           fn("value / chars", trimFilter),
	"truncate":       fn("s / length killwords end leeway", truncateFilter),
	"unique":         fn("value / case_sensitive attribute", uniqueFilter),
	"upper":          textFilter(upper),
	"urlencode":      fn("value", urlEncodeFilter),
	"urlize":         fn("value / trim_url_limit nofollow target rel extra_schemes", urlizeFilter),
	"wordcount":      fn("s", wordCountFilter),
	"wordwrap":       fn("s / width break_long_words wrapstring break_on_hyphens", wordWrapFilter),
	"xmlattr":        fn("d / autospace", xmlAttrFilter),
}

// given reports whether an optional argument is present and true.
func given(v Value) bool { return v != nil && truth(v) }

// folded returns the key for sorting a value without regard to case.
func (r *render) folded(v Value) (Value, error) {
	if s, ok := text(v); ok {
		return lower(s), r.grow(len(s))
	}
	return v, nil
}

// A getter returns an attribute of each item, as filters take it: "address.city", an index, or nothing for the item
// itself.
type getter struct {
	parts []Value
	value Value // replaces undefined; may be nil
	fold  bool
}

func newGetter(attribute Value, fold bool) *getter {
	g := &getter{fold: fold}
	if isNone(attribute) {
		return g
	}
	s, ok := text(attribute)
	if !ok {
		g.parts = []Value{attribute}
		return g
	}
	for _, p := range strings.Split(s, ".") {
		var v Value = p
		if p != "" && strings.IndexFunc(p, func(r rune) bool { return r < '0' || r > '9' }) < 0 && len(p) < 18 {
			n := int64(0)
			for _, c := range p {
				n = 10*n + int64(c-'0')
			}
			v = n
		}
		g.parts = append(g.parts, v)
	}
	return g
}

func (g *getter) get(r *render, v Value) (Value, error) {
	for _, p := range g.parts {
		err := r.work(1)
		if err != nil {
			return nil, err
		}
		if v, err = r.item(v, p); err != nil {
			return nil, err
		}
		if _, undefined := v.(*Undefined); undefined && !isNone(g.value) {
			v = g.value
		}
	}
	if g.fold {
		return r.folded(v)
	}
	return v, nil
}

func attrFilter(c *call, a []Value) (Value, error) {
	name, err := c.r.read(a[1])
	if err != nil {
		return nil, err
	}
	v, err := c.r.member(a[0], name)
	if v == nil && err == nil {
		v = missing(a[0], name)
	}
	return v, err
}

func batchFilter(c *call, a []Value) (Value, error) {
	n, err := wantInt(a[1], "linecount", 0)
	if err != nil {
		return nil, err
	}
	next, err := c.r.iterate(a[0])
	if err != nil {
		return nil, err
	}
	var batch []Value
	done := false
	return generator(func() (Value, bool, error) {
		for !done {
			v, ok, err := next()
			if err == nil {
				err = c.r.grow(valueSize)
			}
			if err != nil {
				return nil, false, err
			}
			if done = !ok; done {
				break
			}
			full := batch
			batch = append(batch, v)
			if int64(len(full)) == n {
				batch = []Value{v}
				return &List{full}, true, nil
			}
		}
		last := batch
		batch = nil
		if fill := n - int64(len(last)); len(last) > 0 && !isNone(a[2]) && fill > 0 {
			more, _, err := c.r.repeat(&List{[]Value{a[2]}}, fill)
			if err != nil {
				return nil, false, err
			}
			last = append(last, more.(*List).Items...)
		}
		return &List{last}, len(last) > 0, nil
	}), nil
}

func sliceFilter(c *call, a []Value) (Value, error) {
	items, err := c.r.copied(a[0])
	if err != nil {
		return nil, err
	}
	n, err := wantInt(a[1], "slices", 0)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, typeErrorf("integer division or modulo by zero")
	}
	i, from := int64(0), int64(0)
	return generator(func() (Value, bool, error) {
		if i >= n {
			return nil, false, nil
		}
		size := int64(len(items)) / n
		extra := int64(len(items)) % n
		if i < extra {
			size++
		}
		part := slices.Clone(items[from : from+size])
		if !isNone(a[2]) && i >= extra {
			part = append(part, a[2])
		}
		from += size
		i++
		return &List{part}, true, c.r.growTimes(len(part), valueSize)
	}), nil
}

func defaultFilter(_ *call, a []Value) (Value, error) {
	_, undefined := a[0].(*Undefined)
	if !undefined && (!given(a[2]) || truth(a[0])) {
		return a[0], nil
	}
	if a[1] == nil {
		return "", nil
	}
	return a[1], nil
}

func lengthFilter(c *call, a []Value) (Value, error) {
	if l, ok := a[0].(*loop); ok {
		return l.attribute(c.r, "length")
	}
	if s, ok := text(a[0]); ok {
		if err := c.r.scan(len(s)); err != nil {
			return nil, err
		}
	}
	if n, ok := length(a[0]); ok {
		return int64(n), nil
	}
	return nil, typeErrorf("object of type '%s' has no len()", typeName(a[0]))
}

func firstFilter(c *call, a []Value) (Value, error) {
	next, err := c.r.iterate(a[0])
	if err != nil {
		return nil, err
	}
	v, ok, err := next()
	if err == nil && !ok {
		v = &Undefined{hint: "No first item, sequence was empty."}
	}
	return v, err
}

func lastFilter(c *call, a []Value) (Value, error) {
	if !reversible(a[0]) {
		return nil, typeErrorf("'%s' object is not reversible", typeName(a[0]))
	}
	items, err := c.r.items(a[0])
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &Undefined{hint: "No last item, sequence was empty."}, nil
	}
	return items[len(items)-1], nil
}

// reversible reports whether Python's reversed takes v.
func reversible(v Value) bool {
	if _, ok := v.(view); ok {
		return true
	}
	return sequence(v)
}

func reverseFilter(c *call, a []Value) (Value, error) {
	if s, ok := text(a[0]); ok {
		if err := c.r.growTimes(len(s), 5); err != nil {
			return nil, err
		}
		runes := []rune(s)
		slices.Reverse(runes)
		return like(a[0], string(runes)), nil
	}
	items, err := c.r.copied(a[0])
	if err != nil {
		return nil, err
	}
	slices.Reverse(items)
	if !reversible(a[0]) {
		return &List{items}, nil
	}
	return &iterator{"list_reverseiterator", indexed(len(items), func(i int) Value { return items[i] })}, nil
}

func listFilter(c *call, a []Value) (Value, error) {
	items, err := c.r.copied(a[0])
	return &List{items}, err
}

func itemsFilter(_ *call, a []Value) (Value, error) {
	switch v := a[0].(type) {
	case *Undefined:
		return generator(indexed(0, nil)), nil
	case *Dict:
		return generator(indexed(v.Len(), view{v, "items"}.at)), nil
	}
	return nil, typeErrorf("can only get item pairs from a mapping, not from %s", typeName(a[0]))
}

func joinFilter(c *call, a []Value) (Value, error) {
	sep := ""
	if a[1] != nil {
		var err error
		if sep, err = c.r.str(a[1]); err != nil {
			return nil, err
		}
	}
	g := newGetter(a[2], false)
	var b strings.Builder
	first := true
	err := c.r.each(a[0], func(v Value) error {
		v, err := g.get(c.r, v)
		if err != nil {
			return err
		}
		s, err := c.r.str(v)
		if err != nil {
			return err
		}
		if !first {
			b.WriteString(sep)
		}
		first = false
		b.WriteString(s)
		return c.r.grow(len(sep) + len(s))
	})
	return b.String(), err
}

// mapFilter applies a filter to each item, or takes an attribute of it.
func mapFilter(c *call) (Value, error) {
	r := c.r
	if !truth(c.args[0]) { // none as well
		return generator(indexed(0, nil)), nil
	}
	next, err := r.iterate(c.args[0])
	if err != nil {
		return nil, err
	}
	do, err := mapping(c)
	if err != nil {
		return nil, err
	}
	return generator(func() (Value, bool, error) {
		v, ok, err := next()
		if err == nil && ok {
			if err = r.work(1); err == nil {
				v, err = do(v)
			}
		}
		return v, ok, err
	}), nil
}

func mapping(c *call) (func(Value) (Value, error), error) {
	r := c.r
	if len(c.args) == 1 {
		if c.named == nil {
			return nil, typeErrorf("map needs the name of a filter, or attribute=")
		}
		attribute, ok := c.named.Get("attribute")
		value, _ := c.named.Get("default")
		if !ok {
			return nil, typeErrorf("map needs the name of a filter, or attribute=")
		}
		for k := range c.named.All {
			if k != "attribute" && k != "default" {
				return nil, typeErrorf("map got an unexpected keyword argument '%s'", k)
			}
		}
		g := newGetter(attribute, false)
		g.value = value
		return func(v Value) (Value, error) { return g.get(r, v) }, nil
	}
	name, _ := text(c.args[1])
	f, ok := r.filters[name]
	return func(v Value) (Value, error) {
		if !ok {
			return nil, typeErrorf("there is no filter named %s", shortRepr(c.args[1]))
		}
		return f.call(&call{r, append([]Value{v}, c.args[2:]...), c.named})
	}, nil
}

// selection makes select, reject, selectattr and rejectattr.
func selection(keep, byAttribute bool) func(c *call) (Value, error) {
	return func(c *call) (Value, error) {
		r := c.r
		args := c.args[1:]
		g := newGetter(nil, false)
		if byAttribute {
			if len(args) == 0 {
				return nil, typeErrorf("the name of an attribute is missing")
			}
			g, args = newGetter(args[0], false), args[1:]
		}
		if !truth(c.args[0]) {
			return generator(indexed(0, nil)), nil
		}
		next, err := r.iterate(c.args[0])
		if err != nil {
			return nil, err
		}
		pass := func(v Value) (bool, error) {
			v, err := g.get(r, v)
			if err != nil || len(args) == 0 {
				return truth(v), err
			}
			name, _ := text(args[0])
			t, ok := r.tests[name]
			if !ok {
				return false, typeErrorf("there is no test named %s", shortRepr(args[0]))
			}
			v, err = t.call(&call{r, append([]Value{v}, args[1:]...), c.named})
			return err == nil && truth(v), err
		}
		return generator(func() (Value, bool, error) {
			for {
				v, ok, err := next()
				if err != nil || !ok {
					return nil, false, err
				}
				if err := r.work(1); err != nil {
					return nil, false, err
				}
				if yes, err := pass(v); err != nil {
					return nil, false, err
				} else if yes == keep {
					return v, true, nil
				}
			}
		}), nil
	}
}
