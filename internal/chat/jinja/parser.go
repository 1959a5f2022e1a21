package jinja

import (
	"slices"
	"strings"
)

const (
	maxSource    = 4 << 20 // bytes of a template
	maxParse     = 200     // nesting of expressions and statements in a template
	maxChain     = 2000    // operators, filters and subscripts in a row
	nestingFault = "the template is nested more than %d deep"
)

// A scope is a region of a template with its own variables: the whole template, the body of a loop, macro, with, and so
// on. At run time it has a frame, with a slot for each of its names.
type scope struct {
	parent *scope
	slots  map[string]int
	loop   bool // inside a loop of the same function: break and continue are possible
}

func newScope(parent *scope, loop bool) *scope {
	return &scope{parent: parent, slots: map[string]int{}, loop: loop}
}

// slot returns the slot of a name that the scope stores.
func (s *scope) slot(name string) int {
	i, ok := s.slots[name]
	if !ok {
		i = len(s.slots)
		s.slots[name] = i
	}
	return i
}

// parser turns tokens into nodes. The grammar is Jinja2's; each method names its part.
type parser struct {
	src    string
	tokens []token
	i      int
	scope  *scope
	root   *scope
	depth  int
	loads  []load
	macros []*macroNode // those being parsed, innermost last

	// Filters and tests that do not exist and that are not under a condition of the current scope. Under a condition
	// they fail only when they are reached: templates ask so for what not every Jinja has.
	missing []error
}

// A load is a name to be resolved when all scopes are complete.
type load struct {
	node  *nameNode
	scope *scope
}

func (p *parser) current() token { return p.tokens[p.i] }

func (p *parser) look() token { return p.tokens[min(p.i+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != tokenEOF {
		p.i++
	}
	return t
}

func (p *parser) fail(pos int, format string, a ...any) error {
	return placed(p.src, pos, faultf(ErrSyntax, format, a...))
}

func (p *parser) isOperator(op string) bool {
	t := p.current()
	return t.kind == tokenOperator && t.text == op
}

func (p *parser) isName(names ...string) bool {
	t := p.current()
	return t.kind == tokenName && slices.Contains(names, t.text)
}

func (p *parser) skipOperator(op string) bool {
	if p.isOperator(op) {
		p.i++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.i++
		return true
	}
	return false
}

func (p *parser) expectOperator(op string) error {
	if p.skipOperator(op) {
		return nil
	}
	t := p.current()
	return p.fail(t.pos, "expected '%s', got %s", op, t.describe())
}

func (p *parser) expectName() (token, error) {
	t := p.current()
	if t.kind != tokenName {
		return t, p.fail(t.pos, "expected a name, got %s", t.describe())
	}
	return p.next(), nil
}

func (p *parser) expectKind(kind tokenKind) error {
	t := p.current()
	if t.kind != kind {
		return p.fail(t.pos, "expected %s, got %s", token{kind: kind}.describe(), t.describe())
	}
	p.next()
	return nil
}

// enter counts one level of nesting; the caller leaves it with p.depth--.
func (p *parser) enter() error {
	p.depth++
	if p.depth > maxParse {
		return placed(p.src, p.current().pos, faultf(ErrDepth, nestingFault, maxParse))
	}
	return nil
}

// chain fails if n operators in a row are too many.
func (p *parser) chain(n int) error {
	if n > maxChain {
		return placed(p.src, p.current().pos, faultf(ErrDepth, "the expression has more than %d operators in a row", maxChain))
	}
	return nil
}

// body parses text, expressions and statements up to one of the end tags, and leaves its name as the current token.
// Without end tags it parses to the end of the template.
func (p *parser) body(open token, ends ...string) ([]statement, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var body []statement
	for {
		t := p.next()
		switch t.kind {
		case tokenEOF:
			if len(ends) > 0 {
				return nil, p.fail(open.pos, "the %s statement that begins here has no '%s'", open.text, ends[len(ends)-1])
			}
			return body, nil
		case tokenData:
			body = append(body, dataNode(t.text))
		case tokenVariableBegin:
			e, err := p.tuple(true)
			if err != nil {
				return nil, err
			}
			body = append(body, &outputNode{t.pos, e})
			if err := p.expectKind(tokenVariableEnd); err != nil {
				return nil, err
			}
		case tokenBlockBegin:
			if len(ends) > 0 && p.isName(ends...) {
				return body, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			if s != nil {
				body = append(body, s)
			}
			if err := p.expectKind(tokenBlockEnd); err != nil {
				return nil, err
			}
		}
	}
}

// block ends the tag that opens a statement and parses its body up to one of the end tags; it returns that tag's name,
// which has been read.
func (p *parser) block(open token, ends ...string) ([]statement, string, error) {
	p.skipOperator(":")
	if err := p.expectKind(tokenBlockEnd); err != nil {
		return nil, "", err
	}
	body, err := p.body(open, ends...)
	if err != nil {
		return nil, "", err
	}
	return body, p.next().text, nil
}

// scoped is block within a new scope.
func (p *parser) scoped(s *scope, open token, ends ...string) (body []statement, end string, err error) {
	outer, known := p.scope, len(p.missing)
	p.scope = s
	body, end, err = p.block(open, ends...)
	p.scope = outer
	if err == nil && len(p.missing) > known {
		err = p.missing[known]
	}
	return body, end, err
}

// name makes a node that loads a variable.
func (p *parser) name(t token) *nameNode {
	n := &nameNode{at: t.pos, name: t.text}
	p.loads = append(p.loads, load{n, p.scope})
	for _, m := range p.macros {
		switch t.text {
		case "caller":
			m.caller = 0
		case "varargs":
			m.varargs = 0
		case "kwargs":
			m.kwargs = 0
		}
	}
	return n
}

// resolve gives each loaded name the slots it may be in, innermost first. The last is always the template's own scope,
// with the variables of the context.
func (p *parser) resolve() {
	for _, l := range p.loads {
		up := 0
		for s := l.scope; s != nil; s = s.parent {
			if slot, ok := s.slots[l.node.name]; ok || s.parent == nil {
				if !ok {
					slot = s.slot(l.node.name)
				}
				l.node.places = append(l.node.places, place{up, slot})
			}
			up++
		}
	}
}

// Parse parses a template.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, &Error{1, 1, "the template is larger than 4 MiB", ErrMemory}
	}
	src := normalize(strings.ToValidUTF8(source, "\uFFFD"))
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	root := newScope(nil, false)
	p := &parser{src: src, tokens: tokens, scope: root, root: root}
	body, err := p.body(token{})
	if err != nil {
		return nil, err
	}
	if len(p.missing) > 0 {
		return nil, p.missing[0]
	}
	p.resolve()
	return &Template{src: src, root: root, body: body}, nil
}
