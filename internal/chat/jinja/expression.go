package jinja

import (
	"slices"
	"strings"
)

// An expr is an expression.
type expr interface {
	eval(r *render, f *frame) (Value, error)
}

type constNode struct{ value Value }

func (n *constNode) eval(*render, *frame) (Value, error) { return n.value, nil }

// A place is where a variable may be: up frames outwards, at slot.
type place struct{ up, slot int }

type nameNode struct {
	at     int
	name   string
	places []place
}

func (n *nameNode) eval(_ *render, f *frame) (Value, error) {
	up := 0
	for _, p := range n.places {
		for ; up < p.up; up++ {
			f = f.parent
		}
		if v := f.vars[p.slot]; v != nil {
			return v, nil
		}
	}
	return &Undefined{name: n.name}, nil
}

type listNode struct{ items []expr }

func (n *listNode) eval(r *render, f *frame) (Value, error) {
	items, err := evalAll(r, f, n.items)
	return &List{items}, err
}

type tupleNode struct{ items []expr }

func (n *tupleNode) eval(r *render, f *frame) (Value, error) {
	items, err := evalAll(r, f, n.items)
	return &Tuple{items: items}, err
}

// valueSize is about the bytes of one value in a list.
const valueSize = 32

func evalAll(r *render, f *frame, nodes []expr) ([]Value, error) {
	if err := r.grow(valueSize * len(nodes)); err != nil {
		return nil, err
	}
	items := make([]Value, len(nodes))
	for i, n := range nodes {
		v, err := n.eval(r, f)
		if err != nil {
			return nil, err
		}
		items[i] = v
	}
	return items, nil
}

type dictNode struct {
	at           int
	keys, values []expr
}

func (n *dictNode) eval(r *render, f *frame) (Value, error) {
	if err := r.grow(2 * valueSize * len(n.keys)); err != nil {
		return nil, r.at(n.at, err)
	}
	d := &Dict{}
	for i := range n.keys {
		k, err := n.keys[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		v, err := n.values[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		if err := r.put(d, k, v); err != nil {
			return nil, r.at(n.at, err)
		}
	}
	return d, nil
}

type conditionalNode struct {
	at                    int
	test, then, otherwise expr // otherwise may be nil
}

func (n *conditionalNode) eval(r *render, f *frame) (Value, error) {
	test, err := n.test.eval(r, f)
	if err != nil {
		return nil, err
	}
	if truth(test) {
		return n.then.eval(r, f)
	}
	if n.otherwise == nil {
		return &Undefined{hint: "the condition of an 'if' without 'else' is false, so it has no value"}, nil
	}
	return n.otherwise.eval(r, f)
}

type orNode struct{ left, right expr }

func (n *orNode) eval(r *render, f *frame) (Value, error) {
	v, err := n.left.eval(r, f)
	if err != nil || truth(v) {
		return v, err
	}
	return n.right.eval(r, f)
}

type andNode struct{ left, right expr }

func (n *andNode) eval(r *render, f *frame) (Value, error) {
	v, err := n.left.eval(r, f)
	if err != nil || !truth(v) {
		return v, err
	}
	return n.right.eval(r, f)
}

type notNode struct{ operand expr }

func (n *notNode) eval(r *render, f *frame) (Value, error) {
	v, err := n.operand.eval(r, f)
	return !truth(v), err
}

type operand struct {
	at    int
	op    string
	value expr
}

// A compareNode is a chain of comparisons: a < b < c.
type compareNode struct {
	first expr
	rest  []operand
}

func (n *compareNode) eval(r *render, f *frame) (Value, error) {
	left, err := n.first.eval(r, f)
	if err != nil {
		return nil, err
	}
	for i := range n.rest {
		o := &n.rest[i]
		right, err := o.value.eval(r, f)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(o.op, left, right)
		if err != nil {
			return nil, r.at(o.at, err)
		}
		if !ok {
			return false, nil
		}
		left = right
	}
	return true, nil
}

type binaryNode struct {
	at          int
	op          string
	left, right expr
}

func (n *binaryNode) eval(r *render, f *frame) (Value, error) {
	a, err := n.left.eval(r, f)
	if err != nil {
		return nil, err
	}
	b, err := n.right.eval(r, f)
	if err != nil {
		return nil, err
	}
	v, err := r.binary(n.op, a, b)
	if err == nil {
		err = r.work(1)
	}
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

// flattened returns a + b + c as one node, so that strings are copied once.
func (n *binaryNode) flattened() expr {
	s := &sumNode{}
	var left expr = n
	for b, ok := left.(*binaryNode); ok && b.op == "+"; b, ok = left.(*binaryNode) {
		s.rest = append(s.rest, operand{b.at, "+", b.right})
		left = b.left
	}
	if len(s.rest) < 2 {
		return n
	}
	s.first = left
	slices.Reverse(s.rest)
	return s
}

// A sumNode is a chain of at least two additions, from left to right.
type sumNode struct {
	first expr
	rest  []operand
}

func (n *sumNode) eval(r *render, f *frame) (Value, error) {
	sum, err := n.first.eval(r, f)
	if err != nil {
		return nil, err
	}
	var few [8]string
	parts := few[:0] // strings that belong to sum's end
	size := 0
	for i := range n.rest {
		o := &n.rest[i]
		v, err := o.value.eval(r, f)
		if err != nil {
			return nil, err
		}
		s, isString := v.(string)
		if _, plain := sum.(string); plain && isString {
			parts, size = append(parts, s), size+len(s)
			continue
		}
		if sum, err = r.concatenated(sum, parts, size); err == nil {
			sum, err = r.binary("+", sum, v)
		}
		if err != nil {
			return nil, r.at(o.at, err)
		}
		parts, size = parts[:0], 0
	}
	if sum, err = r.concatenated(sum, parts, size); err == nil {
		err = r.work(len(n.rest))
	}
	if err != nil {
		return nil, r.at(n.rest[0].at, err)
	}
	return sum, nil
}

// concatenated appends parts of size bytes in all to first, which is a string if there are any.
func (r *render) concatenated(first Value, parts []string, size int) (Value, error) {
	if len(parts) == 0 {
		return first, nil
	}
	s := first.(string)
	if err := r.grow(len(s) + size); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.Grow(len(s) + size)
	b.WriteString(s)
	for _, p := range parts {
		b.WriteString(p)
	}
	return b.String(), nil
}

type signNode struct {
	at       int
	negative bool
	operand  expr
}

func (n *signNode) eval(r *render, f *frame) (Value, error) {
	v, err := n.operand.eval(r, f)
	if err != nil {
		return nil, err
	}
	if v, err = signed(v, n.negative); err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

// A concatNode is a ~ b ~ c.
type concatNode struct {
	at    int
	parts []expr
}

func (n *concatNode) eval(r *render, f *frame) (Value, error) {
	parts := make([]string, len(n.parts))
	size := 0
	for i, p := range n.parts {
		v, err := p.eval(r, f)
		if err != nil {
			return nil, err
		}
		if parts[i], err = r.str(v); err != nil {
			return nil, r.at(n.at, err)
		}
		size += len(parts[i])
	}
	if err := r.grow(size); err != nil {
		return nil, r.at(n.at, err)
	}
	return strings.Join(parts, ""), nil
}

type attributeNode struct {
	at     int
	object expr
	name   string
}

func (n *attributeNode) eval(r *render, f *frame) (Value, error) {
	o, err := n.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	v, err := r.attribute(o, n.name)
	if err == nil {
		err = r.work(1)
	}
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

type itemNode struct {
	at            int
	object, index expr
}

func (n *itemNode) eval(r *render, f *frame) (Value, error) {
	o, err := n.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	i, err := n.index.eval(r, f)
	if err != nil {
		return nil, err
	}
	v, err := r.item(o, i)
	if err == nil {
		err = r.work(1)
	}
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

type sliceNode struct {
	at           int
	object       expr // nil inside a tuple of subscripts
	from, to, by expr // each may be nil
}

func (n *sliceNode) eval(r *render, f *frame) (Value, error) {
	if n.object == nil {
		return nil, r.at(n.at, typeErrorf("a subscript of several slices is not possible"))
	}
	o, err := n.object.eval(r, f)
	if err != nil {
		return nil, err
	}
	var bounds [3]Value
	for i, e := range []expr{n.from, n.to, n.by} {
		if e == nil {
			continue
		}
		if bounds[i], err = e.eval(r, f); err != nil {
			return nil, err
		}
	}
	v, err := r.slice(o, bounds)
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

type namedArgument struct {
	name  string
	value expr
}

// arguments are those of a call, a filter or a test.
type arguments struct {
	items       []expr
	named       []namedArgument
	spread      expr // after *, or nil
	spreadNamed expr // after **, or nil
}

// eval appends the values of the arguments to c.
func (a *arguments) eval(r *render, f *frame, c *call) error {
	if a == nil {
		return nil
	}
	for _, e := range a.items {
		v, err := e.eval(r, f)
		if err != nil {
			return err
		}
		c.args = append(c.args, v)
	}
	if a.spread != nil {
		v, err := a.spread.eval(r, f)
		if err != nil {
			return err
		}
		items, err := r.items(v)
		if err != nil {
			return err
		}
		c.args = append(c.args, items...)
	}
	for _, n := range a.named {
		v, err := n.value.eval(r, f)
		if err != nil {
			return err
		}
		if err := c.addNamed(n.name, v); err != nil {
			return err
		}
	}
	return a.evalSpreadNamed(r, f, c)
}

func (a *arguments) evalSpreadNamed(r *render, f *frame, c *call) error {
	if a.spreadNamed == nil {
		return nil
	}
	v, err := a.spreadNamed.eval(r, f)
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return typeErrorf("what follows ** must be a dict, not a %s", typeName(v))
	}
	for k, v := range d.All {
		name, ok := text(k)
		if !ok {
			return typeErrorf("the names of arguments must be strings")
		}
		if err := c.addNamed(name, v); err != nil {
			return err
		}
	}
	return nil
}

type callNode struct {
	at   int
	fn   expr
	args *arguments
}

func (n *callNode) eval(r *render, f *frame) (Value, error) { return n.call(r, f, nil) }

// call calls with a caller, which is nil outside of call blocks.
func (n *callNode) call(r *render, f *frame, caller *macro) (Value, error) {
	fn, err := n.fn.eval(r, f)
	if err != nil {
		return nil, err
	}
	c := &call{r: r}
	if err := n.args.eval(r, f, c); err != nil {
		return nil, r.at(n.at, err)
	}
	if caller != nil {
		if err := c.addNamed("caller", caller); err != nil {
			return nil, r.at(n.at, err)
		}
	}
	v, err := r.call(fn, c)
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

type filterNode struct {
	at      int
	filter  *function
	name    string
	operand expr // nil for the first filter of a block
	args    *arguments
}

func (n *filterNode) eval(r *render, f *frame) (Value, error) {
	v, err := n.operand.eval(r, f)
	if err != nil {
		return nil, err
	}
	return n.apply(r, f, v)
}

func (n *filterNode) apply(r *render, f *frame, v Value) (Value, error) {
	c := &call{r: r, args: []Value{v}}
	err := n.args.eval(r, f, c)
	if err == nil {
		v, err = n.filter.call(c)
	}
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}

type testNode struct {
	at      int
	test    *function
	name    string
	operand expr
	args    *arguments
}

func (n *testNode) eval(r *render, f *frame) (Value, error) {
	v, err := n.operand.eval(r, f)
	if err != nil {
		return nil, err
	}
	c := &call{r: r, args: []Value{v}}
	if err = n.args.eval(r, f, c); err == nil {
		v, err = n.test.call(c)
	}
	if err != nil {
		return nil, r.at(n.at, err)
	}
	return v, nil
}
