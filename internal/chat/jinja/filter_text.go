package jinja

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
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

func centerFilter(c *call, a []Value) (Value, error) {
	s, err := c.r.str(a[0])
	if err != nil {
		return nil, err
	}
	width, err := wantInt(a[1], "width", 80)
	if err != nil {
		return nil, err
	}
	return c.r.padded(s, width, " ", '^')
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

func truncateFilter(c *call, a []Value) (Value, error) {
	size, err := wantInt(a[1], "length", 255)
	if err != nil {
		return nil, err
	}
	end := "..."
	if a[3] != nil {
		if end, err = c.r.str(a[3]); err != nil {
			return nil, err
		}
	}
	leeway := int64(5)
	if !isNone(a[4]) {
		if leeway, err = wantInt(a[4], "leeway", 5); err != nil {
			return nil, err
		}
	}
	cut := size - int64(utf8.RuneCountInString(end))
	if cut < 0 || leeway < 0 {
		return nil, typeErrorf("the length to truncate to is shorter than the end mark, or the leeway negative")
	}
	n, err := lengthFilter(c, a)
	if err != nil {
		return nil, err
	}
	if n.(int64) <= size+leeway {
		return a[0], nil
	}
	s, err := wantText(a[0], "what is truncated")
	if err != nil {
		return nil, err
	}
	whole, _ := cutAt(s, int(cut))
	s = s[:whole]
	if i := strings.LastIndexByte(s, ' '); !given(a[2]) && i >= 0 {
		s = s[:i]
	}
	return like(a[0], s+end), c.r.grow(len(s) + len(end))
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func wordCountFilter(c *call, a []Value) (Value, error) {
	s, err := c.r.read(a[0])
	if err != nil {
		return nil, err
	}
	n, inWord := int64(0), false
	for _, r := range s {
		if isWord(r) && !inWord {
			n++
		}
		inWord = isWord(r)
	}
	return n, nil
}

func pprintFilter(c *call, a []Value) (Value, error) {
	s, err := c.r.repr(a[0])
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(s) > 80 {
		return nil, typeErrorf("pprint of more than 80 characters is not supported: use tojson(indent=2)")
	}
	return s, nil
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func escapeFilter(c *call, a []Value) (Value, error) {
	if _, ok := a[0].(Markup); ok {
		return a[0], nil
	}
	return forceEscapeFilter(c, a)
}

func forceEscapeFilter(c *call, a []Value) (Value, error) {
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

func stripTagsFilter(c *call, a []Value) (Value, error) {
	s, err := c.r.read(a[0])
	if err != nil {
		return nil, err
	}
	s = removeBetween(s, "<!--", "-->")
	s = removeBetween(s, "<", ">")
	s = strings.Join(strings.FieldsFunc(s, isSpace), " ")
	return unescapeHTML(s), c.r.grow(len(s))
}

func removeBetween(s, open, end string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, open)
		if !ok {
			break
		}
		_, after, ok := strings.Cut(rest, end)
		if !ok {
			break
		}
		b.WriteString(before)
		s = after
	}
	return b.String() + s
}

func xmlAttrFilter(c *call, a []Value) (Value, error) {
	d, ok := a[0].(*Dict)
	if !ok {
		return nil, typeErrorf("xmlattr needs a dict, not %s", typeName(a[0]))
	}
	var b strings.Builder
	for k, v := range d.All {
		if _, undefined := v.(*Undefined); undefined || isNone(v) {
			continue
		}
		key, err := c.r.str(k)
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			return nil, typeErrorf("invalid character in attribute name: %s", shortRepr(key))
		}
		escaped, err := escapeFilter(c, []Value{v})
		if err != nil {
			return nil, err
		}
		if b.Len() > 0 || a[1] == nil || truth(a[1]) {
			b.WriteByte(' ')
		}
		value, _ := text(escaped)
		if err := c.r.grow(6*len(key) + len(value)); err != nil {
			return nil, err
		}
		b.WriteString(escapeHTML(key) + `="` + value + `"`)
	}
	return b.String(), nil
}

// quoteURL escapes what may not stand in a URL; query also escapes slashes and writes spaces as plus signs.
func quoteURL(s string, query bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case isDecimal(c), c|0x20 >= 'a' && c|0x20 <= 'z', strings.IndexByte("_.-~", c) >= 0, c == '/' && !query:
			b.WriteByte(c)
		case c == ' ' && query:
			b.WriteByte('+')
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func urlEncodeFilter(c *call, a []Value) (Value, error) {
	_, isText := text(a[0])
	items, err := a[0], error(nil)
	if d, ok := a[0].(*Dict); ok {
		items = view{d, "items"}
	} else if _, err = c.r.iterate(a[0]); isText || err != nil {
		s, err := c.r.str(a[0])
		if err == nil {
			err = c.r.growTimes(len(s), 3)
		}
		if err != nil {
			return nil, err
		}
		return quoteURL(s, false), nil
	}
	var parts []string
	err = c.r.each(items, func(v Value) error {
		pair, err := c.r.items(v)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return typeErrorf("urlencode needs pairs of a key and a value")
		}
		var s [2]string
		for i := range s {
			if s[i], err = c.r.str(pair[i]); err != nil {
				return err
			}
			s[i] = quoteURL(s[i], true)
		}
		parts = append(parts, s[0]+"="+s[1])
		return c.r.grow(len(s[0]) + len(s[1]))
	})
	return strings.Join(parts, "&"), err
}

var (
	webAddress = regexp.MustCompile(`(?i)^((https?://|www\.)(([\pL\pN_%-]+\.)+)?([a-z]{2,63}|xn--[\pL\pN_%]{2,59})` +
		`|([\pL\pN_%-]{2,63}\.)+(com|net|int|edu|gov|org|info|mil)` +
		`|(https?://)((([\d]{1,3})(\.[\d]{1,3}){3})|(\[([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}\])))` +
		`(:[\d]{1,5})?([/?#]\S*)?$`)
	mailAddress = regexp.MustCompile(`^\S+@[\pL\pN_][\pL\pN_.-]*\.[\pL\pN_]+$`)
)

// urlizeFilter turns the addresses in a text into links.
func urlizeFilter(c *call, a []Value) (Value, error) {
	escaped, err := escapeFilter(c, a[:1])
	if err != nil {
		return nil, err
	}
	s, _ := text(escaped)
	limit, err := int64(-1), error(nil)
	if !isNone(a[1]) {
		limit, err = wantInt(a[1], "trim_url_limit", -1)
	}
	if err != nil {
		return nil, err
	}
	if !isNone(a[5]) {
		return nil, typeErrorf("urlize does not support extra_schemes")
	}
	rel := "noopener"
	if given(a[2]) {
		rel = "nofollow noopener"
	}
	if !isNone(a[4]) {
		return nil, typeErrorf("urlize does not support rel")
	}
	attributes := ` rel="` + rel + `"`
	if !isNone(a[3]) {
		target, err := c.r.str(a[3])
		if err != nil {
			return nil, err
		}
		attributes += ` target="` + escapeHTML(target) + `"`
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			i = len(s)
		}
		before := b.Len()
		b.WriteString(link(s[:i], attributes, limit))
		s = s[i:]
		rest := strings.TrimLeftFunc(s, isSpace)
		b.WriteString(s[:len(s)-len(rest)])
		s = rest
		if err := c.r.growTimes(b.Len()-before, 2); err != nil {
			return nil, err
		}
	}
	return b.String(), nil
}

var (
	linkHead = regexp.MustCompile(`^([(<]|&lt;)+`)
	linkTail = regexp.MustCompile(`([)>.,\n]|&gt;)+$`)
)

func link(word, attributes string, limit int64) string {
	head := linkHead.FindString(word)
	middle := word[len(head):]
	tail := linkTail.FindString(middle)
	middle = middle[:len(middle)-len(tail)]
	for _, pair := range [][2]string{{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}} {
		open := strings.Count(middle, pair[0])
		if open <= strings.Count(middle, pair[1]) {
			continue
		}
		for range min(open, strings.Count(tail, pair[1])) {
			n := strings.Index(tail, pair[1]) + len(pair[1])
			middle, tail = middle+tail[:n], tail[n:]
		}
	}
	shown := middle
	if limit >= 0 && int64(utf8.RuneCountInString(middle)) > limit {
		shown = string([]rune(middle)[:limit]) + "..."
	}
	switch mail, isMail := strings.CutPrefix(middle, "mailto:"); {
	case webAddress.MatchString(middle):
		target := middle
		if !strings.HasPrefix(middle, "https://") && !strings.HasPrefix(middle, "http://") {
			target = "https://" + middle
		}
		middle = `<a href="` + target + `"` + attributes + `>` + shown + `</a>`
	case isMail && mailAddress.MatchString(mail):
		middle = `<a href="` + middle + `">` + mail + `</a>`
	case strings.Contains(middle, "@") && !strings.HasPrefix(middle, "www.") && !strings.HasPrefix(middle, "@") &&
		!strings.Contains(middle, ":") && mailAddress.MatchString(middle):
		middle = `<a href="mailto:` + middle + `">` + middle + `</a>`
	}
	return head + middle + tail
}
