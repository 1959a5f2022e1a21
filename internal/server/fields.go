package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxNesting bounds how deeply a body's values may be nested.
const maxNesting = 256

// Fields are the fields of a request's body that were not read yet. The first error of reading one is kept until Close.
type Fields struct {
	raw     map[string]json.RawMessage
	err     error
	unknown func(name string) // told what nobody read; nil: nobody is

	ctx    context.Context // the request's, or nil
	client string          // see clientOf
	media  *attached       // what the request sends apart from text; nil: nothing is fetched for it
}

// Within returns the fields of an object within the body.
func (f *Fields) Within(object json.RawMessage) (*Fields, error) {
	inner, err := parseFields(object)
	if err == nil {
		inner.unknown, inner.ctx, inner.client, inner.media = f.unknown, f.ctx, f.client, f.media
	}
	return inner, err
}

// of notes the request that the fields belong to.
func (f *Fields) of(r *http.Request) {
	f.ctx, f.client = r.Context(), clientOf(r.RemoteAddr)
}

// context returns the context of the request that the fields belong to.
func (f *Fields) context() context.Context {
	if f.ctx == nil {
		return context.Background()
	}
	return f.ctx
}

// Bounds of the fields that the log names.
const (
	maxUnknown     = 256 // names in all
	maxUnknownName = 100 // bytes of one
)

// unknownFields names in the log, once, the fields of requests that nobody reads.
type unknownFields struct {
	mu   sync.Mutex
	told map[string]bool
}

// tell logs a field that was ignored on a route, unless it was told or too many were.
func (u *unknownFields) tell(log *slog.Logger, route, name string) {
	if len(name) > maxUnknownName {
		name = strings.ToValidUTF8(name[:maxUnknownName], "") + "…"
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told[name] || len(u.told) >= maxUnknown {
		return
	}
	if u.told == nil {
		u.told = map[string]bool{}
	}
	u.told[name] = true
	log.Warn("a field of a request is not known here, and is ignored", "field", name, "path", route)
}

// parseFields reads an object. Fields that are null count as absent.
func parseFields(body []byte) (*Fields, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	f := &Fields{}
	err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &f.raw) // PowerShell's files begin with a byte order mark
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
	case deepest(body) > maxNesting:
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
			code, _ = strconv.ParseUint(string(text[2:6]), 16, 16) // reading the text finds errors
		}
		if low := 0xdc00 <= code && code <= 0xdfff; low != high {
			return false
		}
		high = 0xd800 <= code && code <= 0xdbff
		text = text[min(n, len(text)):]
	}
}

// deepest returns how deeply the brackets of a JSON text are nested.
func deepest(text []byte) int {
	n, _, _ := shape(text)
	return n
}

// shape returns how deeply the brackets of a JSON text are nested, and about how many values and how many objects and
// lists it has.
func shape(text []byte) (deepest, values, objects int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',' || c == ':':
			values++
		case c == '{' || c == '[':
			depth++
			objects++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest, values, objects
}

// Read reads a field into v, which is a pointer, and reports whether the field was there and could be read.
func (f *Fields) Read(name string, v any) bool {
	raw, ok := f.raw[name]
	if !ok {
		return false
	}
	delete(f.raw, name)
	if err := decode(raw, v); err != nil {
		f.Fail(Invalid("the field %s cannot be read: %s", name, reasonOf(err)))
		return false
	}
	if reflect.TypeOf(v).Elem().Kind() == reflect.Slice && hasNull(raw) {
		f.Fail(Invalid("the field %s has an element that is null", name))
		return false
	}
	return true
}

// decode reads JSON into v. Whole numbers may be written with a point or an exponent, as 3.0 and 3e0.
func decode(raw json.RawMessage, v any) error {
	target := reflect.ValueOf(v).Elem()
	again := reflect.New(target.Type())
	again.Elem().Set(target) // with what it is where the JSON says nothing
	err := json.Unmarshal(raw, v)
	if err == nil {
		return nil
	}
	whole := wholeNumbers(raw)
	if whole == nil || json.Unmarshal(whole, again.Interface()) != nil {
		return err
	}
	target.Set(again.Elem())
	return nil
}

// wholeNumbers returns a JSON text with its integers written in digits; nil if they already are.
func wholeNumbers(raw json.RawMessage) json.RawMessage {
	var out []byte
	from := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			i++
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(raw) && strings.IndexByte("0123456789+-.eE", raw[end]) >= 0 {
				end++
			}
			text := string(raw[i:end])
			x, err := strconv.ParseFloat(text, 64)
			if strings.ContainsAny(text, ".eE") && err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<63 {
				out = strconv.AppendFloat(append(out, raw[from:i]...), x, 'f', 0, 64)
				from = end
			}
			i = end
		default:
			i++
		}
	}
	if from == 0 {
		return nil
	}
	return append(out, raw[from:]...)
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
func reasonOf(err error) error {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		return fmt.Errorf("%s takes %s, not %s", cmp.Or(t.Field, "it"), taken(t.Type), given(t.Value))
	}
	return errors.New(strings.TrimPrefix(fmt.Sprint(err), "json: "))
}

// taken describes the JSON values that t is read from.
func taken(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

// given describes a value as json.UnmarshalTypeError names it: its kind, with a number's digits.
func given(value string) string {
	if digits, ok := strings.CutPrefix(value, "number "); ok {
		return digits
	}
	switch value {
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + value
}

// Peek returns a field, or nil if it is absent. The field still has to be read.
func (f *Fields) Peek(name string) json.RawMessage { return f.raw[name] }

// Raw returns a field, or nil if it is absent.
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
	if whole := wholeNumbers(raw); whole != nil {
		raw = whole
	}
	if json.Compact(&compact, raw); !slices.Contains(values, compact.String()) {
		f.Fail(Invalid("the field %s is supported only as %s", name, strings.Join(values, " or ")))
	}
}

// LeaveOut names a known but unsupported field in the log.
func (f *Fields) LeaveOut(name string) {
	if f.unknown != nil {
		f.unknown(name)
	}
}

// Fail keeps an error for Close, unless there is one.
func (f *Fields) Fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// Err returns the first error of reading so far.
func (f *Fields) Err() error { return f.err }

// Close returns the first error of reading. Fields that nobody read are ignored, and named in the log.
func (f *Fields) Close() error {
	if f.unknown != nil {
		for _, name := range slices.Sorted(maps.Keys(f.raw)) {
			f.unknown(name)
		}
	}
	f.raw = nil
	return f.err
}
