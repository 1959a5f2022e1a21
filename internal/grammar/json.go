package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// value is a JSON value whose object members keep their order. It is not changed once built.
type value struct {
	kind   byte     // '{' '[' '"' '0' (number) 't' 'f' 'n'
	text   string   // of a string: its characters; of a number: as written
	keys   []string // of an object
	values []*value // of an object or an array
}

// readJSON reads one JSON value and nothing after it. Members that are named twice are an error.
func readJSON(data []byte) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	return v, err
}

func readValue(d *json.Decoder, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("values are nested more than %d deep", maxNesting)
	}
	t, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		return readCompound(d, byte(t), depth)
	case string:
		return &value{kind: '"', text: t}, nil
	case json.Number:
		return &value{kind: '0', text: t.String()}, nil
	case bool:
		return truth(t), nil
	}
	return &value{kind: 'n'}, nil
}

func readCompound(d *json.Decoder, kind byte, depth int) (*value, error) {
	v := &value{kind: kind}
	seen := map[string]bool{}
	for d.More() {
		if kind == '{' {
			t, err := d.Token()
			if err != nil {
				return nil, err
			}
			key := t.(string)
			if seen[key] {
				return nil, fmt.Errorf("the member %q is there twice", key)
			}
			seen[key] = true
			v.keys = append(v.keys, key)
		}
		e, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		v.values = append(v.values, e)
	}
	_, err := d.Token()
	return v, err
}

func truth(b bool) *value {
	if b {
		return &value{kind: 't'}
	}
	return &value{kind: 'f'}
}

// get returns the member of an object, nil if there is none.
func (v *value) get(key string) *value {
	if v != nil && v.kind == '{' {
		if i := slices.Index(v.keys, key); i >= 0 {
			return v.values[i]
		}
	}
	return nil
}

// with returns an object with the member set, at its old place or at the end.
func (v *value) with(key string, e *value) *value {
	w := &value{kind: '{', keys: slices.Clone(v.keys), values: slices.Clone(v.values)}
	if i := slices.Index(w.keys, key); i >= 0 {
		w.values[i] = e
		return w
	}
	w.keys, w.values = append(w.keys, key), append(w.values, e)
	return w
}

// without returns an object without the members.
func (v *value) without(keys ...string) *value {
	w := &value{kind: '{'}
	for i, k := range v.keys {
		if !slices.Contains(keys, k) {
			w.keys, w.values = append(w.keys, k), append(w.values, v.values[i])
		}
	}
	return w
}

// String returns the value as compact JSON.
func (v *value) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case '{', '[':
		b.WriteByte(v.kind)
		for i, e := range v.values {
			if i > 0 {
				b.WriteByte(',')
			}
			if v.kind == '{' {
				b.WriteString(quote(v.keys[i]) + ":")
			}
			e.write(b)
		}
		b.WriteByte(v.kind + 2) // } and ]
	case '"':
		b.WriteString(quote(v.text))
	case '0':
		b.WriteString(v.text)
	default:
		b.WriteString(map[byte]string{'t': "true", 'f': "false", 'n': "null"}[v.kind])
	}
}

// quote is s as a JSON string, with escapes only where JSON needs them.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		b.WriteString(spelling(r))
	}
	b.WriteByte('"')
	return b.String()
}

// spelling returns a character within a JSON string.
func spelling(r rune) string {
	if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
		return `\` + string(`"\bfnrt`[i])
	}
	if r < 0x20 {
		return `\u00` + strconv.FormatInt(int64(r)+0x100, 16)[1:]
	}
	return string(r)
}
