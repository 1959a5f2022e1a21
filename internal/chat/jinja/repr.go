package jinja

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str returns Python's str(v), which {{ v }} prints.
func (r *render) str(v Value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case Markup:
		return string(v), nil
	case *Undefined:
		return "", nil
	}
	return r.repr(v)
}

// read is str of a value that is read completely, which is counted.
func (r *render) read(v Value) (string, error) {
	s, err := r.str(v)
	if err == nil {
		err = r.scan(len(s))
	}
	return s, err
}

// repr returns Python's repr(v).
func (r *render) repr(v Value) (string, error) {
	w := &reprWriter{writer{r: r}}
	if err := w.value(v, 0); err != nil {
		return "", err
	}
	return w.b.String(), nil
}

// A writer writes a value, counting its memory and its work as it goes.
type writer struct {
	r     *render
	b     strings.Builder
	ascii bool // everything else is escaped
}

func (w *writer) write(s string) error {
	w.b.WriteString(s)
	return w.r.grow(len(s))
}

// enter counts a value so deep within others.
func (w *writer) enter(depth int) error {
	if depth > maxValueDepth {
		return faultf(ErrDepth, "a value is nested more than %d deep", maxValueDepth)
	}
	return w.r.work(1)
}

// group writes n things between open and end, with separators between them.
func (w *writer) group(open, separator, end string, n int, each func(i int) error) error {
	if err := w.write(open); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := w.write(separator); err != nil {
				return err
			}
		}
		if err := each(i); err != nil {
			return err
		}
	}
	return w.write(end)
}

// A reprWriter writes Python's literals.
type reprWriter struct{ writer }

func (w *reprWriter) value(v Value, depth int) error {
	if err := w.enter(depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return w.write(quote(v, w.ascii))
	case Markup:
		return w.write("Markup(" + quote(string(v), w.ascii) + ")")
	case *List:
		return w.list("[", v.Items, "]", depth)
	case *Tuple:
		if len(v.items) == 1 {
			return w.list("(", v.items, ",)", depth)
		}
		return w.list("(", v.items, ")", depth)
	case *Dict:
		return w.dict(v, depth)
	case *namespace:
		if err := w.write("<Namespace "); err != nil {
			return err
		}
		if err := w.dict(v.attrs, depth); err != nil {
			return err
		}
		return w.write(">")
	case view:
		items := make([]Value, v.dict.Len())
		if err := w.r.growTimes(len(items), valueSize); err != nil {
			return err
		}
		for i := range items {
			items[i] = v.at(i)
		}
		return w.list("dict_"+v.kind+"([", items, "])", depth)
	}
	return w.write(scalarRepr(v))
}

// scalarRepr is repr of values that hold no others.
func scalarRepr(v Value) string {
	switch v := v.(type) {
	case None:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return formatFloat(v)
	case *Undefined:
		return "Undefined"
	case rangeValue:
		if v.step == 1 {
			return fmt.Sprintf("range(%d, %d)", v.start, v.stop)
		}
		return fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
	case *macro:
		return "<Macro " + quote(v.node.name, false) + ">"
	case *loop:
		return fmt.Sprintf("<LoopContext %d/%d>", v.index0+1, v.length)
	}
	return "<" + typeName(v) + " object>"
}

func (w *reprWriter) list(open string, items []Value, end string, depth int) error {
	return w.group(open, ", ", end, len(items), func(i int) error { return w.value(items[i], depth+1) })
}

func (w *reprWriter) dict(d *Dict, depth int) error {
	return w.group("{", ", ", "}", len(d.keys), func(i int) error {
		if err := w.value(d.keys[i], depth+1); err != nil {
			return err
		}
		if err := w.write(": "); err != nil {
			return err
		}
		return w.value(d.vals[i], depth+1)
	})
}

// shortRepr is repr for error messages.
func shortRepr(v Value) string {
	if s, ok := text(v); ok {
		if len(s) > 60 {
			s = strings.ToValidUTF8(s[:60], "") + "…"
		}
		return quote(s, false)
	}
	switch v.(type) {
	case *List, *Tuple, *Dict, *namespace, view, *big.Int:
		return "a " + typeName(v)
	}
	return scalarRepr(v)
}

// quote returns Python's repr of a string: in single quotes unless it has only single ones in it.
func quote(s string, ascii bool) string {
	q := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		q = '"'
	}
	b := make([]byte, 0, len(s)+2)
	b = append(b, q)
	for _, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c >= ' ' && c < 0x7f:
			b = append(b, byte(c))
		case c > 0xff && !ascii && printable(c), c > 0xa0 && c <= 0xff && c != 0xad && !ascii:
			b = append(b, string(c)...)
		case c <= 0xff:
			b = fmt.Appendf(b, `\x%02x`, c)
		case c <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = fmt.Appendf(b, `\U%08x`, c)
		}
	}
	return string(append(b, q))
}

// printable is Python's str.isprintable of one code point.
func printable(c rune) bool {
	return unicode.IsPrint(c)
}
