package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Integers returns all elements of a tensor of whole numbers of 64 or 32 bits.
func (t *Tensor) Integers() ([]int64, error) {
	if t.DType != "I64" && t.DType != "I32" {
		return nil, fmt.Errorf("%s: offset %d: tensor %q has dtype %s; whole numbers are I64 or I32", t.Path(), t.Offset, t.Name, t.DType)
	}
	b := make([]byte, t.Bytes)
	if err := t.ReadAt(b, 0); err != nil {
		return nil, err
	}
	bytes := elements()[t.DType].bytes
	out := make([]int64, len(b)/bytes)
	for i := range out {
		if v := b[i*bytes:]; bytes == 8 {
			out[i] = int64(binary.LittleEndian.Uint64(v))
		} else {
			out[i] = int64(int32(binary.LittleEndian.Uint32(v)))
		}
	}
	return out, nil
}

// Numbers returns all elements of a tensor of any dtype but 8-bit floats and unsigned integers of more than 8 bits.
func (t *Tensor) Numbers() ([]float64, error) {
	t = t.Floats()
	b := make([]byte, t.Bytes)
	if err := t.ReadAt(b, 0); err != nil {
		return nil, err
	}
	e := elements()[t.DType]
	out := make([]float64, len(b)/e.bytes)
	if e.weights {
		x := make([]float32, len(out))
		quant.Decode(e.typ, x, b)
		for i, v := range x {
			out[i] = float64(v)
		}
		return out, nil
	}
	for i := range out {
		v := b[i*e.bytes:]
		switch t.DType {
		case "F64":
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(v))
		case "I64":
			out[i] = float64(int64(binary.LittleEndian.Uint64(v)))
		case "I32":
			out[i] = float64(int32(binary.LittleEndian.Uint32(v)))
		case "I16":
			out[i] = float64(int16(binary.LittleEndian.Uint16(v)))
		case "I8":
			out[i] = float64(int8(v[0]))
		case "U8", "BOOL":
			out[i] = float64(v[0])
		default:
			return nil, fmt.Errorf("%s: numbers of dtype %s are not read", t.Path(), t.DType)
		}
	}
	return out, nil
}

// numbersAt returns n elements from first on of a tensor that holds weights.
func (t *Tensor) numbersAt(first, n int) ([]float32, error) {
	typ, _ := t.Type()
	raw, out := make([]byte, typ.RowBytes(n)), make([]float32, n)
	if err := t.ReadAt(raw, int64(typ.RowBytes(first))); err != nil {
		return nil, err
	}
	quant.Decode(typ, out, raw)
	return out, nil
}
