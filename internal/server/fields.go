package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
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
	if !utf8.Valid(body) {
		return nil, Invalid("the body is not valid UTF-8")
	}
	if nesting(body) > maxNesting {
		return nil, Invalid("the body's values are nested more than %d deep", maxNesting)
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
	if utf8.Valid(body) && nesting(body) <= maxNesting && json.Unmarshal(body, &list) == nil {
		return &Fields{raw: map[string]json.RawMessage{name: body}}, nil
	}
	return nil, Invalid("the body is not a JSON array of at most %d levels", maxNesting)
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
	return true
}

// reasonOf returns an error of encoding/json without its prefix and Go's names.
func reasonOf(err error) string {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		return "a " + t.Value + " is not what it takes"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// Raw returns a field as it is, nil where it is absent.
func (f *Fields) Raw(name string) json.RawMessage {
	raw := f.raw[name]
	delete(f.raw, name)
	return raw
}

// Ignore takes fields that change nothing here.
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
