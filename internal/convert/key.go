package convert

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// ParseKey reads KEY=TYPE:VALUE as llama-quantize does: whole numbers are written as uint32, others as float32.
func ParseKey(s string) (gguf.KV, error) {
	key, rest, ok1 := strings.Cut(s, "=")
	typ, value, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || key == "" {
		return gguf.KV{}, fmt.Errorf("%q is not KEY=TYPE:VALUE with a type of int, float, bool or str", s)
	}
	var v any
	var err error
	switch typ {
	case "int":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 32)
		v = uint32(n)
	case "float":
		var x float64
		x, err = strconv.ParseFloat(value, 32)
		v = float32(x)
	case "bool":
		v, err = strconv.ParseBool(value)
	case "str":
		v = value
	default:
		return gguf.KV{}, fmt.Errorf("%q: type %q is not one of int, float, bool, str", s, typ)
	}
	if err != nil {
		return gguf.KV{}, fmt.Errorf("%q: %q is no %s that a key can have", s, value, typ)
	}
	return gguf.KV{Key: key, Value: v}, nil
}
