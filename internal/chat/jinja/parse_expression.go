package jinja

// expression parses a whole expression; if conditional is false, it ends before "a if b else c", as in the iterable of
// a loop.
func (p *parser) expression(conditional bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	known := len(p.missing)
	e, err := p.or()
	for n := 0; err == nil && conditional && p.isName("if"); n++ {
		if err := p.chain(n); err != nil {
			return nil, err
		}
		t := p.next()
		c := &conditionalNode{at: t.pos, then: e}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			c.otherwise, err = p.expression(true)
		}
		e = c
		p.missing = p.missing[:known]
	}
	return e, err
}

func (p *parser) or() (expr, error) {
	left, err := p.and()
	for n := 0; err == nil && p.isName("or"); n++ {
		if err := p.chain(n); err != nil {
			return nil, err
		}
		p.next()
		var right expr
		right, err = p.and()
		left = &orNode{left, right}
	}
	return left, err
}

func (p *parser) and() (expr, error) {
	left, err := p.not()
	for n := 0; err == nil && p.isName("and"); n++ {
		if err := p.chain(n); err != nil {
			return nil, err
		}
		p.next()
		var right expr
		right, err = p.not()
		left = &andNode{left, right}
	}
	return left, err
}

func (p *parser) not() (expr, error) {
	if !p.isName("not") {
		return p.comparison()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	p.next()
	e, err := p.not()
	return &notNode{e}, err
}

func (p *parser) comparison() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareNode{first: first}
	for {
		t := p.current()
		op := ""
		switch {
		case t.kind == tokenOperator && isComparison(t.text):
			op = t.text
		case p.isName("in"):
			op = "in"
		case p.isName("not") && p.look().kind == tokenName && p.look().text == "in":
			p.next()
			op = "not in"
		}
		if op == "" {
			break
		}
		p.next()
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.rest = append(c.rest, operand{t.pos, op, right})
	}
	if len(c.rest) == 0 {
		return first, nil
	}
	return c, nil
}

func isComparison(op string) bool {
	switch op {
	case "==", "!=", "<", "<=", ">", ">=":
		return true
	}
	return false
}

// binary parses operators of one rank, from left to right.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	left, err := operand()
	for n := 0; err == nil; n++ {
		t := p.current()
		op := ""
		for _, o := range ops {
			if t.kind == tokenOperator && t.text == o {
				op = o
			}
		}
		if op == "" {
			break
		}
		if err := p.chain(n); err != nil {
			return nil, err
		}
		p.next()
		var right expr
		right, err = operand()
		left = &binaryNode{t.pos, op, left, right}
	}
	return left, err
}

func (p *parser) sum() (expr, error) {
	e, err := p.binary(p.concatenation, "+", "-")
	if n, ok := e.(*binaryNode); ok && err == nil && n.op == "+" {
		return n.flattened(), nil
	}
	return e, err
}

func (p *parser) concatenation() (expr, error) {
	first, err := p.product()
	if err != nil || !p.isOperator("~") {
		return first, err
	}
	c := &concatNode{at: p.current().pos, parts: []expr{first}}
	for p.skipOperator("~") {
		part, err := p.product()
		if err != nil {
			return nil, err
		}
		c.parts = append(c.parts, part)
	}
	return c, nil
}

func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) (expr, error) {
	var e expr
	var err error
	if t := p.current(); p.isOperator("-") || p.isOperator("+") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		p.next()
		e, err = p.unary(false)
		p.depth--
		e = &signNode{t.pos, t.text == "-", e}
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && filters {
		e, err = p.filtersAndTests(e)
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.current()
	switch t.kind {
	case tokenName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constNode{true}, nil
		case "false", "False":
			return &constNode{false}, nil
		case "none", "None":
			return &constNode{None{}}, nil
		}
		return p.name(t), nil
	case tokenString:
		s := ""
		for p.current().kind == tokenString {
			s += p.next().text
		}
		return &constNode{s}, nil
	case tokenNumber:
		p.next()
		return &constNode{t.value}, nil
	case tokenOperator:
		switch t.text {
		case "(":
			p.next()
			e, err := p.parenthesized()
			if err != nil {
				return nil, err
			}
			return e, p.expectOperator(")")
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, p.fail(t.pos, "expected an expression, got %s", t.describe())
}

func (p *parser) parenthesized() (expr, error) {
	if p.isOperator(")") {
		return &tupleNode{}, nil
	}
	return p.tuple(true)
}

// tuple parses an expression, or several with commas between them, which make a tuple. It may end before a word of
// ends.
func (p *parser) tuple(conditional bool, ends ...string) (expr, error) {
	at := p.current().pos
	var items []expr
	tuple := false
	for !p.endOfTuple(ends) {
		e, err := p.expression(conditional)
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.skipOperator(",") {
			break
		}
		tuple = true
	}
	if tuple {
		return &tupleNode{items}, nil
	}
	if len(items) == 0 {
		return nil, p.fail(at, "expected an expression, got %s", p.current().describe())
	}
	return items[0], nil
}

func (p *parser) endOfTuple(ends []string) bool {
	switch t := p.current(); t.kind {
	case tokenVariableEnd, tokenBlockEnd:
		return true
	case tokenOperator:
		return t.text == ")"
	case tokenName:
		return p.isName(ends...)
	}
	return false
}

func (p *parser) list() (expr, error) {
	p.next()
	n := &listNode{}
	for !p.isOperator("]") {
		if len(n.items) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.isOperator("]") {
				break
			}
		}
		e, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, e)
	}
	return n, p.expectOperator("]")
}

func (p *parser) dict() (expr, error) {
	n := &dictNode{at: p.next().pos}
	for !p.isOperator("}") {
		if len(n.keys) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.isOperator("}") {
				break
			}
		}
		key, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		if err := p.expectOperator(":"); err != nil {
			return nil, err
		}
		value, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		n.keys, n.values = append(n.keys, key), append(n.values, value)
	}
	return n, p.expectOperator("}")
}

func (p *parser) postfix(e expr) (expr, error) {
	var err error
	for n := 0; err == nil; n++ {
		if err := p.chain(n); err != nil {
			return nil, err
		}
		switch {
		case p.isOperator("."):
			e, err = p.attribute(e)
		case p.isOperator("["):
			e, err = p.subscript(e)
		case p.isOperator("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) filtersAndTests(e expr) (expr, error) {
	var err error
	for n := 0; err == nil; n++ {
		if err := p.chain(n); err != nil {
			return nil, err
		}
		switch {
		case p.isOperator("|"):
			e, err = p.filters(e, false)
		case p.isName("is"):
			e, err = p.test(e)
		case p.isOperator("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) attribute(e expr) (expr, error) {
	p.next()
	t := p.next()
	switch t.kind {
	case tokenName:
		return &attributeNode{t.pos, e, t.text}, nil
	case tokenNumber:
		if i, ok := t.value.(int64); ok {
			return &itemNode{t.pos, e, &constNode{i}}, nil
		}
	}
	return nil, p.fail(t.pos, "expected a name or a whole number after '.', got %s", t.describe())
}

func (p *parser) subscript(e expr) (expr, error) {
	at := p.next().pos
	var items []expr
	for !p.isOperator("]") {
		if len(items) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
		}
		item, err := p.subscribed()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	p.next()
	if len(items) == 1 {
		if s, ok := items[0].(*sliceNode); ok {
			s.at, s.object = at, e
			return s, nil
		}
		return &itemNode{at, e, items[0]}, nil
	}
	return &itemNode{at, e, &tupleNode{items}}, nil
}

// subscribed parses an index or a slice; its object is set later.
func (p *parser) subscribed() (expr, error) {
	s := &sliceNode{}
	var err error
	if !p.isOperator(":") {
		e, err := p.expression(true)
		if err != nil || !p.isOperator(":") {
			return e, err
		}
		s.from = e
	}
	for _, part := range []*expr{&s.to, &s.by} {
		if !p.skipOperator(":") {
			break
		}
		if p.isOperator(":") || p.isOperator("]") || p.isOperator(",") {
			continue
		}
		if *part, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// arguments parses the arguments of a call, with the parentheses.
func (p *parser) arguments() (*arguments, error) {
	open := p.next()
	a := &arguments{}
	for first := true; !p.isOperator(")"); first = false {
		if !first {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.isOperator(")") {
				break
			}
		}
		var err error
		ok := true
		switch t := p.current(); {
		case p.skipOperator("*"):
			ok = a.spread == nil && a.spreadNamed == nil
			a.spread, err = p.expression(true)
		case p.skipOperator("**"):
			ok = a.spreadNamed == nil
			a.spreadNamed, err = p.expression(true)
		case t.kind == tokenName && p.look().kind == tokenOperator && p.look().text == "=":
			ok = a.spreadNamed == nil
			p.i += 2
			for _, n := range a.named {
				if n.name == t.text {
					return nil, p.fail(t.pos, "the argument '%s' is given twice", t.text)
				}
			}
			var e expr
			e, err = p.expression(true)
			a.named = append(a.named, namedArgument{t.text, e})
		default:
			ok = a.spread == nil && a.spreadNamed == nil && len(a.named) == 0
			var e expr
			e, err = p.expression(true)
			a.items = append(a.items, e)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, p.fail(open.pos, "the arguments of the call are in a wrong order")
		}
	}
	return a, p.expectOperator(")")
}

func (p *parser) call(e expr) (expr, error) {
	at := p.current().pos
	a, err := p.arguments()
	return &callNode{at: at, fn: e, args: a}, err
}

func (p *parser) dottedName() (token, error) {
	t, err := p.expectName()
	for err == nil && p.skipOperator(".") {
		var part token
		part, err = p.expectName()
		t.text += "." + part.text
	}
	return t, err
}

// filters parses the filters after e. For filter blocks, inline is true: the first filter comes without a '|'.
func (p *parser) filters(e expr, inline bool) (expr, error) {
	for n := 0; inline || p.isOperator("|"); n++ {
		if err := p.chain(n); err != nil {
			return nil, err
		}
		if !inline {
			p.next()
		}
		inline = false
		t, err := p.dottedName()
		if err != nil {
			return nil, err
		}
		f, ok := filters[t.text]
		if !ok {
			f = p.unknown(t, "filter")
		}
		node := &filterNode{at: t.pos, filter: f, name: t.text, operand: e}
		if p.isOperator("(") {
			if node.args, err = p.arguments(); err != nil {
				return nil, err
			}
		}
		e = node
	}
	return e, nil
}

// unknown returns what stands for a filter or test that does not exist: a function that fails.
func (p *parser) unknown(t token, what string) *function {
	err := p.fail(t.pos, "there is no %s named '%s'", what, t.text)
	p.missing = append(p.missing, err)
	return rawFn(func(*call) (Value, error) { return nil, err })
}

func (p *parser) test(e expr) (expr, error) {
	p.next()
	negated := p.skipName("not")
	t, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	f, ok := tests[t.text]
	if !ok {
		f = p.unknown(t, "test")
	}
	node := &testNode{at: t.pos, test: f, name: t.text, operand: e}
	switch {
	case p.isOperator("("):
		node.args, err = p.arguments()
	case p.isName("else", "or", "and"):
	case p.isName("is"):
		return nil, p.fail(p.current().pos, "tests cannot be chained with 'is'")
	case p.beginsArgument():
		arg, argErr := p.primary()
		if argErr == nil {
			arg, argErr = p.postfix(arg)
		}
		node.args, err = &arguments{items: []expr{arg}}, argErr
	}
	if negated {
		return &notNode{node}, err
	}
	return node, err
}

// beginsArgument reports whether the argument of a test follows without parentheses.
func (p *parser) beginsArgument() bool {
	switch t := p.current(); t.kind {
	case tokenName, tokenString, tokenNumber:
		return true
	case tokenOperator:
		return t.text == "[" || t.text == "{"
	}
	return false
}
