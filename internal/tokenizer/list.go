package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// list is a JSON array that is read value by value, up to mostObjects: in memory each takes hundreds of times as many
// bytes as null does in a file.
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
			return fmt.Errorf("a part has no type")
		}
		*l = append(*l, v)
	}
	return nil
}

// mostNested bounds the depth of a definition's JSON, which is read anew for each list in a list, and mostObjects its
// added tokens and parts together.
const (
	mostNested  = 64
	mostObjects = 1 << 19
)

// CheckShape refuses JSON that is nested deeper or has more objects than a tokenizer's definition.
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
