package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// plainRunes are the characters that stand for themselves in a JSON string.
var plainRunes = complement(normalise([]runeRange{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}))

// spelled returns one character of normalised ranges within a JSON string, each with one spelling.
func spelled(ranges []runeRange) *expr {
	var subs []*expr
	if r := intersect(ranges, plainRunes); len(r) > 0 {
		subs = append(subs, class(r...))
	}
	for _, x := range intersect(ranges, complement(plainRunes)) {
		for r := x.lo; r <= x.hi; r++ {
			subs = append(subs, literal(spelling(r)))
		}
	}
	return choice(subs...)
}

// singleRunes are the characters that stand for themselves in single quotes, where models leave lines and tabs as they
// are.
var singleRunes = complement(normalise([]runeRange{{0, '\t' - 1}, {'\n' + 1, 0x1F}, {'\'', '\''}, {'\\', '\\'}}))

// stringChar returns one character within a JSON string, in any spelling.
func stringChar() *expr { return charOf(plainRunes, `"\/bfnrt`) }

// charOf returns one of the plain characters, or a character after a backslash: one of short, or u and its number.
func charOf(plain []runeRange, short string) *expr {
	hex := class(runeRange{'0', '9'}, runeRange{'a', 'f'}, runeRange{'A', 'F'})
	notD := class(runeRange{'0', '9'}, runeRange{'a', 'c'}, runeRange{'e', 'f'}, runeRange{'A', 'C'}, runeRange{'E', 'F'})
	high := sequence(oneOf("dD"), oneOf("89abAB"), hex, hex)
	low := sequence(oneOf("dD"), oneOf("cdefCDEF"), hex, hex)
	below := sequence(oneOf("dD"), class(runeRange{'0', '7'}), hex, hex)
	return choice(class(plain...),
		sequence(literal(`\`), oneOf(short)),
		sequence(literal(`\u`), choice(sequence(notD, hex, hex, hex), below, sequence(high, literal(`\u`), low))))
}

func quoted(e *expr) *expr { return sequence(literal(`"`), e, literal(`"`)) }

// singleQuoted returns a JSON string in single quotes, as in Python.
func singleQuoted(text string) string {
	return "'" + strings.NewReplacer(`\\`, `\\`, `\"`, `"`, "'", `\'`).Replace(text[1:len(text)-1]) + "'"
}

func (c *schemas) anyString() (*expr, error) {
	return c.rule("string", "any string", func() (*expr, error) {
		e := sized(0, unbounded)
		if c.python {
			single := literal("'")
			e = choice(e, sequence(single, repeat(charOf(singleRunes, `'"\bfnrt`), 0, unbounded), single))
		}
		return e, nil
	})
}

// formats are the supported formats as patterns, after the RFCs that JSON Schema's validation vocabulary (section 7.3)
// names.
var formats = func() map[string]string {
	const (
		day   = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)`
		clock = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
		octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
		ipv4  = `(` + octet + `\.){3}` + octet
		h16   = `[0-9a-fA-F]{1,4}`
		label = `[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
		host  = label + `(\.` + label + `)*`
		uuid  = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-%s[0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`
		pchar = `([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
	)
	ipv6 := fmt.Sprintf(`((%[1]s:){7}%[1]s|(%[1]s:){1,7}:|(%[1]s:){1,6}:%[1]s|(%[1]s:){1,5}(:%[1]s){1,2}|(%[1]s:){1,4}(:%[1]s){1,3}|(%[1]s:){1,3}(:%[1]s){1,4}|(%[1]s:){1,2}(:%[1]s){1,5}|%[1]s:(:%[1]s){1,6}|:((:%[1]s){1,7}|:))`, h16)
	rest := `(/` + pchar + `*)*(\?(` + pchar + `|[/?])*)?(#(` + pchar + `|[/?])*)?`
	uri := `[A-Za-z][A-Za-z0-9+.-]*:(//(` + host + `(:\d{1,5})?)?` + rest + `|` + pchar + `+` + rest + `)`
	named := map[string]string{
		"date": day, "time": clock, "date-time": day + "T" + clock,
		"duration": `P(\d+W|\d+Y(\d+M(\d+D)?)?(T\d+H(\d+M(\d+S)?)?)?|\d+M(\d+D)?|\d+D(T\d+H(\d+M(\d+S)?)?)?|T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))`,
		"uuid":     fmt.Sprintf(uuid, "[0-9a-fA-F]"),
		"ipv4":     ipv4, "ipv6": ipv6, "hostname": host,
		"email": `[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+)*@` + host,
		"uri":   uri, "uri-reference": `(` + uri + `|([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})*` + rest + `)`,
		"json-pointer": `(/([^~/]|~[01])*)*`,
	}
	for version := range 5 { // llama.cpp knows these names
		digit := strconv.Itoa(version + 1)
		named["uuid"+digit] = fmt.Sprintf(uuid, digit)
	}
	return named
}()

// numeric formats, which OpenAPI uses with number and integer, do not restrict a JSON text.
var numericFormats = strings.Fields("int32 int64 uint uint32 uint64 float double decimal")

// text returns the strings that are valid by v.
func (c *schemas) text(v *value, path string) (*expr, error) {
	least, most, err := c.sizes(v, "minLength", "maxLength", path)
	if err != nil {
		return nil, err
	}
	var patterns []string
	if p := v.get("pattern"); p != nil {
		for _, e := range list(p) {
			if e.kind != '"' {
				return nil, fmt.Errorf("%s/pattern: a regular expression in a string belongs here", path)
			}
			patterns = append(patterns, e.text)
		}
	}
	if f := v.get("format"); f != nil {
		for _, e := range list(f) {
			p, ok := formats[e.text]
			if ok {
				patterns = append([]string{"^(" + p + ")$"}, patterns...) // if all are too large, only this one stays
			} else if !slices.Contains(numericFormats, e.text) {
				if err := c.loosen("%s: the format %s is not supported", path, e); err != nil {
					return nil, err
				}
			}
		}
	}
	switch {
	case len(patterns) > 0:
		key := fmt.Sprintf("%q %d %d", patterns, least, most)
		return c.rule(key, path, func() (*expr, error) { return c.patternText(patterns, least, most, path) })
	case least == 0 && most == unbounded:
		return c.anyString()
	}
	return c.rule(fmt.Sprintf("string %d %d", least, most), path, func() (*expr, error) { return sized(least, most), nil })
}

// sized returns the JSON strings with this many characters.
func sized(least, most int) *expr { return quoted(repeat(stringChar(), least, most)) }

// patternText returns the JSON strings with this many characters that match all patterns.
func (c *schemas) patternText(patterns []string, least, most int, path string) (*expr, error) {
	var d *dfa
	for _, p := range patterns {
		next, err := c.pattern(p)
		if err == nil && d != nil {
			if next, err = d.intersect(c.m, next); err != nil {
				err = fmt.Errorf("the pattern %q together with the format or another pattern %w", shown(p), err)
			}
		}
		if err == nil {
			d = next
		} else if err = c.loosenPattern(path, err); err != nil {
			return nil, err
		}
	}
	if d == nil {
		return sized(least, most), nil
	}
	if least > 0 || most != unbounded {
		next, err := d.counted(c.m, least, most)
		if err == nil {
			d = next
		} else if err = c.loosenPattern(path, fmt.Errorf("the pattern together with minLength or maxLength %w", err)); err != nil {
			return nil, err
		}
	}
	return quoted(d.expr(c.m)), c.spend(path, 0, 0)
}

// pattern returns the automaton of a regular expression; it is made once.
func (c *schemas) pattern(text string) (*dfa, error) {
	if d, ok := c.patterns[text]; ok {
		return d, nil
	}
	d, err := patternDFA(c.m, text)
	if err == nil {
		if c.patterns == nil {
			c.patterns = map[string]*dfa{}
		}
		c.patterns[text] = d
	}
	return d, err
}

// loosenPattern is loosen for a pattern, but fails if the grammar is too large or no longer wanted.
func (c *schemas) loosenPattern(path string, err error) error {
	if c.m.err != nil {
		return fmt.Errorf("%s: %w", path, c.m.err)
	}
	return c.loosen("%s: %w", path, err)
}
