package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting bounds how deeply a body's values may lie in each other.
const maxNesting = 256

// Fields are those of a request's body that were not read yet. The first error of reading one is kept until Close.
type Fields struct {
	raw map[string]json.RawMessage
	err error
}

// FieldsOf returns the fields of an object within a body.
func FieldsOf(object json.RawMessage) (*Fields, error) { return parseFields(object) }

// parseFields reads an object. Fields that are null count as absent.
func parseFields(body []byte) (*Fields, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	f := &Fields{}
	err := json.Unmarshal(body, &f.raw)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, Invalid("the body is not a JSON object, but of the type %s", wrong.Value)
	}
	if err != nil {
		return nil, Invalid("the body is not a JSON object: %s", err)
	}
	if f.raw == nil {
		return nil, Invalid("the body is not a JSON object: it is null")
	}
	maps.DeleteFunc(f.raw, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return f, nil
}

// parseList returns the fields of a body that is a list, as one field of that name.
func parseList(body []byte, name string) (*Fields, error) {
	var list []json.RawMessage
	if err := checkText(body); err != nil {
		return nil, err
	}
	if json.Unmarshal(body, &list) != nil {
		return nil, Invalid("the body is not a JSON array")
	}
	return &Fields{raw: map[string]json.RawMessage{name: body}}, nil
}

// checkText refuses what encoding/json would mend silently or read at great cost.
func checkText(body []byte) error {
	switch {
	case !utf8.Valid(body):
		return Invalid("the body is not valid UTF-8")
	case !paired(body):
		return Invalid(`the body has half of a character of UTF-16, such as \ud83d without the \ude00 that belongs to it`)
	case nesting(body) > maxNesting:
		return Invalid("the body's values are nested more than %d deep", maxNesting)
	}
	return nil
}

// paired reports whether the surrogates among a JSON text's escapes are in pairs.
func paired(text []byte) bool {
	for high := false; ; { // the escape that ended here is the first half of a pair
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i > 0 && high {
			return !high
		}
		text = text[i:]
		n, code := 2, uint64(0)
		if len(text) >= 6 && text[1] == 'u' {
			n = 6
			code, _ = strconv.ParseUint(string(text[2:6]), 16, 16) // what is none is found when the text is read
		}
		if low := 0xdc00 <= code && code <= 0xdfff; low != high {
			return false
		}
		high = 0xd800 <= code && code <= 0xdbff
		text = text[min(n, len(text)):]
	}
}

// nesting returns how deeply the brackets of a JSON text are nested.
func nesting(text []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// Read reads a field into v, which is a pointer, and reports whether the field was there and could be read.
func (f *Fields) Read(name string, v any) bool {
	raw, ok := f.raw[name]
	if !ok {
		return false
	}
	delete(f.raw, name)
	if err := json.Unmarshal(raw, v); err != nil {
		f.Fail(Invalid("the field %s cannot be read: %s", name, reasonOf(err)))
		return false
	}
	if reflect.TypeOf(v).Elem().Kind() == reflect.Slice && hasNull(raw) {
		f.Fail(Invalid("the field %s has an element that is null", name))
		return false
	}
	return true
}

// hasNull reports whether an element of a list is null, which encoding/json takes for 0 or an empty text.
func hasNull(list json.RawMessage) bool {
	var elements []*json.RawMessage
	return bytes.Contains(list, []byte("null")) && json.Unmarshal(list, &elements) == nil && slices.Contains(elements, nil)
}

// Unused takes fields of a type that change nothing here.
func Unused[T any](f *Fields, names ...string) {
	for _, n := range names {
		var v T
		f.Read(n, &v)
	}
}

// reasonOf returns an error of encoding/json without its prefix and Go's names.
func reasonOf(err error) string {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		return "a " + t.Value + " is not what it takes"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// Peek returns a field as it is, nil where it is absent, and leaves it to be read.
func (f *Fields) Peek(name string) json.RawMessage { return f.raw[name] }

// Raw returns a field as it is, nil where it is absent.
func (f *Fields) Raw(name string) json.RawMessage {
	raw := f.raw[name]
	delete(f.raw, name)
	return raw
}

// Ignore takes fields that change nothing here, whatever they are.
func (f *Fields) Ignore(names ...string) {
	for _, n := range names {
		delete(f.raw, n)
	}
}

// Only takes a field that has only one meaning here, such as false. Any other value is refused by the field's name.
func (f *Fields) Only(name string, values ...string) {
	raw, ok := f.raw[name]
	if !ok {
		return
	}
	delete(f.raw, name)
	var compact bytes.Buffer
	if json.Compact(&compact, raw); !slices.Contains(values, compact.String()) {
		f.Fail(Invalid("the field %s is supported only as %s", name, strings.Join(values, " or ")))
	}
}

// Drop leaves out the fields that nobody read, and returns their names.
func (f *Fields) Drop() []string {
	names := slices.Sorted(maps.Keys(f.raw))
	f.raw = nil
	return names
}

// Fail keeps an error for Close, unless there is one.
func (f *Fields) Fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// Err returns the first error of reading so far.
func (f *Fields) Err() error { return f.err }

// Close returns the first error of reading, or one that names a field that nobody read.
func (f *Fields) Close() error {
	if f.err == nil && len(f.raw) > 0 {
		f.err = Invalid("the field %.100s is not supported", slices.Min(slices.Collect(maps.Keys(f.raw))))
	}
	return f.err
}
