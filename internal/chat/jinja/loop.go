package jinja

// A loop is the variable loop in the body of a for statement.
type loop struct {
	node   *forNode
	outer  *frame
	next   nextFunc
	ahead  []Value // items read before their turn
	done   bool    // next has no more
	length int     // or -1 if unknown

	index0, depth0    int
	previous, current Value
	changed           *Tuple // what changed() was called with last
}

// peek makes sure that n items are read ahead, or all.
func (l *loop) peek(n int) error {
	for !l.done && len(l.ahead) < n {
		v, ok, err := l.next()
		if err != nil {
			return err
		}
		if !ok {
			l.done = true
			break
		}
		l.ahead = append(l.ahead, v)
	}
	return nil
}

// advance goes to the next item.
func (l *loop) advance() (Value, bool, error) {
	if err := l.peek(1); err != nil || len(l.ahead) == 0 {
		return nil, false, err
	}
	v := l.ahead[0]
	l.ahead = l.ahead[1:]
	l.index0++
	l.previous, l.current = l.current, v
	return v, true, nil
}

// size returns the number of items; it reads all items of an iterator for that.
func (l *loop) size(r *render) (int, error) {
	if l.length < 0 {
		for n := 1; !l.done; n *= 2 {
			if err := r.grow(valueSize * n); err != nil {
				return 0, err
			}
			if err := l.peek(n); err != nil {
				return 0, err
			}
		}
		l.length = l.index0 + 1 + len(l.ahead)
	}
	return l.length, nil
}

// attribute returns an attribute of the loop, or nil.
func (l *loop) attribute(r *render, name string) (Value, error) {
	switch name {
	case "index":
		return int64(l.index0 + 1), nil
	case "index0":
		return int64(l.index0), nil
	case "first":
		return l.index0 == 0, nil
	case "depth":
		return int64(l.depth0 + 1), nil
	case "depth0":
		return int64(l.depth0), nil
	case "last":
		err := l.peek(1)
		return len(l.ahead) == 0, err
	case "length", "revindex", "revindex0":
		n, err := l.size(r)
		switch name {
		case "revindex":
			n -= l.index0
		case "revindex0":
			n -= l.index0 + 1
		}
		return int64(n), err
	case "previtem":
		if l.index0 == 0 {
			return &Undefined{hint: "there is no previous item"}, nil
		}
		return l.previous, nil
	case "nextitem":
		if err := l.peek(1); err != nil {
			return nil, err
		}
		if len(l.ahead) == 0 {
			return &Undefined{hint: "there is no next item"}, nil
		}
		return l.ahead[0], nil
	case "cycle":
		return rawFn(l.cycle), nil
	case "changed":
		return rawFn(l.hasChanged), nil
	}
	return nil, nil
}

func (l *loop) cycle(c *call) (Value, error) {
	if len(c.args) == 0 {
		return nil, typeErrorf("loop.cycle needs at least one value")
	}
	return c.args[l.index0%len(c.args)], nil
}

func (l *loop) hasChanged(c *call) (Value, error) {
	now := &Tuple{items: c.args}
	if l.changed != nil {
		same, err := c.r.equal(l.changed, now)
		if err != nil || same {
			return false, err
		}
	}
	l.changed = now
	return true, nil
}

// call runs a recursive loop over another value and returns what it writes.
func (l *loop) call(c *call) (Value, error) {
	if len(c.args) != 1 || c.named != nil {
		return nil, typeErrorf("loop() takes one argument, what to run over")
	}
	if !l.node.recursive {
		return nil, typeErrorf("only a loop marked 'recursive' can be called")
	}
	r := c.r
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer func() { r.depth-- }()
	s, _, err := r.capture([]statement{recursion{l, c.args[0]}}, l.outer)
	return s, err
}

// recursion is one call of a recursive loop.
type recursion struct {
	loop *loop
	over Value
}

func (n recursion) exec(r *render, f *frame) (signal, error) {
	return 0, n.loop.node.iterate(r, f, n.over, n.loop.depth0+1)
}
