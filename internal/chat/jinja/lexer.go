package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenData
	tokenVariableBegin
	tokenVariableEnd
	tokenBlockBegin
	tokenBlockEnd
	tokenName
	tokenString
	tokenNumber
	tokenOperator
)

// A token is a piece of a template.
type token struct {
	kind  tokenKind
	pos   int    // byte offset in the source
	text  string // data, the name, the operator, or the unescaped string
	value Value  // of numbers
}

func (t token) describe() string {
	switch t.kind {
	case tokenEOF:
		return "end of template"
	case tokenData:
		return "text"
	case tokenVariableBegin:
		return "'{{'"
	case tokenVariableEnd:
		return "'}}'"
	case tokenBlockBegin:
		return "'{%'"
	case tokenBlockEnd:
		return "'%}'"
	case tokenString:
		return "a string"
	case tokenNumber:
		return "a number"
	}
	return "'" + t.text + "'"
}

// A lexer cuts a template into tokens, with trim_blocks and lstrip_blocks set: the first newline after a block or
// comment goes, and so do blanks before it on its line.
type lexer struct {
	src       string
	pos       int
	lineStart bool // the last token ended in a newline
	tokens    []token
}

// normalize turns all line ends into \n and drops a single one at the end, as Jinja2 does unless told otherwise.
func normalize(src string) string {
	if strings.Contains(src, "\r") {
		src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	}
	return strings.TrimSuffix(src, "\n")
}

func (l *lexer) fail(pos int, format string, a ...any) error {
	return placed(l.src, pos, faultf(ErrSyntax, format, a...))
}

// placed turns err into an Error at a byte offset of src, unless it is one.
func placed(src string, pos int, err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	f, ok := err.(*fault)
	if !ok {
		f = &fault{ErrType, err.Error()}
	}
	before := src[:min(pos, len(src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &Error{Line: line, Column: column, Message: f.message, kind: f.kind}
}

func (l *lexer) emit(kind tokenKind, pos int, text string) {
	l.tokens = append(l.tokens, token{kind: kind, pos: pos, text: text})
}

func (l *lexer) emitData(pos int, text string) {
	if text != "" {
		l.emit(tokenData, pos, text)
	}
}

// lex returns the tokens of a normalized source.
func lex(src string) ([]token, error) {
	l := &lexer{src: src, lineStart: true}
	for l.pos < len(src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.emit(tokenEOF, len(src), "")
	return l.tokens, nil
}

// next reads text up to a tag, and the tag.
func (l *lexer) next() error {
	start := l.pos
	open := l.nextTag(start)
	if open < 0 {
		l.emitData(start, l.src[start:])
		l.pos = len(l.src)
		return nil
	}
	kind := l.src[open+1]
	l.pos = open + 2
	sign := l.sign()
	l.emitData(start, l.strip(l.src[start:open], sign, kind != '{'))
	switch kind {
	case '#':
		return l.comment(open)
	case '{':
		l.emit(tokenVariableBegin, open, "")
		return l.tag(open, tokenVariableEnd)
	}
	if end, ok := l.rawBegin(); ok {
		l.pos = end
		return l.raw(open)
	}
	l.emit(tokenBlockBegin, open, "")
	return l.tag(open, tokenBlockEnd)
}

func (l *lexer) nextTag(from int) int {
	for i := from; ; i++ {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			return -1
		}
		i += j
		if c := l.src[i+1]; c == '%' || c == '{' || c == '#' {
			return i
		}
	}
}

// sign reads the - or + after a tag's opening.
func (l *lexer) sign() byte {
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.pos++
		return l.src[l.pos-1]
	}
	return 0
}

// strip takes from the text before a tag the white space that the tag removes.
func (l *lexer) strip(text string, sign byte, block bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || !block {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if line == 0 && !l.lineStart {
		return text
	}
	if strings.TrimLeftFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

// isSpace is Python's str.isspace of one code point.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// skipSpace returns the offset of the first byte at or after pos that is not white space.
func (l *lexer) skipSpace(pos int) int {
	return len(l.src) - len(strings.TrimLeftFunc(l.src[pos:], isSpace))
}

// endOfTag reports whether a tag ends at pos with the two bytes of mark, and where the text after it begins.
func (l *lexer) endOfTag(pos int, mark string) (end int, ok bool) {
	rest := l.src[pos:]
	switch {
	case strings.HasPrefix(rest, "-"+mark):
		return l.skipSpace(pos + 3), true
	case mark != "}}" && strings.HasPrefix(rest, "+"+mark):
		return pos + 3, true
	case strings.HasPrefix(rest, mark):
		end = pos + 2
		if mark != "}}" && strings.HasPrefix(l.src[end:], "\n") {
			end++
		}
		return end, true
	}
	return pos, false
}

func (l *lexer) endAt(end int) {
	l.lineStart = end > 0 && l.src[end-1] == '\n'
	l.pos = end
}

func (l *lexer) comment(open int) error {
	for i := l.pos; i < len(l.src); i++ {
		if end, ok := l.endOfTag(i, "#}"); ok {
			l.endAt(end)
			return nil
		}
	}
	return l.fail(open, "the comment that begins here has no end")
}

// rawBegin reports whether the tag just opened is {% raw %}, and where it ends.
func (l *lexer) rawBegin() (end int, ok bool) {
	p := l.skipSpace(l.pos)
	if !strings.HasPrefix(l.src[p:], "raw") {
		return 0, false
	}
	p = l.skipSpace(p + 3)
	switch rest := l.src[p:]; {
	case strings.HasPrefix(rest, "-%}"):
		return l.skipSpace(p + 3), true
	case strings.HasPrefix(rest, "%}"):
		return p + 2, true
	}
	return 0, false
}

func (l *lexer) raw(open int) error {
	start := l.pos
	l.lineStart = start > 0 && l.src[start-1] == '\n'
	for i := start; ; i++ {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			return l.fail(open, "the raw block that begins here has no end")
		}
		i += j
		l.pos = i + 2
		sign := l.sign()
		p := l.skipSpace(l.pos)
		if !strings.HasPrefix(l.src[p:], "endraw") {
			continue
		}
		end, ok := l.endOfTag(l.skipSpace(p+len("endraw")), "%}")
		if !ok {
			continue
		}
		l.emitData(start, l.strip(l.src[start:i], sign, true))
		l.endAt(end)
		return nil
	}
}

// tag reads the tokens of a block or an expression up to its end.
func (l *lexer) tag(open int, endKind tokenKind) error {
	mark := "}}"
	if endKind == tokenBlockEnd {
		mark = "%}"
	}
	var brackets []byte
	for l.pos < len(l.src) {
		if len(brackets) == 0 {
			if end, ok := l.endOfTag(l.pos, mark); ok {
				l.emit(endKind, l.pos, "")
				l.endAt(end)
				return nil
			}
		}
		if p := l.skipSpace(l.pos); p > l.pos {
			l.pos = p
			continue
		}
		var err error
		if brackets, err = l.inTag(brackets); err != nil {
			return err
		}
	}
	if endKind == tokenBlockEnd {
		return l.fail(open, "the tag that begins here has no end '%%}'")
	}
	return l.fail(open, "the expression that begins here has no end '}}'")
}

// inTag reads one token inside a tag; brackets are the closing brackets that are due.
func (l *lexer) inTag(brackets []byte) ([]byte, error) {
	c := l.src[l.pos]
	switch {
	case c >= '0' && c <= '9':
		return brackets, l.number()
	case c == '"' || c == '\'':
		return brackets, l.quoted(c)
	}
	if n := l.nameLength(); n > 0 {
		l.emit(tokenName, l.pos, l.src[l.pos:l.pos+n])
		l.pos += n
		return brackets, nil
	}
	op := l.operator()
	if op == "" {
		r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		return nil, l.fail(l.pos, "unexpected character %q", r)
	}
	switch op {
	case "(":
		brackets = append(brackets, ')')
	case "[":
		brackets = append(brackets, ']')
	case "{":
		brackets = append(brackets, '}')
	case ")", "]", "}":
		if len(brackets) == 0 {
			return nil, l.fail(l.pos, "unexpected '%s'", op)
		}
		if want := brackets[len(brackets)-1]; want != op[0] {
			return nil, l.fail(l.pos, "unexpected '%s', expected '%c'", op, want)
		}
		brackets = brackets[:len(brackets)-1]
	}
	l.emit(tokenOperator, l.pos, op)
	l.pos += len(op)
	return brackets, nil
}

func (l *lexer) nameLength() int {
	for i, r := range l.src[l.pos:] {
		if r == '_' || unicode.IsLetter(r) || i > 0 && (unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)) {
			continue
		}
		return i
	}
	return len(l.src) - l.pos
}

func (l *lexer) operator() string {
	rest := l.src[l.pos:]
	if len(rest) >= 2 {
		switch rest[:2] {
		case "**", "//", "==", "!=", "<=", ">=":
			return rest[:2]
		}
	}
	if strings.IndexByte("+-*/%~[](){}<>=.:|,;", rest[0]) >= 0 {
		return rest[:1]
	}
	return ""
}

// digits returns the end of a run of digits, possibly with single underscores, or pos if there is none.
func (l *lexer) digits(pos int, ok func(byte) bool) int {
	end := pos
	for end < len(l.src) {
		if ok(l.src[end]) {
			end++
		} else if l.src[end] == '_' && end > pos && end+1 < len(l.src) && ok(l.src[end+1]) {
			end += 2
		} else {
			break
		}
	}
	return end
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDecimal(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func (l *lexer) number() error {
	start, end := l.pos, l.floatEnd()
	if end == start {
		return l.integer()
	}
	s := strings.ReplaceAll(l.src[start:end], "_", "")
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return l.fail(start, "%s is not a number", s)
	}
	l.tokens = append(l.tokens, token{kind: tokenNumber, pos: start, value: f})
	l.pos = end
	return nil
}

// floatEnd returns the end of the float at the lexer's position, or that position if there is none.
func (l *lexer) floatEnd() int {
	if l.pos > 0 && l.src[l.pos-1] == '.' {
		return l.pos
	}
	end := l.digits(l.pos, isDecimal)
	float := false
	if end < len(l.src) && l.src[end] == '.' {
		if e := l.digits(end+1, isDecimal); e > end+1 {
			end, float = e, true
		}
	}
	if end < len(l.src) && l.src[end]|0x20 == 'e' {
		p := end + 1
		if p < len(l.src) && (l.src[p] == '+' || l.src[p] == '-') {
			p++
		}
		if e := l.digits(p, isDecimal); e > p {
			end, float = e, true
		}
	}
	if !float {
		return l.pos
	}
	return end
}

func (l *lexer) integer() error {
	start, end := l.pos, 0
	if l.src[start] == '0' {
		prefix := byte(0)
		if start+1 < len(l.src) {
			prefix = l.src[start+1] | 0x20
		}
		of := func(ok func(byte) bool) int {
			p := start + 2
			if p < len(l.src) && l.src[p] == '_' {
				p++
			}
			if e := l.digits(p, ok); e > p {
				return e
			}
			return 0
		}
		switch prefix {
		case 'x':
			end = of(isHex)
		case 'o':
			end = of(func(c byte) bool { return c >= '0' && c <= '7' })
		case 'b':
			end = of(func(c byte) bool { return c == '0' || c == '1' })
		}
		if end == 0 {
			end = l.digits(start, func(c byte) bool { return c == '0' })
		}
	} else {
		end = l.digits(start, isDecimal)
	}
	i, ok := new(big.Int).SetString(strings.ReplaceAll(l.src[start:end], "_", ""), 0)
	if !ok || i.BitLen() > maxIntBits {
		return l.fail(start, "the number has more than %d bits", maxIntBits)
	}
	l.tokens = append(l.tokens, token{kind: tokenNumber, pos: start, value: normalInt(i)})
	l.pos = end
	return nil
}

func (l *lexer) quoted(quote byte) error {
	start := l.pos
	for i := start + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			s, err := unescape(l.src[start+1 : i])
			if err != nil {
				return l.fail(start, "%v", err)
			}
			l.emit(tokenString, start, s)
			l.pos = i + 1
			return nil
		}
	}
	return l.fail(start, "the string that begins here has no end")
}

// unescape resolves the escapes of a Python string literal.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		n := 0
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'x':
			n = 2
		case 'u':
			n = 4
		case 'U':
			n = 8
		case 'N':
			return "", typeErrorf("escapes by name (\\N) are not supported in strings")
		case '0', '1', '2', '3', '4', '5', '6', '7':
			e := i
			for e < len(s) && e < i+3 && s[e] >= '0' && s[e] <= '7' {
				e++
			}
			v, _ := strconv.ParseUint(s[i:e], 8, 32)
			b.WriteRune(rune(v))
			i = e - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
		if n > 0 {
			if i+1+n > len(s) {
				return "", typeErrorf("the escape \\%s has fewer than %d digits", s[i:], n)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err != nil || v > unicode.MaxRune {
				return "", typeErrorf("\\%s is not an escape", s[i:i+1+n])
			}
			i += n
			if lo, ok := lowSurrogate(s[i+1:]); ok && v >= 0xd800 && v < 0xdc00 {
				v = 0x10000 + (v-0xd800)<<10 + lo - 0xdc00
				i += 6
			}
			b.WriteRune(rune(v))
		}
	}
	return b.String(), nil
}

// lowSurrogate reads the second half of a surrogate pair written as \uDCxx.
func lowSurrogate(s string) (uint64, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	v, err := strconv.ParseUint(s[2:6], 16, 32)
	return v, err == nil && v >= 0xdc00 && v < 0xe000
}
