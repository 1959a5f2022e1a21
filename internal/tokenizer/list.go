package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// list is a JSON array that is read value by value, up to a limit: in memory a value may take hundreds of times its
// bytes in the file.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	*l = nil
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("%.20q is no array", b)
	}
	most := mostObjects
	var v T
	if _, ok := any(v).(Component); ok {
		most = maxRules
	}
	for d.More() {
		if len(*l) == most {
			return fmt.Errorf("an array has more than %d values", most)
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		if c, ok := any(v).(Component); ok && c.Type == "" {
			return errors.New("a part has no type")
		}
		*l = append(*l, v)
	}
	return nil
}

// mostNested bounds the nesting of a definition's JSON, because each list is read once more for every list around it.
// mostObjects bounds its objects: added tokens and parts.
const (
	mostNested  = 64
	mostObjects = 1 << 19
)

// CheckShape refuses JSON that is nested too deeply, or has too many objects, for a tokenizer's definition.
func CheckShape[T string | []byte](text T) error {
	depth, objects, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if c == '{' {
				objects++
			}
			if objects > mostObjects {
				return fmt.Errorf("its JSON has more than %d objects", mostObjects)
			}
			if depth++; depth > mostNested {
				return fmt.Errorf("its JSON is nested deeper than %d levels", mostNested)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}
