package jinja

// A signal says how a statement ended.
type signal uint8

const (
	signalNone signal = iota
	signalBreak
	signalContinue
)

// A statement writes to the output or changes variables.
type statement interface {
	exec(r *render, f *frame) (signal, error)
}

// run executes statements until one breaks or continues a loop.
func (r *render) run(body []statement, f *frame) (signal, error) {
	for _, s := range body {
		if err := r.work(1); err != nil {
			return 0, err
		}
		if s, err := s.exec(r, f); err != nil || s != signalNone {
			return s, err
		}
	}
	return signalNone, nil
}

// A dataNode is text between tags.
type dataNode string

func (n dataNode) exec(r *render, _ *frame) (signal, error) { return 0, r.write(string(n)) }

// An outputNode is an expression between {{ and }}.
type outputNode struct {
	at    int
	value expr
}

func (n *outputNode) exec(r *render, f *frame) (signal, error) {
	v, err := n.value.eval(r, f)
	if err != nil {
		return 0, r.at(n.at, err)
	}
	s, err := r.str(v)
	if err == nil {
		err = r.write(s)
	}
	if err != nil {
		return 0, r.at(n.at, err)
	}
	return 0, nil
}

type sequenceNode []statement

func (n sequenceNode) exec(r *render, f *frame) (signal, error) { return r.run(n, f) }

type controlNode signal

func (n controlNode) exec(*render, *frame) (signal, error) { return signal(n), nil }

type branch struct {
	test expr
	body []statement
}

type ifNode struct {
	at        int
	branches  []branch
	otherwise []statement
}

func (n *ifNode) exec(r *render, f *frame) (signal, error) {
	for i := range n.branches {
		v, err := n.branches[i].test.eval(r, f)
		if err != nil {
			return 0, r.at(n.at, err)
		}
		if truth(v) {
			return r.run(n.branches[i].body, f)
		}
	}
	return r.run(n.otherwise, f)
}

// A target is the left side of an assignment: a variable, several, or an attribute of a namespace.
type target struct {
	at     int
	items  []*target // of a tuple, or nil
	object *nameNode // of an attribute, or nil
	attr   string
	slot   int
}

func (t *target) assign(r *render, f *frame, v Value) error {
	switch {
	case t.object != nil:
		o, err := t.object.eval(r, f)
		if err != nil {
			return err
		}
		ns, ok := o.(*namespace)
		if !ok {
			return r.at(t.at, typeErrorf("cannot assign to an attribute of a %s: only namespaces have attributes that can be set", typeName(o)))
		}
		if err := r.grow(valueSize); err != nil {
			return r.at(t.at, err)
		}
		ns.attrs.Set(t.attr, v)
	case t.items != nil:
		items, err := r.items(v)
		if err != nil {
			return r.at(t.at, err)
		}
		if len(items) != len(t.items) {
			return r.at(t.at, typeErrorf("cannot unpack %d values into %d names", len(items), len(t.items)))
		}
		for i, item := range items {
			if err := t.items[i].assign(r, f, item); err != nil {
				return err
			}
		}
	default:
		f.vars[t.slot] = v
	}
	return nil
}

type setNode struct {
	at     int
	target *target
	value  expr
}

func (n *setNode) exec(r *render, f *frame) (signal, error) {
	v, err := n.value.eval(r, f)
	if err != nil {
		return 0, r.at(n.at, err)
	}
	return 0, n.target.assign(r, f, v)
}

// A captureNode is a set block, or a filter block, which has no target.
type captureNode struct {
	at     int
	target *target
	filter expr // a chain of filters with a nil first operand, or nil
	scope  *scope
	body   []statement
}

func (n *captureNode) exec(r *render, f *frame) (signal, error) {
	s, sig, err := r.capture(n.body, newFrame(n.scope, f))
	if err != nil || sig != signalNone {
		return sig, err
	}
	var v Value = s
	if n.filter != nil {
		if v, err = applyChain(r, f, n.filter, v); err != nil {
			return 0, err
		}
	}
	if n.target != nil {
		return 0, n.target.assign(r, f, v)
	}
	if s, err = r.str(v); err == nil {
		err = r.write(s)
	}
	if err != nil {
		return 0, r.at(n.at, err)
	}
	return 0, nil
}

// applyChain applies filters to a value.
func applyChain(r *render, f *frame, e expr, v Value) (Value, error) {
	n, ok := e.(*filterNode)
	if !ok {
		return v, nil
	}
	if n.operand != nil {
		var err error
		if v, err = applyChain(r, f, n.operand, v); err != nil {
			return nil, err
		}
	}
	return n.apply(r, f, v)
}

type withNode struct {
	at      int
	scope   *scope
	targets []*target
	values  []expr
	body    []statement
}

func (n *withNode) exec(r *render, f *frame) (signal, error) {
	inner := newFrame(n.scope, f)
	for i, t := range n.targets {
		v, err := n.values[i].eval(r, f)
		if err != nil {
			return 0, err
		}
		if err := t.assign(r, inner, v); err != nil {
			return 0, err
		}
	}
	return r.run(n.body, inner)
}

// A scopeNode is a body with its own variables.
type scopeNode struct {
	at    int
	scope *scope
	body  []statement
	root  bool // it sees only the template's own variables
}

func (n *scopeNode) exec(r *render, f *frame) (signal, error) {
	for n.root && f.parent != nil {
		f = f.parent
	}
	return r.run(n.body, newFrame(n.scope, f))
}

type forNode struct {
	at        int
	scope     *scope // of the targets, the test and the body
	loop      int    // slot of the variable loop
	target    *target
	over      expr
	test      expr // or nil
	recursive bool
	body      []statement
	otherwise *scope
	elseBody  []statement
}

func (n *forNode) exec(r *render, f *frame) (signal, error) {
	v, err := n.over.eval(r, f)
	if err != nil {
		return 0, err
	}
	return 0, n.iterate(r, f, v, 0)
}

// iterate runs the loop over v; depth counts the calls of a recursive loop.
func (n *forNode) iterate(r *render, f *frame, v Value, depth int) error {
	it, err := r.iterate(v)
	if err != nil {
		return r.at(n.at, err)
	}
	l := &loop{node: n, outer: f, next: it, depth0: depth, index0: -1, length: -1}
	if n.test != nil {
		l.next = n.filtered(r, f, it)
	} else if size, ok := length(v); ok {
		l.length = size
	}
	complete := false // some pass came to its end: Jinja2's else asks that, and not whether there were any items
	for {
		v, ok, err := l.advance()
		if err != nil {
			return r.at(n.at, err)
		}
		if !ok {
			break
		}
		if err := r.work(1); err != nil {
			return r.at(n.at, err)
		}
		inner := newFrame(n.scope, f)
		inner.vars[n.loop] = l
		if err := n.target.assign(r, inner, v); err != nil {
			return err
		}
		sig, err := r.run(n.body, inner)
		if err != nil {
			return r.at(n.at, err)
		}
		if sig == signalBreak {
			break
		}
		complete = complete || sig == signalNone
	}
	if !complete && n.elseBody != nil {
		_, err := r.run(n.elseBody, newFrame(n.otherwise, f))
		return err
	}
	return nil
}

// filtered leaves out the items for which the loop's test is false.
func (n *forNode) filtered(r *render, f *frame, it nextFunc) nextFunc {
	return func() (Value, bool, error) {
		for {
			v, ok, err := it()
			if err != nil || !ok {
				return nil, false, err
			}
			if err := r.work(1); err != nil {
				return nil, false, err
			}
			inner := newFrame(n.scope, f)
			if err := n.target.assign(r, inner, v); err != nil {
				return nil, false, err
			}
			pass, err := n.test.eval(r, inner)
			if err != nil {
				return nil, false, err
			}
			if truth(pass) {
				return v, true, nil
			}
		}
	}
}
