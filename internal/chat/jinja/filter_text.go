package jinja

import (
	"strings"
	"unicode"
)

// textFilter makes a filter of a function from text to text; values become text first.
func textFilter(do func(string) string) *function {
	return fn("s", func(c *call, a []Value) (Value, error) {
		s, err := c.r.read(a[0])
		if err != nil {
			return nil, err
		}
		s = do(s)
		return like(a[0], s), c.r.grow(len(s))
	})
}

func stringFilter(c *call, a []Value) (Value, error) {
	if _, ok := a[0].(Markup); ok {
		return a[0], nil
	}
	return c.r.str(a[0])
}

// titleFilter puts in upper case what follows the start, white space or an opening bracket, and all else in lower case.
func titleFilter(s string) string {
	begins := true
	return strings.Map(func(r rune) rune {
		was := begins
		begins = isSpace(r) || strings.ContainsRune("-({[<", r)
		if was {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func trimFilter(c *call, a []Value) (Value, error) {
	s, err := c.r.read(a[0])
	if err != nil {
		return nil, err
	}
	v, err := strip(strings.TrimFunc)(c, s, a[1:])
	if err != nil {
		return nil, err
	}
	return like(a[0], v.(string)), nil
}

func replaceFilter(c *call, a []Value) (Value, error) {
	var s [3]string
	for i := range s {
		var err error
		if s[i], err = c.r.str(a[i]); err != nil {
			return nil, err
		}
	}
	n, err := int64(-1), error(nil)
	if !isNone(a[3]) {
		n, err = wantInt(a[3], "count", -1)
	}
	if err != nil {
		return nil, err
	}
	return c.r.replace(s[0], s[1], s[2], n)
}

func formatFilter(c *call) (Value, error) {
	s, err := c.r.str(c.args[0])
	if err != nil {
		return nil, err
	}
	if c.named != nil && len(c.args) > 1 {
		return nil, typeErrorf("can't handle positional and keyword arguments at the same time")
	}
	if c.named != nil {
		return c.r.percent(s, c.named)
	}
	return c.r.percent(s, &Tuple{items: c.args[1:]})
}

func indentFilter(c *call, a []Value) (Value, error) {
	s, err := wantText(a[0], "what is indented")
	if err != nil {
		return nil, err
	}
	indent, ok := "", false
	if a[1] != nil {
		indent, ok = text(a[1])
	}
	if !ok {
		n, err := wantInt(a[1], "width", 4)
		if err != nil {
			return nil, err
		}
		if indent, err = c.r.padded("", n, " ", '<'); err != nil {
			return nil, err
		}
	}
	lines := splitLines(s + "\n")
	if err := c.r.growTimes(len(lines), len(indent)+valueSize); err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, l := range lines {
		l = withoutEnd(l)
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == 0 && given(a[2]) || i > 0 && (l != "" || given(a[3])) {
			b.WriteString(indent)
		}
		b.WriteString(l)
	}
	return like(a[0], b.String()), c.r.grow(b.Len())
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func escapeFilter(c *call, a []Value) (Value, error) {
	if _, ok := a[0].(Markup); ok {
		return a[0], nil
	}
	s, err := c.r.str(a[0])
	if err == nil {
		err = c.r.growTimes(len(s), 6)
	}
	if err != nil {
		return nil, err
	}
	return Markup(escapeHTML(s)), nil
}

func safeFilter(c *call, a []Value) (Value, error) {
	s, err := c.r.str(a[0])
	return Markup(s), err
}
