package jinja

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// format returns Python's str.format.
func (r *render) format(s string, args []Value, named *Dict) (Value, error) {
	f := &braceFormat{r: r, args: args, named: named}
	out, err := f.expand(s, 2)
	return out, err
}

// A braceFormat expands fields in braces.
type braceFormat struct {
	r     *render
	args  []Value
	named *Dict
	auto  int  // number of the next field without a name
	some  bool // there were numbered fields
}

func (f *braceFormat) expand(s string, depth int) (string, error) {
	if depth == 0 {
		return "", typeErrorf("max string recursion exceeded")
	}
	var b strings.Builder
	counted := 0 // bytes
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '{' && c != '}' {
			b.WriteByte(c)
			continue
		}
		if i+1 < len(s) && s[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		if c == '}' {
			return "", typeErrorf("single '}' encountered in format string")
		}
		end := closing(s, i)
		if end < 0 {
			return "", typeErrorf("single '{' encountered in format string")
		}
		field, err := f.field(s[i+1:end], depth)
		if err != nil {
			return "", err
		}
		b.WriteString(field)
		if err := f.r.grow(b.Len() - counted); err != nil {
			return "", err
		}
		counted = b.Len()
		i = end
	}
	return b.String(), f.r.grow(b.Len() - counted)
}

// closing returns the position of the brace that closes the one at open.
func closing(s string, open int) int {
	depth := 0
	for i := open; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// field formats what stands between two braces: name, !conversion, :specification.
func (f *braceFormat) field(s string, depth int) (string, error) {
	name, spec, _ := strings.Cut(s, ":")
	if i := strings.LastIndexByte(name, '['); i >= 0 && !strings.Contains(name[i:], "]") {
		return "", typeErrorf("expected '}' before end of string")
	}
	name, conversion, converted := strings.Cut(name, "!")
	v, err := f.value(name)
	if err != nil {
		return "", err
	}
	if converted {
		w := &reprWriter{writer{r: f.r, ascii: conversion == "a"}}
		switch conversion {
		case "s":
			v, err = f.r.str(v)
		case "r", "a":
			err = w.value(v, 0)
			v = w.b.String()
		default:
			return "", typeErrorf("unknown conversion specifier %q", conversion)
		}
		if err != nil {
			return "", err
		}
	}
	if strings.ContainsAny(spec, "{}") {
		if spec, err = f.expand(spec, depth-1); err != nil {
			return "", err
		}
	}
	return f.r.formatted(v, spec)
}

// value looks up a field's name with its attributes and items.
func (f *braceFormat) value(name string) (Value, error) {
	n := strings.IndexAny(name, ".[")
	if n < 0 {
		n = len(name)
	}
	first, rest := name[:n], name[n:]
	v, err := f.first(first)
	for err == nil && rest != "" {
		if rest[0] == '.' {
			n := strings.IndexAny(rest[1:], ".[") + 1
			if n == 0 {
				n = len(rest)
			}
			v, err = f.r.attribute(v, rest[1:n])
			rest = rest[n:]
			continue
		}
		key, after, ok := strings.Cut(rest[1:], "]")
		if rest[0] != '[' || !ok {
			return nil, typeErrorf("missing ']' in format string")
		}
		var k Value = key
		if i, err := strconv.ParseInt(key, 10, 64); err == nil && isDecimal(key[0]) {
			k = i
		}
		v, err = f.r.item(v, k)
		rest = after
	}
	return v, err
}

func (f *braceFormat) first(name string) (Value, error) {
	i, err := strconv.Atoi(name)
	switch {
	case name == "":
		if f.some {
			return nil, typeErrorf("cannot switch from manual field specification to automatic field numbering")
		}
		i = f.auto
		f.auto++
	case err != nil:
		if f.named != nil {
			if v, ok := f.named.Get(name); ok {
				return v, nil
			}
		}
		return nil, typeErrorf("the format needs the key %s", shortRepr(name))
	default:
		if f.auto > 0 {
			return nil, typeErrorf("cannot switch from automatic field numbering to manual field specification")
		}
		f.some = true
	}
	if i < 0 || i >= len(f.args) {
		return nil, typeErrorf("replacement index %d out of range for positional args", i)
	}
	return f.args[i], nil
}

// formatted returns Python's format(v, spec).
func (r *render) formatted(v Value, spec string) (string, error) {
	if spec == "" {
		return r.str(v)
	}
	f, err := parseSpec(spec)
	if err != nil {
		return "", err
	}
	s, err := r.formatBody(v, f)
	if err != nil {
		return "", err
	}
	align := f.align
	if align == '=' {
		sign := 0
		for sign < len(s) && strings.IndexByte("+- ", s[sign]) >= 0 {
			sign++
		}
		rest, err := r.padded(s[sign:], int64(f.width-sign), f.fill, '>')
		return s[:sign] + rest, err
	}
	if align == '^' { // the extra place is on the right, unlike in str.center
		n := f.width - utf8.RuneCountInString(s)
		if n > 0 {
			left, err := r.padded(s, int64(f.width-(n-n/2)), f.fill, '>')
			if err != nil {
				return "", err
			}
			s = left
		}
		align = '<'
	}
	return r.padded(s, int64(f.width), f.fill, byte(align))
}

func (r *render) formatBody(v Value, f *formatSpec) (string, error) {
	s, isText := text(v)
	_, isNumber := float(v)
	switch {
	case isText:
		if f.verb != 0 && f.verb != 's' || f.sign != 0 || f.alternate || f.group != 0 || f.align == '=' {
			return "", typeErrorf("the format is not one for strings")
		}
		if f.zero {
			f.fill, f.zero = "0", false
		}
		if f.align == 0 {
			f.align = '<'
		}
		return truncated(s, f.precision), nil
	case isNumber:
		if b, ok := v.(bool); ok && f.verb == 0 && f.align == 0 && f.width == 0 {
			return scalarRepr(b), nil
		}
		if f.align == 0 {
			f.align = '>'
		} else if f.zero {
			f.fill, f.zero = "0", false
		}
		if isFloat(v) {
			if strings.IndexByte("dxXobc", f.verb) >= 0 && f.verb != 0 {
				return "", typeErrorf("unknown format code '%c' for a float", f.verb)
			}
			if f.verb == 0 {
				f.verb = 'r'
				if f.precision >= 0 {
					f.verb = 'g'
				}
			}
		} else if f.precision >= 0 && strings.IndexByte("dxXobcn", f.verb) >= 0 {
			return "", typeErrorf("precision not allowed in integer format specifier")
		}
		if f.verb == 'c' {
			return percentChar(v)
		}
		return f.number(v)
	}
	return "", typeErrorf("unsupported format string passed to %s.__format__", typeName(v))
}

// parseSpec parses [[fill]align][sign][#][0][width][,][.precision][type].
func parseSpec(s string) (*formatSpec, error) {
	f := &formatSpec{fill: " ", precision: -1}
	c := []rune(s)
	isAlign := func(i int) bool { return i < len(c) && slices.Contains([]rune("<>^="), c[i]) }
	i := 0
	if isAlign(1) {
		f.fill, f.align, i = string(c[0]), c[1], 2
	} else if isAlign(0) {
		f.align, i = c[0], 1
	}
	is := func(chars string) bool { return i < len(c) && strings.ContainsRune(chars, c[i]) }
	size := func() (int, error) {
		n := 0
		for ; is("0123456789"); i++ {
			if n = 10*n + int(c[i]-'0'); n > maxWidth {
				return 0, faultf(ErrMemory, "a width or precision is larger than %d", maxWidth)
			}
		}
		return n, nil
	}
	if is("+- ") {
		f.sign = byte(c[i])
		i++
	}
	if is("#") {
		f.alternate = true
		i++
	}
	if is("0") {
		f.zero = true
		i++
	}
	var err error
	if f.width, err = size(); err != nil {
		return nil, err
	}
	if is(",_") {
		f.group = byte(c[i])
		i++
	}
	if is(".") {
		i++
		if !is("0123456789") {
			return nil, typeErrorf("format specifier missing precision")
		}
		if f.precision, err = size(); err != nil {
			return nil, err
		}
	}
	if is("bcdeEfFgGnosxX%") {
		f.verb = byte(c[i])
		i++
	}
	if i != len(c) {
		return nil, typeErrorf("invalid format specifier %s", shortRepr(s))
	}
	return f, nil
}
