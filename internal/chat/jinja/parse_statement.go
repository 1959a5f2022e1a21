package jinja

import "slices"

func (p *parser) statement() (statement, error) {
	t, err := p.expectName()
	if err != nil {
		return nil, err
	}
	switch t.text {
	case "for":
		return p.forStatement(t)
	case "if":
		return p.ifStatement(t)
	case "set":
		return p.setStatement(t)
	case "macro":
		return p.macroStatement(t)
	case "call":
		return p.callStatement(t)
	case "filter":
		return p.filterStatement(t)
	case "generation":
		s := newScope(p.scope, false)
		body, _, err := p.scoped(s, t, "endgeneration")
		return &scopeNode{t.pos, s, body, false}, err
	case "with":
		return p.withStatement(t)
	case "block":
		return p.blockStatement(t)
	case "print":
		return p.printStatement(t)
	case "autoescape":
		return p.autoescapeStatement(t)
	case "break", "continue":
		if !p.scope.loop {
			return nil, p.fail(t.pos, "'%s' stands outside of a loop", t.text)
		}
		if t.text == "break" {
			return controlNode(signalBreak), nil
		}
		return controlNode(signalContinue), nil
	case "include", "import", "from", "extends":
		return nil, p.fail(t.pos, "'%s' needs another template, and a chat template stands alone", t.text)
	}
	return nil, p.fail(t.pos, "unknown statement '%s'", t.text)
}

func (p *parser) forStatement(t token) (statement, error) {
	n := &forNode{at: t.pos, scope: newScope(p.scope, true), otherwise: newScope(p.scope, p.scope.loop)}
	outer := p.scope
	p.scope = n.scope
	var err error
	if n.target, err = p.target(false, "in"); err != nil {
		return nil, err
	}
	if _, taken := n.scope.slots["loop"]; taken {
		return nil, p.fail(t.pos, "a loop cannot assign to 'loop'")
	}
	n.loop = n.scope.slot("loop")
	p.scope = outer
	if !p.skipName("in") {
		return nil, p.fail(p.current().pos, "expected 'in', got %s", p.current().describe())
	}
	if n.over, err = p.tuple(false, "recursive"); err != nil {
		return nil, err
	}
	p.scope = n.scope
	if p.skipName("if") {
		if n.test, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	n.recursive = p.skipName("recursive")
	p.scope = outer
	var end string
	n.body, end, err = p.scoped(n.scope, t, "endfor", "else")
	if err == nil && end == "else" {
		n.elseBody, _, err = p.scoped(n.otherwise, t, "endfor")
	}
	return n, err
}

func (p *parser) ifStatement(t token) (statement, error) {
	n := &ifNode{at: t.pos}
	defer func(known int) { p.missing = p.missing[:known] }(len(p.missing))
	for {
		test, err := p.tuple(false)
		if err != nil {
			return nil, err
		}
		body, end, err := p.block(t, "elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		n.branches = append(n.branches, branch{test, body})
		if end == "elif" {
			continue
		}
		if end == "else" {
			n.otherwise, _, err = p.block(t, "endif")
		}
		return n, err
	}
}

func (p *parser) setStatement(t token) (statement, error) {
	target, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.skipOperator("=") {
		value, err := p.tuple(true)
		return &setNode{t.pos, target, value}, err
	}
	filter, err := p.filters(nil, false)
	if err != nil {
		return nil, err
	}
	s := newScope(p.scope, p.scope.loop)
	body, _, err := p.scoped(s, t, "endset")
	return &captureNode{t.pos, target, filter, s, body}, err
}

func (p *parser) filterStatement(t token) (statement, error) {
	filter, err := p.filters(nil, true)
	if err != nil {
		return nil, err
	}
	s := newScope(p.scope, p.scope.loop)
	body, _, err := p.scoped(s, t, "endfilter")
	return &captureNode{t.pos, nil, filter, s, body}, err
}

// signature parses the parameters of a macro or call block into m; its scope is the current one.
func (p *parser) signature(m *macroNode) error {
	if err := p.expectOperator("("); err != nil {
		return err
	}
	for !p.isOperator(")") {
		if len(m.params) > 0 {
			if err := p.expectOperator(","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		if isConstant(name.text) {
			return p.fail(name.pos, "cannot assign to '%s'", name.text)
		}
		if slices.Contains(m.params, name.text) {
			return p.fail(name.pos, "the parameter '%s' is there twice", name.text)
		}
		var value expr
		if p.skipOperator("=") {
			if value, err = p.expression(true); err != nil {
				return err
			}
		} else if len(m.defaults) > 0 && m.defaults[len(m.defaults)-1] != nil {
			return p.fail(name.pos, "a parameter without a default follows one that has a default")
		}
		p.scope.slot(name.text)
		m.params, m.defaults = append(m.params, name.text), append(m.defaults, value)
	}
	return p.expectOperator(")")
}

// macroBody parses the body of m in its scope.
func (p *parser) macroBody(m *macroNode, open token, end string) error {
	p.macros = append(p.macros, m)
	var err error
	m.body, _, err = p.scoped(m.scope, open, end)
	p.macros = p.macros[:len(p.macros)-1]
	for _, special := range []struct {
		name string
		slot *int
	}{{"caller", &m.caller}, {"varargs", &m.varargs}, {"kwargs", &m.kwargs}} {
		if *special.slot >= 0 {
			if slices.Contains(m.params, special.name) {
				*special.slot = -1
				continue
			}
			*special.slot = m.scope.slot(special.name)
		}
	}
	return err
}

func (p *parser) newMacro(at int, name string) *macroNode {
	return &macroNode{at: at, name: name, scope: newScope(p.scope, false), caller: -1, varargs: -1, kwargs: -1}
}

func (p *parser) macroStatement(t token) (statement, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	m := p.newMacro(t.pos, name.text)
	m.slot = p.scope.slot(name.text)
	outer := p.scope
	p.scope = m.scope
	err = p.signature(m)
	p.scope = outer
	if err != nil {
		return nil, err
	}
	return m, p.macroBody(m, t, "endmacro")
}

func (p *parser) callStatement(t token) (statement, error) {
	m := p.newMacro(t.pos, "caller")
	if p.isOperator("(") {
		outer := p.scope
		p.scope = m.scope
		err := p.signature(m)
		p.scope = outer
		if err != nil {
			return nil, err
		}
	}
	e, err := p.expression(true)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callNode)
	if !ok {
		return nil, p.fail(t.pos, "a call block needs a call")
	}
	return &callBlock{t.pos, call, m}, p.macroBody(m, t, "endcall")
}

func (p *parser) withStatement(t token) (statement, error) {
	n := &withNode{at: t.pos, scope: newScope(p.scope, p.scope.loop)}
	outer := p.scope
	for p.current().kind != tokenBlockEnd && !p.isOperator(":") {
		if len(n.targets) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
		}
		p.scope = n.scope
		target, err := p.target(false)
		p.scope = outer
		if err != nil {
			return nil, err
		}
		if err := p.expectOperator("="); err != nil {
			return nil, err
		}
		value, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		n.targets, n.values = append(n.targets, target), append(n.values, value)
	}
	var err error
	n.body, _, err = p.scoped(n.scope, t, "endwith")
	return n, err
}

// blockStatement parses a block. Without inheritance it is a body that sees only the template's own variables.
func (p *parser) blockStatement(t token) (statement, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	parent := p.root
	if p.skipName("scoped") {
		parent = p.scope
	}
	if p.isName("required") {
		return nil, p.fail(p.current().pos, "a required block needs another template, and a chat template stands alone")
	}
	s := newScope(parent, false)
	body, _, err := p.scoped(s, t, "endblock")
	p.skipName(name.text)
	return &scopeNode{t.pos, s, body, parent == p.root}, err
}

func (p *parser) printStatement(t token) (statement, error) {
	var n sequenceNode
	for p.current().kind != tokenBlockEnd {
		if len(n) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		n = append(n, &outputNode{t.pos, e})
	}
	return n, nil
}

func (p *parser) autoescapeStatement(t token) (statement, error) {
	e, err := p.expression(true)
	if err != nil {
		return nil, err
	}
	if c, ok := e.(*constNode); !ok || truth(c.value) {
		return nil, p.fail(t.pos, "autoescape cannot be switched on: a prompt is plain text")
	}
	s := newScope(p.scope, p.scope.loop)
	body, _, err := p.scoped(s, t, "endautoescape")
	return &scopeNode{t.pos, s, body, false}, err
}

func isConstant(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// target parses what set, for and with assign to: a name, a tuple of targets, or, for set, an attribute of a namespace.
// The names become the current scope's.
func (p *parser) target(namespace bool, ends ...string) (*target, error) {
	at := p.current().pos
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var items []*target
	tuple := false
	for {
		t := p.current()
		if t.kind == tokenBlockEnd || p.isOperator(")") || p.isName(ends...) {
			break
		}
		item, err := p.simpleTarget(namespace)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if !p.skipOperator(",") {
			break
		}
		tuple = true
	}
	if tuple {
		return &target{at: at, items: items}, nil
	}
	if len(items) == 0 {
		return nil, p.fail(at, "expected a name, got %s", p.current().describe())
	}
	return items[0], nil
}

func (p *parser) simpleTarget(namespace bool) (*target, error) {
	if p.isOperator("(") || p.isOperator("[") {
		end := map[string]string{"(": ")", "[": "]"}[p.next().text]
		t, err := p.target(namespace)
		if err != nil {
			return nil, err
		}
		if t.items == nil && end == "]" {
			t = &target{at: t.at, items: []*target{t}}
		}
		return t, p.expectOperator(end)
	}
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	if isConstant(name.text) {
		return nil, p.fail(name.pos, "cannot assign to '%s'", name.text)
	}
	if namespace && p.isOperator(".") {
		p.next()
		attr, err := p.expectName()
		if err != nil {
			return nil, err
		}
		return &target{at: name.pos, attr: attr.text, object: p.name(name)}, nil
	}
	return &target{at: name.pos, slot: p.scope.slot(name.text)}, nil
}
