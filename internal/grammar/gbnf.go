package grammar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// SyntaxError is an error in a GBNF text, with its place.
type SyntaxError struct {
	Line, Column int // from 1; columns count code points
	Problem      string
	cause        error // what ended compiling; nil: the text is wrong
}

// Unwrap returns what ended compiling, or nil if the text is wrong.
func (e *SyntaxError) Unwrap() error { return e.cause }

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("grammar, line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// ParseGBNF returns the grammar of a text in llama.cpp's GBNF (llama.cpp, grammars/README.md): its rule root. Errors in
// the syntax are of type *SyntaxError.
func ParseGBNF(ctx context.Context, text string) (*Grammar, error) {
	m := newMeter(ctx)
	rules, _, err := readGBNF(m, text, nil)
	if err != nil {
		return nil, err
	}
	g, err := newGrammar(m, rules)
	if err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	return g, nil
}

// readGBNF returns rules and those of a text, and the index of the text's root.
func readGBNF(m *meter, text string, rules []rule) (all []rule, root int32, err error) {
	if len(text) > maxText {
		return nil, 0, fmt.Errorf("the grammar has %d bytes, more than %d", len(text), maxText)
	}
	p := &gbnf{m: m, text: text, index: map[string]int32{}, rules: slices.Clone(rules)}
	root = p.name("root", 0)
	if err := p.parse(); err != nil {
		return nil, 0, err
	}
	for i, at := range p.used {
		r := &p.rules[len(rules)+i]
		if r.body != nil {
			continue
		}
		if i == 0 {
			return nil, 0, p.errorAt(len(text), "there is no rule named root; it is where a text begins")
		}
		return nil, 0, p.errorAt(at, "rule %s is used but not defined", r.name)
	}
	return p.rules, root, nil
}

// gbnf is a parser.
type gbnf struct {
	m     *meter
	text  string
	at    int // byte offset
	depth int // of groups
	rules []rule
	used  []int // first use of each rule, in the order of the rules that the text names
	index map[string]int32
}

func (p *gbnf) errorAt(at int, format string, args ...any) error {
	before := p.text[:at]
	line := strings.Count(before, "\n")
	if i := strings.LastIndexByte(before, '\n'); i >= 0 {
		before = before[i+1:]
	}
	return &SyntaxError{line + 1, utf8.RuneCountInString(before) + 1, fmt.Sprintf(format, args...), p.m.err}
}

func (p *gbnf) fail(format string, args ...any) error { return p.errorAt(p.at, format, args...) }

// peek returns the next byte, 0 at the end.
func (p *gbnf) peek() byte {
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// found shows what stands at the parser's place.
func (p *gbnf) found() string {
	if p.at == len(p.text) {
		return "the end of the text"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return fmt.Sprintf("%q", r)
}

// space skips blanks and comments, and with lines also line ends.
func (p *gbnf) space(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '#':
			if i := strings.IndexAny(p.text[p.at:], "\r\n"); i >= 0 {
				p.at += i
			} else {
				p.at = len(p.text)
			}
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			p.at++
		default:
			return
		}
	}
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// name returns the number of the rule of that name.
func (p *gbnf) name(name string, at int) int32 {
	i, ok := p.index[name]
	if !ok {
		i = int32(len(p.rules))
		p.index[name] = i
		p.rules = append(p.rules, rule{name: name})
		p.used = append(p.used, at)
	}
	return i
}

// word takes a rule's name.
func (p *gbnf) word() (string, error) {
	begin := p.at
	for isNameByte(p.peek()) {
		p.at++
	}
	if p.at == begin {
		return "", p.fail("a rule's name belongs here, not %s; names are of letters, digits, - and _", p.found())
	}
	return p.text[begin:p.at], nil
}

func (p *gbnf) parse() error {
	if i := strings.IndexByte(p.text, 0); i >= 0 {
		return p.errorAt(i, "a zero byte; write \\x00")
	}
	if !utf8.ValidString(p.text) {
		for i, r := range p.text {
			if _, n := utf8.DecodeRuneInString(p.text[i:]); r == utf8.RuneError && n == 1 {
				return p.errorAt(i, "the text is not UTF-8")
			}
		}
	}
	p.space(true)
	for p.at < len(p.text) {
		if err := p.rule(); err != nil {
			return err
		}
		p.space(true)
	}
	return nil
}

// rule takes a rule up to its line end.
func (p *gbnf) rule() error {
	begin := p.at
	name, err := p.word()
	if err != nil {
		return err
	}
	p.space(false)
	if !strings.HasPrefix(p.text[p.at:], "::=") {
		return p.fail("::= belongs after the name %s, not %s", name, p.found())
	}
	p.at += len("::=")
	p.space(true)
	i := p.name(name, begin)
	if p.rules[i].body != nil {
		return p.errorAt(begin, "rule %s is defined twice", name)
	}
	body, err := p.alternatives(false)
	if err != nil {
		return err
	}
	p.rules[i].body = body
	if c := p.peek(); c != 0 && c != '\r' && c != '\n' {
		return p.fail("%s is neither a symbol nor the end of rule %s", p.found(), name)
	}
	return nil
}

// alternatives takes sequences with | between them. In a group they may go over lines.
func (p *gbnf) alternatives(group bool) (*expr, error) {
	var subs []*expr
	for {
		s, err := p.sequence(group)
		if err != nil {
			return nil, err
		}
		subs = append(subs, s)
		if p.peek() != '|' {
			return choice(subs...), nil
		}
		p.at++
		p.space(true)
	}
}

// sequence takes symbols with their repetitions, perhaps none.
func (p *gbnf) sequence(group bool) (*expr, error) {
	var subs []*expr
	repeated := 0 // of the last symbol
	for {
		c := p.peek()
		if len(subs) > 0 {
			least, most, ok, err := p.repetition(c, group)
			if err != nil {
				return nil, err
			}
			if ok {
				if repeated++; repeated > maxNesting {
					return nil, p.fail("more than %d repetitions of one symbol", maxNesting)
				}
				last := &subs[len(subs)-1]
				*last = repeat(*last, least, most)
				continue
			}
		} else if c != 0 && strings.IndexByte("*+?{", c) >= 0 {
			return nil, p.fail("%q repeats nothing: a symbol belongs before it", c)
		}
		e, err := p.symbol(c)
		if err != nil {
			return nil, err
		}
		if e == nil {
			return sequence(subs...), nil
		}
		subs, repeated = append(subs, e), 0
		p.space(group)
	}
}

// symbol reads a symbol of a sequence, nil if the sequence ends.
func (p *gbnf) symbol(c byte) (*expr, error) {
	if p.m.take(exprBytes) != nil {
		return nil, p.fail("%s", p.m.err)
	}
	switch {
	case c == '"':
		return p.quoted()
	case c == '[':
		return p.class()
	case c == '.':
		p.at++
		return class(runeRange{0, lastRune}), nil
	case c == '(':
		return p.group()
	case c == '<' || c == '!':
		return p.token()
	case isNameByte(c):
		at := p.at
		name, err := p.word()
		if err != nil {
			return nil, err
		}
		return reference(p.name(name, at)), nil
	}
	return nil, nil
}

func (p *gbnf) group() (*expr, error) {
	begin := p.at
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail("groups are nested more than %d deep", maxNesting)
	}
	p.at++
	p.space(true)
	e, err := p.alternatives(true)
	if err != nil {
		return nil, err
	}
	if p.peek() != ')' {
		if p.at == len(p.text) {
			return nil, p.errorAt(begin, "this ( is never closed")
		}
		return nil, p.fail("%s is neither a symbol nor the ) of the group", p.found())
	}
	p.at++
	p.depth--
	return e, nil
}

func (p *gbnf) quoted() (*expr, error) {
	begin := p.at
	p.at++
	var b strings.Builder
	for p.peek() != '"' {
		r, err := p.char(begin, "string")
		if err != nil {
			return nil, err
		}
		b.WriteRune(r)
	}
	p.at++
	return literal(b.String()), nil
}

func (p *gbnf) class() (*expr, error) {
	begin := p.at
	p.at++
	negated := p.peek() == '^'
	if negated {
		p.at++
	}
	var ranges []runeRange
	for p.peek() != ']' {
		at := p.at
		lo, err := p.char(begin, "class")
		if err != nil {
			return nil, err
		}
		hi := lo
		if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.at++
			if hi, err = p.char(begin, "class"); err != nil {
				return nil, err
			}
		}
		if lo > hi {
			return nil, p.errorAt(at, "the range from %q to %q is reversed", lo, hi)
		}
		ranges = append(ranges, runeRange{lo, hi})
		if p.m.take(32) != nil {
			return nil, p.fail("%s", p.m.err)
		}
	}
	p.at++
	if len(ranges) == 0 && !negated {
		return nil, p.errorAt(begin, "the class has no characters")
	}
	e := class(ranges...)
	if negated {
		e = class(complement(e.ranges)...)
	}
	if len(e.ranges) == 0 {
		return nil, p.errorAt(begin, "the class has no characters")
	}
	return e, nil
}

// char takes a character or an escape of what began at begin.
func (p *gbnf) char(begin int, what string) (rune, error) {
	if p.at == len(p.text) {
		return 0, p.errorAt(begin, "this %s is never closed", what)
	}
	if p.text[p.at] != '\\' {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += n
		return r, nil
	}
	if p.at+1 == len(p.text) {
		return 0, p.errorAt(begin, "this %s is never closed", what)
	}
	switch c := p.text[p.at+1]; c {
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case 't', 'r', 'n':
		p.at += 2
		return map[byte]rune{'t': '\t', 'r': '\r', 'n': '\n'}[c], nil
	case '\\', '"', '[', ']', '-':
		p.at += 2
		return rune(c), nil
	}
	return 0, p.fail(`an unknown escape; known are \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH`)
}

// hex takes an escape of n hexadecimal digits: a code point.
func (p *gbnf) hex(n int) (rune, error) {
	digits := p.text[p.at+2:]
	var v uint32
	for i := range n {
		if i >= len(digits) {
			return 0, p.fail("the escape takes %d hexadecimal digits", n)
		}
		d := strings.IndexByte("0123456789abcdef", digits[i]|0x20)
		if d < 0 || digits[i] < '0' {
			return 0, p.fail("the escape takes %d hexadecimal digits", n)
		}
		v = v<<4 | uint32(d)
	}
	if v > lastRune || 0xD800 <= v && v <= 0xDFFF {
		return 0, p.fail("U+%X is no character", v)
	}
	p.at += 2 + n
	return rune(v), nil
}

// token reads <[1000]>, <think> or one of them after !.
func (p *gbnf) token() (*expr, error) {
	begin := p.at
	not := p.peek() == '!'
	if not {
		p.at++
	}
	if p.peek() != '<' {
		return nil, p.fail("a token belongs after !, as in !<think> or !<[1000]>")
	}
	end := strings.IndexAny(p.text[p.at:], ">\n")
	if end < 0 || p.text[p.at+end] != '>' {
		return nil, p.errorAt(begin, "this token is never closed; write <think> or <[1000]>")
	}
	text := p.text[p.at : p.at+end+1]
	p.at += end + 1
	if text == "<>" {
		return nil, p.errorAt(begin, "the token has no name; write <think> or <[1000]>")
	}
	inner := text[1 : len(text)-1]
	if inner[0] != '[' {
		return &expr{op: opToken, token: tokenLiteral{text: text, not: not}}, nil
	}
	digits := strings.TrimSuffix(inner[1:], "]")
	id, ok := number(digits)
	if !ok || len(digits) != len(inner)-2 || id > 1<<31-1 {
		return nil, p.errorAt(begin, "%s is no token's number; write it as in <[1000]>", text)
	}
	return &expr{op: opToken, token: tokenLiteral{id: int32(id), not: not}}, nil
}

// number reads decimal digits.
func number(s string) (int, bool) {
	if s == "" || len(s) > 12 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// repetition reads * + ? {m} {m,} {m,n} at c, if there is one.
func (p *gbnf) repetition(c byte, group bool) (least, most int, ok bool, err error) {
	switch c {
	case '*':
		most = unbounded
	case '+':
		least, most = 1, unbounded
	case '?':
		most = 1
	case '{':
		least, most, err = p.braces()
		if err != nil {
			return 0, 0, false, err
		}
		p.at--
	default:
		return 0, 0, false, nil
	}
	p.at++
	p.space(group)
	return least, most, true, nil
}

// braces takes {m}, {m,} or {m,n}.
func (p *gbnf) braces() (least, most int, err error) {
	begin := p.at
	p.at++
	if least, err = p.count(); err != nil {
		return 0, 0, err
	}
	most = least
	if p.peek() == ',' {
		p.at++
		p.space(true)
		most = unbounded
		if p.peek() != '}' {
			if most, err = p.count(); err != nil {
				return 0, 0, err
			}
		}
	}
	if p.peek() != '}' {
		return 0, 0, p.fail("} belongs here, not %s; repetitions are {m}, {m,} or {m,n}", p.found())
	}
	p.at++
	if most != unbounded && most < least {
		return 0, 0, p.errorAt(begin, "the repetition ends before it begins: at least %d times and at most %d", least, most)
	}
	return least, most, nil
}

func (p *gbnf) count() (int, error) {
	p.space(true)
	begin := p.at
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		p.at++
	}
	if p.at == begin {
		return 0, p.fail("a number of times belongs here, not %s", p.found())
	}
	n, ok := number(p.text[begin:p.at])
	if !ok || n > maxRepetition {
		return 0, p.errorAt(begin, "%s times are more than %d", p.text[begin:p.at], maxRepetition)
	}
	p.space(true)
	return n, nil
}
