package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A method is a method of strings.
type method struct {
	params   []string
	required int
	do       func(c *call, s string, a []Value) (Value, error)
	raw      func(c *call, s string) (Value, error)
}

func (m *method) bind(o Value, name string) *function {
	s, _ := text(o)
	f := &function{name: name, params: m.params, required: m.required}
	if m.raw != nil {
		f.raw = func(c *call) (Value, error) { return m.raw(c, s) }
		return f
	}
	f.do = func(c *call, a []Value) (Value, error) {
		if err := c.r.scan(len(s)); err != nil {
			return nil, err
		}
		v, err := m.do(c, s, a)
		if err != nil {
			return nil, err
		}
		if t, ok := v.(string); ok {
			return like(o, t), c.r.grow(len(t))
		}
		return v, nil
	}
	return f
}

func onString(params string, do func(c *call, s string, a []Value) (Value, error)) *method {
	f := fn(params, nil)
	return &method{params: f.params, required: f.required, do: do}
}

// plain returns a method without arguments.
func plain(do func(s string) Value) *method {
	return onString("", func(_ *call, s string, _ []Value) (Value, error) { return do(s), nil })
}

// every returns a method that reports whether a string is not empty and all its code points are of a kind.
func every(kind func(rune) bool) *method {
	return plain(func(s string) Value {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !kind(r) }) < 0
	})
}

var stringMethods = map[string]*method{
	"upper":        plain(func(s string) Value { return upper(s) }),
	"lower":        plain(func(s string) Value { return lower(s) }),
	"casefold":     plain(func(s string) Value { return strings.ReplaceAll(strings.ReplaceAll(lower(s), "ς", "σ"), "ß", "ss") }),
	"capitalize":   plain(func(s string) Value { return capitalize(s) }),
	"title":        plain(func(s string) Value { return titled(s) }),
	"swapcase":     plain(func(s string) Value { return swapcase(s) }),
	"strip":        onString("/ chars", strip(strings.TrimFunc)),
	"lstrip":       onString("/ chars", strip(strings.TrimLeftFunc)),
	"rstrip":       onString("/ chars", strip(strings.TrimRightFunc)),
	"startswith":   onString("prefix / start end", affix(strings.HasPrefix)),
	"endswith":     onString("suffix / start end", affix(strings.HasSuffix)),
	"removeprefix": onString("prefix", cutAffix(strings.TrimPrefix)),
	"removesuffix": onString("suffix", cutAffix(strings.TrimSuffix)),
	"split":        onString("/ sep maxsplit", splitMethod(false)),
	"rsplit":       onString("/ sep maxsplit", splitMethod(true)),
	"splitlines":   onString("/ keepends", splitLinesMethod),
	"partition":    onString("sep", partition(strings.Index, false)),
	"rpartition":   onString("sep", partition(strings.LastIndex, true)),
	"replace":      onString("old new / count", replaceMethod),
	"join":         onString("iterable", joinMethod),
	"find":         onString("sub / start end", find(strings.Index, false)),
	"rfind":        onString("sub / start end", find(strings.LastIndex, false)),
	"index":        onString("sub / start end", find(strings.Index, true)),
	"rindex":       onString("sub / start end", find(strings.LastIndex, true)),
	"count":        onString("sub / start end", countMethod),
	"center":       onString("width / fillchar", pad('^')),
	"ljust":        onString("width / fillchar", pad('<')),
	"rjust":        onString("width / fillchar", pad('>')),
	"zfill":        onString("width", zfill),
	"expandtabs":   onString("/ tabsize", expandTabs),
	"format":       {raw: func(c *call, s string) (Value, error) { return c.r.format(s, c.args, c.named) }},
	"format_map":   onString("mapping", formatMap),
	"isdigit":      every(unicode.IsDigit),
	"isdecimal":    every(unicode.IsDigit),
	"isnumeric":    every(unicode.IsNumber),
	"isalpha":      every(unicode.IsLetter),
	"isalnum":      every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace":      every(isSpace),
	"isascii":      plain(func(s string) Value { return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0 }),
	"isprintable":  plain(func(s string) Value { return strings.IndexFunc(s, func(r rune) bool { return !printable(r) }) < 0 }),
	"islower":      plain(func(s string) Value { return cased(s, unicode.IsLower, unicode.IsUpper) }),
	"isupper":      plain(func(s string) Value { return cased(s, unicode.IsUpper, unicode.IsLower) }),
	"istitle":      plain(func(s string) Value { return cased(s, unicode.IsUpper, nil) && titled(s) == s }),
	"isidentifier": plain(func(s string) Value { return isIdentifier(s) }),
}

func upper(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }

// lower is strings.ToLower with what Python does besides: İ is two code points, and a Σ that ends a word is ς.
func lower(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		letter := func(k int) bool { return k >= 0 && k < len(runes) && unicode.IsLetter(runes[k]) }
		switch {
		case r == 'İ':
			b.WriteString("i̇")
		case r == 'Σ' && letter(i-1) && !letter(i+1):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return upper(s[:n]) + lower(s)[len(lower(s[:n])):]
}

// titled puts the first letter of each run of letters in upper case.
func titled(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		was := inWord
		inWord = unicode.IsLower(r) || unicode.IsUpper(r) || unicode.IsTitle(r)
		if was {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func swapcase(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteString(lower(string(r)))
		} else {
			b.WriteString(upper(string(r)))
		}
	}
	return b.String()
}

// cased reports whether s has a letter of one case and none of the other.
func cased(s string, is, not func(rune) bool) bool {
	return strings.IndexFunc(s, is) >= 0 && (not == nil || strings.IndexFunc(s, not) < 0)
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

// wantText returns the string in v, or an error that names its purpose.
func wantText(v Value, what string) (string, error) {
	s, ok := text(v)
	if u, undefined := v.(*Undefined); undefined {
		return "", u.fault()
	}
	if !ok {
		return "", typeErrorf("%s must be a string, not %s", what, typeName(v))
	}
	return s, nil
}

// wantInt returns the whole number in v, or value if v is nil.
func wantInt(v Value, what string, value int64) (int64, error) {
	if v == nil {
		return value, nil
	}
	if u, undefined := v.(*Undefined); undefined {
		return 0, u.fault()
	}
	i, ok := small(v)
	if !ok {
		return 0, typeErrorf("%s must be a whole number, not %s", what, typeName(v))
	}
	return i, nil
}

func isNone(v Value) bool {
	_, none := v.(None)
	return v == nil || none
}

func strip(trim func(string, func(rune) bool) string) func(*call, string, []Value) (Value, error) {
	return func(c *call, s string, a []Value) (Value, error) {
		if isNone(a[0]) {
			return trim(s, isSpace), nil
		}
		chars, err := wantText(a[0], "what strip removes")
		if err == nil {
			err = c.r.growTimes(len(chars), valueSize)
		}
		if err != nil {
			return nil, err
		}
		removed := map[rune]bool{}
		for _, r := range chars {
			removed[r] = true
		}
		return trim(s, func(r rune) bool { return removed[r] }), nil
	}
}

// part returns the code points of s between two optional positions.
func part(s string, start, end Value) (string, int, error) {
	if isNone(start) && isNone(end) {
		return s, 0, nil
	}
	c := []rune(s)
	from, to, err := window(start, end, len(c))
	if err != nil || from > to {
		return "", from, err
	}
	return string(c[from:to]), from, nil
}

func affix(has func(s, affix string) bool) func(*call, string, []Value) (Value, error) {
	return func(c *call, s string, a []Value) (Value, error) {
		s, _, err := part(s, a[1], a[2])
		if err != nil {
			return nil, err
		}
		options := a[:1]
		if t, ok := a[0].(*Tuple); ok {
			options = t.items
		}
		for _, o := range options {
			if err := c.r.work(1); err != nil {
				return nil, err
			}
			x, err := wantText(o, "what a string starts or ends with")
			if err != nil {
				return nil, err
			}
			if has(s, x) {
				return true, nil
			}
		}
		return false, nil
	}
}

func cutAffix(trim func(s, affix string) string) func(*call, string, []Value) (Value, error) {
	return func(_ *call, s string, a []Value) (Value, error) {
		x, err := wantText(a[0], "what is removed")
		return trim(s, x), err
	}
}

// stringList makes a list of strings.
func (r *render) stringList(parts []string) (Value, error) {
	size := 0
	for _, p := range parts {
		size += valueSize + len(p)
	}
	if err := r.grow(size); err != nil {
		return nil, err
	}
	items := make([]Value, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return &List{items}, nil
}

func splitMethod(right bool) func(*call, string, []Value) (Value, error) {
	return func(c *call, s string, a []Value) (Value, error) {
		limit, err := wantInt(a[1], "maxsplit", -1)
		if err != nil {
			return nil, err
		}
		if err := c.r.growTimes(len(s), 16); err != nil {
			return nil, err
		}
		n := int(min(limit, int64(len(s))+1))
		if isNone(a[0]) {
			return c.r.stringList(splitSpace(s, n, right))
		}
		sep, err := wantText(a[0], "a separator")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, typeErrorf("empty separator")
		}
		if n < 0 {
			return c.r.stringList(strings.Split(s, sep))
		}
		if !right {
			return c.r.stringList(strings.SplitN(s, sep, n+1))
		}
		parts := []string{}
		for ; n > 0; n-- {
			i := strings.LastIndex(s, sep)
			if i < 0 {
				break
			}
			parts = append(parts, s[i+len(sep):])
			s = s[:i]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return c.r.stringList(parts)
	}
}

// splitSpace splits at runs of white space, at most n times if n is not negative.
func splitSpace(s string, n int, right bool) []string {
	if n < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if right {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; n-- {
			i := strings.LastIndexFunc(s, isSpace)
			if n == 0 || i < 0 {
				parts = append(parts, s)
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			parts = append(parts, s[i+size:])
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; n-- {
		i := strings.IndexFunc(s, isSpace)
		if n == 0 || i < 0 {
			return append(parts, s)
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	return parts
}

// splitLines splits after each line end and keeps it.
func splitLines(s string) []string {
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool {
			return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
		})
		if i < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		lines = append(lines, s[:i+n])
		s = s[i+n:]
	}
	return lines
}

// withoutEnd removes the line end of a line of splitLines.
func withoutEnd(line string) string {
	if s, ok := strings.CutSuffix(line, "\r\n"); ok {
		return s
	}
	r, n := utf8.DecodeLastRuneInString(line)
	if len(splitLines(string(r)+"x")) == 2 {
		return line[:len(line)-n]
	}
	return line
}

func splitLinesMethod(c *call, s string, a []Value) (Value, error) {
	lines := splitLines(s)
	if a[0] == nil || !truth(a[0]) {
		for i, l := range lines {
			lines[i] = withoutEnd(l)
		}
	}
	return c.r.stringList(lines)
}

func partition(index func(s, sep string) int, right bool) func(*call, string, []Value) (Value, error) {
	return func(_ *call, s string, a []Value) (Value, error) {
		sep, err := wantText(a[0], "a separator")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, typeErrorf("empty separator")
		}
		i := index(s, sep)
		switch {
		case i >= 0:
			return &Tuple{items: []Value{s[:i], sep, s[i+len(sep):]}}, nil
		case right:
			return &Tuple{items: []Value{"", "", s}}, nil
		}
		return &Tuple{items: []Value{s, "", ""}}, nil
	}
}

func replaceMethod(c *call, s string, a []Value) (Value, error) {
	from, err := wantText(a[0], "what is replaced")
	if err != nil {
		return nil, err
	}
	to, err := wantText(a[1], "what replaces")
	if err != nil {
		return nil, err
	}
	n, err := wantInt(a[2], "count", -1)
	if err != nil {
		return nil, err
	}
	return c.r.replace(s, from, to, n)
}

func (r *render) replace(s, from, to string, n int64) (Value, error) {
	if err := r.scan(len(s)); err != nil {
		return nil, err
	}
	times := strings.Count(s, from)
	if n >= 0 {
		times = int(min(n, int64(times)))
	}
	if times == 0 {
		return s, nil
	}
	if err := r.grow(len(s)); err != nil {
		return nil, err
	}
	if err := r.growTimes(times, len(to)); err != nil {
		return nil, err
	}
	return strings.Replace(s, from, to, times), nil
}

func joinMethod(c *call, s string, a []Value) (Value, error) {
	var b strings.Builder
	first := true
	err := c.r.each(a[0], func(v Value) error {
		x, err := wantText(v, "each item that is joined")
		if err != nil {
			return err
		}
		if !first {
			b.WriteString(s)
		}
		first = false
		b.WriteString(x)
		return c.r.grow(len(s) + len(x))
	})
	return b.String(), err
}

func find(index func(s, sub string) int, must bool) func(*call, string, []Value) (Value, error) {
	return func(_ *call, s string, a []Value) (Value, error) {
		sub, err := wantText(a[0], "what is looked for")
		if err != nil {
			return nil, err
		}
		s, offset, err := part(s, a[1], a[2])
		if err != nil {
			return nil, err
		}
		i := index(s, sub)
		if i < 0 && must {
			return nil, typeErrorf("substring not found")
		}
		if i < 0 {
			return int64(-1), nil
		}
		return int64(offset + utf8.RuneCountInString(s[:i])), nil
	}
}

func countMethod(_ *call, s string, a []Value) (Value, error) {
	sub, err := wantText(a[0], "what is counted")
	if err != nil {
		return nil, err
	}
	s, _, err = part(s, a[1], a[2])
	return int64(strings.Count(s, sub)), err
}

func pad(align byte) func(*call, string, []Value) (Value, error) {
	return func(c *call, s string, a []Value) (Value, error) {
		width, err := wantInt(a[0], "width", 0)
		if err != nil {
			return nil, err
		}
		fill := " "
		if a[1] != nil {
			if fill, err = wantText(a[1], "fillchar"); err != nil {
				return nil, err
			}
			if utf8.RuneCountInString(fill) != 1 {
				return nil, typeErrorf("the fill character must be exactly one character long")
			}
		}
		return c.r.padded(s, width, fill, align)
	}
}

// padded fills s to width code points; align is the place of s: < left, > right, ^ in the middle.
func (r *render) padded(s string, width int64, fill string, align byte) (string, error) {
	if err := r.scan(len(s)); err != nil {
		return "", err
	}
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s, nil
	}
	if n > int64(r.memory) {
		return "", r.grow(-1)
	}
	if err := r.growTimes(int(n), len(fill)); err != nil {
		return "", err
	}
	left := 0
	switch align {
	case '>':
		left = int(n)
	case '^':
		left = int(n/2 + n&width&1)
	}
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, int(n)-left), nil
}

func zfill(c *call, s string, a []Value) (Value, error) {
	width, err := wantInt(a[0], "width", 0)
	if err != nil {
		return nil, err
	}
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	s, err = c.r.padded(s, width-int64(len(sign)), "0", '>')
	return sign + s, err
}

func expandTabs(c *call, s string, a []Value) (Value, error) {
	size, err := wantInt(a[0], "tabsize", 8)
	if err != nil {
		return nil, err
	}
	if size > 0 {
		if size > int64(c.r.memory) {
			return nil, c.r.grow(-1)
		}
		if err := c.r.growTimes(strings.Count(s, "\t"), int(size)); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	column := int64(0)
	for _, r := range s {
		switch r {
		case '\t':
			if size > 0 {
				n := size - column%size
				b.WriteString(strings.Repeat(" ", int(n)))
				column += n
			}
			continue
		case '\n', '\r':
			column = -1
		}
		b.WriteRune(r)
		column++
	}
	return b.String(), nil
}

func formatMap(c *call, s string, a []Value) (Value, error) {
	d, ok := a[0].(*Dict)
	if !ok {
		return nil, typeErrorf("format_map needs a dict, not %s", typeName(a[0]))
	}
	return c.r.format(s, nil, d)
}
