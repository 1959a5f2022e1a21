package jinja

import (
	"slices"
	"strings"
)

// A call holds the arguments of a call.
type call struct {
	r     *render
	args  []Value
	named *Dict // or nil
}

func (c *call) addNamed(name string, v Value) error {
	if c.named == nil {
		c.named = &Dict{}
	}
	if _, ok := c.named.Get(name); ok {
		return typeErrorf("the argument '%s' is given twice", name)
	}
	c.named.Set(name, v)
	return nil
}

// A function is a function, method, filter or test.
type function struct {
	name     string
	params   []string // names of the parameters
	required int      // how many of them must be given
	do       func(c *call, a []Value) (Value, error)
	raw      func(c *call) (Value, error) // instead of do, for any number of arguments
}

// fn makes a function with the words of params as parameters; those after a "/" are optional, and nil if left out.
func fn(params string, do func(c *call, a []Value) (Value, error)) *function {
	needed, optional, _ := strings.Cut(params, "/")
	f := &function{do: do, params: strings.Fields(needed)}
	f.required = len(f.params)
	f.params = append(f.params, strings.Fields(optional)...)
	return f
}

func rawFn(raw func(c *call) (Value, error)) *function { return &function{raw: raw} }

// call binds the arguments to the function's parameters and calls it.
func (f *function) call(c *call) (Value, error) {
	if err := c.r.work(1); err != nil {
		return nil, err
	}
	if f.raw != nil {
		return f.raw(c)
	}
	if len(c.args) > len(f.params) {
		return nil, typeErrorf("%stakes at most %d arguments, but got %d", f.title(), len(f.params), len(c.args))
	}
	if c.named == nil && len(c.args) == len(f.params) {
		return f.do(c, c.args)
	}
	a := make([]Value, len(f.params))
	copy(a, c.args)
	if c.named != nil {
		for k, v := range c.named.All {
			name := k.(string)
			i := slices.Index(f.params, name)
			if i < 0 {
				return nil, typeErrorf("%sgot an unexpected keyword argument '%s'", f.title(), name)
			}
			if a[i] != nil {
				return nil, typeErrorf("%sgot multiple values for argument '%s'", f.title(), name)
			}
			a[i] = v
		}
	}
	for i := range f.required {
		if a[i] == nil {
			return nil, typeErrorf("%smissing the argument '%s'", f.title(), f.params[i])
		}
	}
	return f.do(c, a)
}

func (f *function) title() string {
	if f.name == "" {
		return ""
	}
	return f.name + "() "
}

// call calls a value.
func (r *render) call(fn Value, c *call) (Value, error) {
	switch fn := fn.(type) {
	case *function:
		return fn.call(c)
	case *macro:
		return fn.call(c)
	case *loop:
		return fn.call(c)
	case *joiner:
		return fn.call(c)
	case *Undefined:
		return nil, fn.fault()
	}
	return nil, typeErrorf("'%s' object is not callable", typeName(fn))
}

// A macroNode defines a macro, or the body of a call block.
type macroNode struct {
	at       int
	name     string
	slot     int // of the macro itself in the scope around it
	params   []string
	defaults []expr // nil for a parameter without one
	scope    *scope // its first slots are the parameters
	body     []statement

	// Slots of the special variables that the body uses, or -1.
	caller, varargs, kwargs int
}

func (n *macroNode) exec(_ *render, f *frame) (signal, error) {
	f.vars[n.slot] = &macro{n, f}
	return 0, nil
}

type callBlock struct {
	at   int
	call *callNode
	body *macroNode
}

func (n *callBlock) exec(r *render, f *frame) (signal, error) {
	v, err := n.call.call(r, f, &macro{n.body, f})
	if err != nil {
		return 0, err
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

// A macro is a macro with the variables that it sees.
type macro struct {
	node  *macroNode
	outer *frame
}

func (m *macro) call(c *call) (Value, error) {
	r, n := c.r, m.node
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer func() { r.depth-- }()
	f := newFrame(n.scope, m.outer)
	named := &Dict{}
	if c.named != nil {
		named = c.named
	}
	if err := m.bind(c, f, named); err != nil {
		return nil, err
	}
	for i, p := range n.params {
		if f.vars[i] != nil {
			continue
		}
		if n.defaults[i] == nil {
			f.vars[i] = &Undefined{hint: "the parameter '" + p + "' of the macro '" + n.name + "' was not given", name: p}
			continue
		}
		v, err := n.defaults[i].eval(r, f)
		if err != nil {
			return nil, err
		}
		f.vars[i] = v
	}
	s, _, err := r.capture(n.body, f)
	return s, err
}

// bind puts the arguments into the frame.
func (m *macro) bind(c *call, f *frame, named *Dict) error {
	n := m.node
	taken := copy(f.vars[:len(n.params)], c.args)
	rest := &Dict{}
	for k, v := range named.All {
		name := k.(string)
		i := slices.Index(n.params, name)
		switch {
		case i >= taken:
			f.vars[i] = v
		case name == "caller" && n.caller >= 0:
			f.vars[n.caller] = v
		case n.kwargs >= 0:
			rest.Set(name, v)
		default:
			return typeErrorf("the macro '%s' takes no keyword argument '%s'", n.name, name)
		}
	}
	if n.caller >= 0 && f.vars[n.caller] == nil {
		f.vars[n.caller] = &Undefined{hint: "the macro '" + n.name + "' was called without a call block", name: "caller"}
	}
	if n.kwargs >= 0 {
		f.vars[n.kwargs] = rest
	}
	if n.varargs >= 0 {
		f.vars[n.varargs] = &Tuple{items: c.args[taken:]}
	} else if len(c.args) > taken {
		return typeErrorf("the macro '%s' takes at most %d arguments, but got %d", n.name, len(n.params), len(c.args))
	}
	return nil
}
