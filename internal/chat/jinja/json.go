package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"sort"
	"strings"
	"unicode/utf16"
)

// FromJSON decodes one JSON value. Objects keep the order of their keys, and numbers without fraction and exponent are
// whole numbers.
func FromJSON(data []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxValueDepth {
		return nil, fmt.Errorf("the JSON value is nested more than %d deep", maxValueDepth)
	}
	switch t := t.(type) {
	case nil:
		return None{}, nil
	case bool:
		return t, nil
	case string:
		return t, nil
	case json.Number:
		return decodeNumber(string(t))
	case json.Delim:
		if t == '[' {
			return decodeList(d, depth)
		}
		return decodeDict(d, depth)
	}
	return nil, fmt.Errorf("unexpected JSON token %v", t)
}

func decodeList(d *json.Decoder, depth int) (Value, error) {
	l := &List{}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
	}
	_, err := d.Token()
	return l, err
}

func decodeDict(d *json.Decoder, depth int) (Value, error) {
	o := &Dict{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.Set(k.(string), v)
	}
	_, err := d.Token()
	return o, err
}

func decodeNumber(s string) (Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if len(s) > 4300 {
			return nil, errors.New("a JSON number has more than 4300 digits")
		}
		i, ok := new(big.Int).SetString(s, 10)
		if !ok {
			return nil, fmt.Errorf("%s is not a number", s)
		}
		return normalInt(i), nil
	}
	f, err := json.Number(s).Float64()
	if err != nil && !math.IsInf(f, 0) {
		return nil, err
	}
	return f, nil
}

// fromJSONFilter decodes a text. It is not Jinja2's: templates of DeepSeek's expect it.
func fromJSONFilter(c *call, a []Value) (Value, error) {
	s, err := wantText(a[0], "JSON")
	if err != nil {
		return nil, err
	}
	if err := c.r.growTimes(len(s), valueSize); err != nil { // no value is written in less than a byte
		return nil, err
	}
	v, err := FromJSON([]byte(s))
	if err != nil {
		return nil, typeErrorf("from_json got a text that is not JSON: %s", err)
	}
	return v, nil
}

// toJSONFilter returns transformers' tojson: json.dumps, by default without escapes for characters outside of ASCII.
func toJSONFilter(c *call, a []Value) (Value, error) {
	w := &jsonWriter{writer: writer{r: c.r, ascii: given(a[1])}, item: ", ", key: ": ", sortKeys: given(a[4])}
	if !isNone(a[2]) {
		w.multiline, w.item = true, ","
		if s, ok := text(a[2]); ok {
			w.indent = s
		} else {
			n, err := wantInt(a[2], "indent", 0)
			if err != nil {
				return nil, err
			}
			if n > 1000 {
				return nil, faultf(ErrMemory, "an indent of %d is too large", n)
			}
			w.indent = strings.Repeat(" ", int(max(n, 0)))
		}
	}
	if !isNone(a[3]) {
		pair, err := c.r.items(a[3])
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, typeErrorf("separators must be a pair of strings")
		}
		if w.item, err = wantText(pair[0], "a separator"); err != nil {
			return nil, err
		}
		if w.key, err = wantText(pair[1], "a separator"); err != nil {
			return nil, err
		}
	}
	if err := w.value(a[0], 0); err != nil {
		return nil, err
	}
	return w.b.String(), nil
}

type jsonWriter struct {
	writer
	item, key string // separators
	multiline bool
	indent    string
	sortKeys  bool
}

func (w *jsonWriter) value(v Value, depth int) error {
	if err := w.enter(depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case None:
		return w.write("null")
	case bool:
		if v {
			return w.write("true")
		}
		return w.write("false")
	case int64, *big.Int:
		return w.write(scalarRepr(v))
	case float64:
		return w.write(jsonFloat(v))
	case string:
		return w.write(jsonString(v, w.ascii))
	case Markup:
		return w.write(jsonString(string(v), w.ascii))
	case *List:
		return w.list(v.Items, depth)
	case *Tuple:
		return w.list(v.items, depth)
	case *Dict:
		return w.dict(v, depth)
	}
	return typeErrorf("Object of type %s is not JSON serializable", typeName(v))
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

// line returns the beginning of a new line, if each item has one.
func (w *jsonWriter) line(depth int) string {
	if !w.multiline {
		return ""
	}
	return "\n" + strings.Repeat(w.indent, depth)
}

func (w *jsonWriter) list(items []Value, depth int) error {
	return w.items("[", "]", len(items), depth, func(i int) error { return w.value(items[i], depth+1) })
}

// items writes n items with w's separator, on separate lines if it has them.
func (w *jsonWriter) items(open, end string, n, depth int, each func(int) error) error {
	if n == 0 {
		return w.write(open + end)
	}
	line := w.line(depth + 1)
	return w.group(open+line, w.item+line, w.line(depth)+end, n, each)
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	order := make([]int, d.Len())
	for i := range order {
		order[i] = i
	}
	if w.sortKeys {
		var failed error
		sort.SliceStable(order, func(i, j int) bool {
			c, _, err := w.r.order(d.keys[order[i]], d.keys[order[j]], 0)
			if err != nil {
				failed = err
			}
			return c < 0
		})
		if failed != nil {
			return failed
		}
	}
	return w.items("{", "}", d.Len(), depth, func(i int) error {
		key, err := w.keyString(d.keys[order[i]])
		if err != nil {
			return err
		}
		if err := w.write(jsonString(key, w.ascii) + w.key); err != nil {
			return err
		}
		return w.value(d.vals[order[i]], depth+1)
	})
}

func (w *jsonWriter) keyString(k Value) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case Markup:
		return string(k), nil
	case None:
		return "null", nil
	case bool:
		if k {
			return "true", nil
		}
		return "false", nil
	case int64, *big.Int:
		return scalarRepr(k), nil
	case float64:
		return jsonFloat(k), nil
	}
	return "", typeErrorf("keys must be str, int, float, bool or None, not %s", typeName(k))
}

func jsonString(s string, ascii bool) string {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < ' ' || ascii && c > 0x7e && c <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, c)
		case ascii && c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = append(b, string(c)...)
		}
	}
	return string(append(b, '"'))
}
