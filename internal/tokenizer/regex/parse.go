package regex

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// node is a parsed expression.
type node struct {
	kind nodeKind
	set  set     // chars: one character of it
	sub  []*node // sequence, choice; one for repeat and look
	// repeat
	least, most int // most -1: without end
	lazy        bool
	// look
	behind, negative bool
}

type nodeKind uint8

const (
	sequence nodeKind = iota
	choice
	chars
	repeat
	look        // lookahead or lookbehind
	boundary    // \b
	notBoundary // \B
)

// maxRepeat bounds {n,m}, and maxNodes what an expression may become when its repetitions are written out.
const (
	maxRepeat = 1000
	maxNodes  = 20000
)

type parser struct {
	rest  string
	fold  bool // (?i)
	depth int
}

// parse reads a pattern in Oniguruma's Ruby syntax, as in tokenizer.json.
func parse(pattern string) (*node, error) {
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("pattern %.60q is not UTF-8", pattern)
	}
	p := &parser{rest: pattern}
	n, err := p.alternatives()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("a parenthesis closes that was not opened")
	}
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q: %w", pattern, err)
	}
	return n, nil
}

// take removes the next character.
func (p *parser) take() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

func (p *parser) accept(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > 100 {
		return nil, fmt.Errorf("groups are nested too deep")
	}
	defer func(fold bool) { p.depth--; p.fold = fold }(p.fold)
	all := &node{kind: choice}
	for {
		n, err := p.concatenation()
		if err != nil {
			return nil, err
		}
		all.sub = append(all.sub, n)
		if !p.accept("|") {
			break
		}
	}
	if len(all.sub) == 1 {
		return all.sub[0], nil
	}
	return all, nil
}

func (p *parser) concatenation() (*node, error) {
	all := &node{kind: sequence}
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		if p.accept("(?i)") {
			p.fold = true
			continue
		}
		if p.accept("(?-i)") {
			p.fold = false
			continue
		}
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		for n != nil {
			quantified, err := p.quantifier(n)
			if err != nil {
				return nil, err
			}
			if quantified == n {
				break
			}
			n = quantified
		}
		all.sub = append(all.sub, n)
	}
	return all, nil
}

// quantifier reads a quantifier after n. After {n,m} a + is another quantifier, and {n}? means none or n, as in Ruby.
func (p *parser) quantifier(n *node) (*node, error) {
	if p.rest == "" {
		return n, nil
	}
	q := &node{kind: repeat, sub: []*node{n}, most: -1}
	braces := false
	switch p.rest[0] {
	case '*':
	case '+':
		q.least = 1
	case '?':
		q.most = 1
	case '{':
		size, ok := p.interval(q)
		if !ok {
			return n, nil
		}
		p.rest, braces = p.rest[size-1:], true
	default:
		return n, nil
	}
	p.rest = p.rest[1:]
	if n.kind == look || n.kind == boundary || n.kind == notBoundary {
		return nil, fmt.Errorf("an assertion cannot be repeated")
	}
	switch {
	case q.least > maxRepeat || q.most > maxRepeat || q.most >= 0 && q.most < q.least:
		return nil, fmt.Errorf("a repetition is not between 0 and %d", maxRepeat)
	case braces && q.least == q.most:
	case p.accept("?"):
		q.lazy = true
	case !braces && p.accept("+"):
		return possessive(q)
	}
	return q, nil
}

// interval reads {n}, {n,}, {,m} or {n,m} and returns its length. Braces around anything else are literal.
func (p *parser) interval(q *node) (int, bool) {
	end := strings.IndexByte(p.rest, '}')
	if end < 0 {
		return 0, false
	}
	low, high, comma := strings.Cut(p.rest[1:end], ",")
	if low == "" && (high == "" || !comma) {
		return 0, false
	}
	var err error
	number := func(s string, none int) int {
		if s == "" {
			return none
		}
		n, e := strconv.ParseUint(s, 10, 31)
		if e != nil {
			err = e
		}
		return int(n)
	}
	q.least = number(low, 0)
	if q.most = number(high, -1); !comma {
		q.most = q.least
	}
	return end + 1, err == nil
}

// possessive rewrites C*+, C++ and C?+ for one character C: characters are not given back, so no C follows.
func possessive(q *node) (*node, error) {
	c := q.sub[0]
	for c.kind == sequence && len(c.sub) == 1 {
		c = c.sub[0]
	}
	if c.kind != chars {
		return nil, fmt.Errorf("possessive repetitions of more than a character are not supported")
	}
	after := &node{kind: look, negative: true, sub: []*node{c}}
	if q.most == 1 {
		return &node{kind: choice, sub: []*node{c, after}}, nil
	}
	return &node{kind: sequence, sub: []*node{q, after}}, nil
}

func (p *parser) atom() (*node, error) {
	switch {
	case p.accept("(?:"):
		return p.group(&node{kind: sequence})
	case p.accept("(?i:"):
		defer func(fold bool) { p.fold = fold }(p.fold)
		p.fold = true
		return p.group(&node{kind: sequence})
	case p.accept("(?-i:"):
		defer func(fold bool) { p.fold = fold }(p.fold)
		p.fold = false
		return p.group(&node{kind: sequence})
	case p.accept("(?="):
		return p.group(&node{kind: look})
	case p.accept("(?!"):
		return p.group(&node{kind: look, negative: true})
	case p.accept("(?<="):
		return p.group(&node{kind: look, behind: true})
	case p.accept("(?<!"):
		return p.group(&node{kind: look, behind: true, negative: true})
	case strings.HasPrefix(p.rest, "(?<") || strings.HasPrefix(p.rest, "(?P<"):
		end := strings.IndexByte(p.rest, '>')
		if end < 0 {
			return nil, fmt.Errorf("a group's name does not end")
		}
		p.rest = p.rest[end+1:]
		return p.group(&node{kind: sequence})
	case strings.HasPrefix(p.rest, "(?"):
		return nil, fmt.Errorf("groups that begin with %.4q are not supported", p.rest)
	case p.accept("("):
		return p.group(&node{kind: sequence})
	case p.accept("["):
		s, err := p.class()
		return p.one(s), err
	case p.accept("."):
		return p.one(set{{'\n', '\n'}}.not()), nil
	case p.accept("^"):
		return &node{kind: choice, sub: []*node{edge(true), {kind: look, behind: true, sub: []*node{p.one(set{{'\n', '\n'}})}}}}, nil
	case p.accept("$"):
		return &node{kind: choice, sub: []*node{edge(false), {kind: look, sub: []*node{p.one(set{{'\n', '\n'}})}}}}, nil
	case strings.HasPrefix(p.rest, "*") || strings.HasPrefix(p.rest, "+") || strings.HasPrefix(p.rest, "?"):
		return nil, fmt.Errorf("there is nothing for %.1q to repeat", p.rest)
	case p.accept(`\`):
		return p.escape()
	}
	r := p.take()
	return p.one(p.cased(set{{r, r}})), nil
}

// edge is the begin or the end of the text: no character stands there.
func edge(behind bool) *node {
	return &node{kind: look, behind: behind, negative: true, sub: []*node{{kind: chars, set: anything}}}
}

func (p *parser) one(s set) *node { return &node{kind: chars, set: s} }

func (p *parser) cased(s set) set {
	if p.fold {
		return s.folded()
	}
	return s
}

// group reads up to the closing parenthesis into n.
func (p *parser) group(n *node) (*node, error) {
	sub, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, fmt.Errorf("a parenthesis is not closed")
	}
	n.sub = []*node{sub}
	return n, nil
}

func (p *parser) escape() (*node, error) {
	switch {
	case p.accept("b"):
		return &node{kind: boundary}, nil
	case p.accept("B"):
		return &node{kind: notBoundary}, nil
	case p.accept("A"):
		return edge(true), nil
	case p.accept("z"):
		return edge(false), nil
	case p.accept("Z"):
		last := &node{kind: look, sub: []*node{{kind: sequence, sub: []*node{p.one(set{{'\n', '\n'}}), edge(false)}}}}
		return &node{kind: choice, sub: []*node{edge(false), last}}, nil
	}
	if s, ok, err := p.escapedClass(); ok || err != nil {
		return p.one(s), err
	}
	r, err := p.escapedRune()
	return p.one(p.cased(set{{r, r}})), err
}

// escapedClass reads the rest of \s, \p{L} and so on, if it is one.
func (p *parser) escapedClass() (set, bool, error) {
	for letter, make := range map[string]func() set{"s": space, "d": digit, "w": word, "h": hex} {
		if p.accept(letter) {
			return make(), true, nil
		}
		if p.accept(strings.ToUpper(letter)) {
			return make().not(), true, nil
		}
	}
	negative := strings.HasPrefix(p.rest, "P")
	if !p.accept("p") && !p.accept("P") {
		return nil, false, nil
	}
	var name string
	if p.accept("{") {
		var ok bool
		if name, p.rest, ok = strings.Cut(p.rest, "}"); !ok {
			return nil, true, fmt.Errorf("a property's name does not end")
		}
	} else {
		name = string(p.take())
	}
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negative = rest, !negative
	}
	s, ok := property(name)
	if !ok {
		return nil, true, fmt.Errorf("property %.40q is not known", name)
	}
	if negative {
		s = s.not()
	}
	return s, true, nil
}

// escapedRune reads the rest of an escaped character.
func (p *parser) escapedRune() (rune, error) {
	if p.rest == "" {
		return 0, fmt.Errorf("a backslash stands at the end")
	}
	coded := func(least, most int) (rune, error) {
		n := 0
		for n < len(p.rest) && n < most && strings.IndexByte("0123456789abcdefABCDEF", p.rest[n]) >= 0 {
			n++
		}
		v, err := strconv.ParseUint(p.rest[:n], 16, 32)
		if err != nil || n < least || v > unicode.MaxRune {
			return 0, fmt.Errorf("a character's code is not hexadecimal")
		}
		p.rest = p.rest[n:]
		return rune(v), nil
	}
	switch r := p.take(); r {
	case 't':
		return '\t', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 'f':
		return '\f', nil
	case 'v':
		return '\v', nil
	case 'a':
		return '\a', nil
	case 'e':
		return 0x1B, nil
	case '0':
		return 0, nil
	case 'u':
		return coded(4, 4)
	case 'x':
		if !p.accept("{") {
			return coded(1, 2)
		}
		v, err := coded(1, 8)
		if err == nil && !p.accept("}") {
			err = fmt.Errorf("a character's code does not end")
		}
		return v, err
	default:
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return 0, fmt.Errorf(`\%c is not supported`, r)
		}
		return r, nil
	}
}

// class reads the rest of a bracketed class: ranges, classes within it, and && for what two parts share.
func (p *parser) class() (set, error) {
	if p.depth++; p.depth > 100 {
		return nil, fmt.Errorf("classes are nested too deep")
	}
	defer func() { p.depth-- }()
	negative := p.accept("^")
	var part, shared set
	both := false
	for first := true; ; first = false {
		switch {
		case p.rest == "":
			return nil, fmt.Errorf("a class is not closed")
		case !first && p.accept("]"):
			if both {
				part = part.and(shared)
			}
			part = p.cased(part)
			if negative {
				part = part.not()
			}
			return part, nil
		case p.accept("&&"):
			if both {
				part = part.and(shared)
			}
			shared, both, part = part, true, nil
		case strings.HasPrefix(p.rest, "[:"):
			name, rest, ok := strings.Cut(p.rest[2:], ":]")
			name, not := strings.CutPrefix(name, "^")
			s, known := property(name)
			if !ok || !known {
				return nil, fmt.Errorf("class %.40q is not known", name)
			}
			if p.rest = rest; not {
				s = s.not()
			}
			part = union(part, s)
		case p.accept("["):
			s, err := p.class()
			if err != nil {
				return nil, err
			}
			part = union(part, s)
		default:
			s, err := p.member()
			if err != nil {
				return nil, err
			}
			part = union(part, s)
		}
	}
}

// member reads a character, a range or an escaped class within brackets.
func (p *parser) member() (set, error) {
	char := func() (rune, error) {
		if p.accept(`\b`) {
			return '\b', nil
		}
		if p.accept(`\`) {
			return p.escapedRune()
		}
		return p.take(), nil
	}
	if strings.HasPrefix(p.rest, `\`) && !strings.HasPrefix(p.rest, `\b`) {
		p.rest = p.rest[1:]
		if s, ok, err := p.escapedClass(); ok || err != nil {
			return s, err
		}
		p.rest = `\` + p.rest
	}
	low, err := char()
	if err != nil || !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") || strings.HasPrefix(p.rest, "-[") {
		return set{{low, low}}, err
	}
	before := p.rest
	p.rest = p.rest[1:]
	if len(p.rest) > 1 && p.rest[0] == '\\' && strings.IndexByte("swdhpSWDHP", p.rest[1]) >= 0 {
		p.rest = before // a hyphen before a class is a hyphen
		return set{{low, low}}, nil
	}
	high, err := char()
	if err != nil {
		return nil, err
	}
	if high < low {
		return nil, fmt.Errorf("the range %q to %q is empty", low, high)
	}
	return set{{low, high}}, nil
}
