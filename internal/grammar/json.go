package grammar

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// value is a JSON value with its object members in order. It does not change once built. It belongs to one goroutine.
type value struct {
	kind   byte     // '{' '[' '"' '0' (number) 't' 'f' 'n'
	text   string   // of a string: its characters; of a number: its digits as written
	keys   []string // of an object
	values []*value // of an object or an array

	members map[string]int // index of each key, if there are many
	name    string         // see id
}

// valueBytes is roughly the size of a value without its text.
const valueBytes = 160

// fewKeys is the most members of an object that are searched one by one.
const fewKeys = 8

// readJSON reads one JSON value and nothing after it. Repeated names are an error.
func readJSON(m *meter, data []byte) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readValue(m, d, 0)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	return v, err
}

func readValue(m *meter, d *json.Decoder, depth int) (*value, error) {
	if err := m.take(valueBytes); err != nil {
		return nil, err
	}
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
		return readCompound(m, d, byte(t), depth)
	case string:
		return &value{kind: '"', text: t}, nil
	case json.Number:
		return &value{kind: '0', text: t.String()}, nil
	case bool:
		return truth(t), nil
	}
	return &value{kind: 'n'}, nil
}

func readCompound(m *meter, d *json.Decoder, kind byte, depth int) (*value, error) {
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
				return nil, fmt.Errorf("the member %q occurs twice", key)
			}
			seen[key] = true
			v.keys = append(v.keys, key)
		}
		e, err := readValue(m, d, depth+1)
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
		if i := v.member(key); i >= 0 {
			return v.values[i]
		}
	}
	return nil
}

// member returns the index of a member, -1 if there is none.
func (v *value) member(key string) int {
	if len(v.keys) <= fewKeys {
		return slices.Index(v.keys, key)
	}
	if v.members == nil {
		v.members = make(map[string]int, len(v.keys))
		for i, k := range v.keys {
			v.members[k] = i
		}
	}
	if i, ok := v.members[key]; ok {
		return i
	}
	return -1
}

// with returns an object with the member set, at its old place or at the end.
func (v *value) with(key string, e *value) *value {
	w := &value{kind: '{', keys: slices.Clone(v.keys), values: slices.Clone(v.values)}
	if i := v.member(key); i >= 0 {
		w.values[i] = e
		return w
	}
	w.keys, w.values = append(w.keys, key), append(w.values, e)
	return w
}

// without returns an object without the members.
func (v *value) without(keys ...string) *value {
	return v.only(func(key string) bool { return !slices.Contains(keys, key) })
}

// only returns an object with the members that keep accepts.
func (v *value) only(keep func(key string) bool) *value {
	w := &value{kind: '{'}
	for i, k := range v.keys {
		if keep(k) {
			w.keys, w.values = append(w.keys, k), append(w.values, v.values[i])
		}
	}
	return w
}

// json returns the value as compact JSON.
func (v *value) json() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

// String returns the beginning of json, for errors.
func (v *value) String() string { return shown(v.json()) }

// refers is the prefix of the ids of values that hold a $ref. Such values have a meaning only within their document.
const refers = "$ref "

// id identifies a value by its content: only equal values have the same id. It is a hash of the ids of the values
// within, so that all ids together take time linear in the document's size, however deep it is.
func (v *value) id() string {
	if v.name != "" {
		return v.name
	}
	h := sha256.New()
	text := func(s string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	h.Write([]byte{v.kind})
	if r, ok := rational(v); ok { // 1.0 is 1
		text(r.RatString())
	} else {
		text(v.text)
	}
	begin := ""
	for i, e := range v.values {
		if v.kind == '{' {
			text(v.keys[i])
			if v.keys[i] == "$ref" {
				begin = refers
			}
		}
		id := e.id()
		if strings.HasPrefix(id, refers) {
			begin = refers
		}
		text(id)
	}
	v.name = begin + string(h.Sum(nil))
	return v.name
}

// equal reports whether two values are the same, with an object's members in the same order.
func (v *value) equal(w *value) bool { return v == w || v.id() == w.id() }

// among returns a function that reports whether a value is in list.
func among(list []*value) func(*value) bool {
	known := make(map[string]bool, len(list))
	for _, e := range list {
		known[e.id()] = true
	}
	return func(e *value) bool { return known[e.id()] }
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

// quote returns s as a JSON string, with escapes only where JSON needs them.
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
