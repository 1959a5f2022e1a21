package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Matrices of floats of eight bits lie beside scales: W.weight and W.weight_scale_inv as DeepSeek V3 has them, W.scale
// as DeepSeek V4, one scale for each block of rows and columns, or W.weight_scale, one for each row, for each matrix or
// for all, as llm-compressor and ModelOpt have them. Scales multiply. Whole numbers of eight bits have the same form.

// beside8 are the endings of tensors next to such matrices for activations and caches, which are not needed here.
var beside8 = []string{".input_scale", ".activation_scale", "_activation_scale", ".k_scale", ".v_scale"}

// unpackEights has matrices of floats or whole numbers of eight bits read as F32.
func (c *Checkpoint) unpackEights(p Packing) error {
	block := p.Block
	if len(block) != 0 && (len(block) != 2 || block[0] < 1 || block[1] < 1) {
		return fmt.Errorf("%s: blocks of weights of %v are not supported; of rows and columns are", c.Path, block)
	}
	scales := map[string]bool{}
	for name, t := range c.Tensors {
		if t.DType != "F8_E4M3" && t.DType != "F8_E5M2" && t.DType != "I8" {
			continue
		}
		for _, of := range []string{name + "_scale_inv", name + "_scale", strings.TrimSuffix(name, "weight") + "scale"} {
			s := c.Tensors[of]
			if s == nil || of == name {
				continue
			}
			parts := 1
			if p.Parted != "" && strings.HasSuffix(name, p.Parted) {
				parts = p.Parts
			}
			r, err := newEights(t, s, block, parts)
			if err != nil {
				return err
			}
			c.Tensors[name] = &Tensor{Name: name, DType: "F32", Shape: t.Shape, Bytes: 4 * t.Bytes, packed: true, file: &shard{path: t.Path(), r: r}}
			scales[s.Name] = true
			break
		}
	}
	for name := range c.Tensors {
		if scales[name] || len(scales) > 0 && slices.ContainsFunc(beside8, func(end string) bool { return strings.HasSuffix(name, end) }) {
			delete(c.Tensors, name)
		}
	}
	return nil
}

// eights reads a tensor of floats of eight bits as F32.
type eights struct {
	t          *Tensor
	values     *[256]float32
	scales     []float32
	rows, cols int // of one matrix; the tensor may stack several
	high, wide int // rows and columns that share a scale
	across     int // scales of as many rows
	each       int // of a matrix; 0: all matrices have the same
}

// newEights returns a reader of t with scales s. parts is the number of parts of t's rows that have separate scales.
func newEights(t, s *Tensor, block []int, parts int) (*eights, error) {
	if len(t.Shape) < 1 {
		return nil, fmt.Errorf("%s: offset %d: tensor %q of %s is no matrix", t.Path(), t.Offset, t.Name, t.DType)
	}
	e := &eights{t: t, values: decoded8(t.DType), rows: 1, cols: t.Shape[len(t.Shape)-1]}
	matrices := 1
	if n := len(t.Shape); n > 1 {
		e.rows = t.Shape[n-2]
		for _, d := range t.Shape[:n-2] {
			matrices *= d
		}
	}
	var err error
	if e.scales, err = scalesOf(s); err != nil {
		return nil, err
	}
	shape := s.Shape // without trailing dimensions of 1
	for len(shape) > 0 && shape[len(shape)-1] == 1 && len(shape) >= len(t.Shape) {
		shape = shape[:len(shape)-1]
	}
	ceil := func(n, by int) int { return (n + by - 1) / by }
	outer := t.Shape[:max(0, len(t.Shape)-2)]
	if len(block) == 2 && len(t.Shape) == 2 && parts > 1 && e.rows%parts == 0 && len(s.Shape) == 2 && s.Shape[0]%parts == 0 {
		e.rows /= parts
		apart := *s
		apart.Shape = []int{s.Shape[0] / parts, s.Shape[1]}
		s = &apart
	}
	blocks := len(block) == 2 && slices.Equal(s.Shape, append(slices.Clone(outer), ceil(e.rows, block[0]), ceil(e.cols, block[1])))
	switch {
	case blocks:
		e.high, e.wide = block[0], block[1]
		e.across = ceil(e.cols, e.wide)
		e.each = e.across * ceil(e.rows, e.high)
	case len(e.scales) == 1:
		e.high, e.wide = max(1, e.rows), max(1, e.cols)
	case slices.Equal(shape, t.Shape[:len(t.Shape)-1]): // of each row
		e.high, e.wide, e.across, e.each = 1, max(1, e.cols), 1, e.rows
	case len(outer) > 0 && slices.Equal(shape, outer) && len(e.scales) == matrices:
		e.high, e.wide, e.across, e.each = max(1, e.rows), max(1, e.cols), 1, 1
	default:
		return nil, fmt.Errorf("%s: offset %d: tensor %q has shape %v, which are no scales of %v in blocks of %v, of rows or of all", s.Path(), s.Offset, s.Name, s.Shape, t.Shape, block)
	}
	return e, nil
}

// scalesOf returns the numbers of scales, which may be powers of two of eight bits.
func scalesOf(s *Tensor) ([]float32, error) {
	if s.DType == "F8_E8M0" {
		raw := make([]byte, s.Bytes)
		if err := s.ReadAt(raw, 0); err != nil {
			return nil, err
		}
		out := make([]float32, len(raw))
		for i, b := range raw {
			out[i] = float32(math.Ldexp(1, int(b)-127))
		}
		return out, nil
	}
	if _, ok := s.Type(); !ok {
		return nil, fmt.Errorf("%s: offset %d: scales %q of dtype %s are not supported; F32, F16, BF16 and F8_E8M0 are", s.Path(), s.Offset, s.Name, s.DType)
	}
	numbers, err := s.Numbers()
	out := make([]float32, len(numbers))
	for i, v := range numbers {
		out[i] = float32(v)
	}
	return out, err
}

// decoded8 returns the values of all codes of eight bits of a dtype.
func decoded8(dtype string) *[256]float32 {
	mantissa, bias := 3, 7
	if dtype == "I8" {
		var out [256]float32
		for b := range out {
			out[b] = float32(int8(b))
		}
		return &out
	}
	if dtype == "F8_E5M2" {
		mantissa, bias = 2, 15
	}
	var out [256]float32
	for b := range out {
		exponent, rest := b&0x7f>>mantissa, b&(1<<mantissa-1)
		v := math.Ldexp(float64(rest), 1-bias-mantissa) // subnormal
		if exponent > 0 {
			v = math.Ldexp(float64(1<<mantissa|rest), exponent-bias-mantissa)
		}
		switch {
		case dtype == "F8_E4M3" && b&0x7f == 0x7f, dtype == "F8_E5M2" && exponent == 31 && rest != 0:
			v = math.NaN()
		case dtype == "F8_E5M2" && exponent == 31:
			v = math.Inf(1)
		}
		if b >= 0x80 {
			v = -v
		}
		out[b] = float32(v)
	}
	return &out
}

// ReadAt implements io.ReaderAt for whole elements of F32.
func (e *eights) ReadAt(b []byte, offset int64) (int, error) {
	if offset%4 != 0 || len(b)%4 != 0 {
		return 0, fmt.Errorf("%d bytes from %d on are not whole elements", len(b), offset)
	}
	n, first := len(b)/4, int(offset/4)
	raw := b[3*n:] // each element is read before four bytes are written over it
	if err := e.t.ReadAt(raw, int64(first)); err != nil {
		return 0, err
	}
	for i := 0; i < n; {
		at := first + i
		row, col := at/e.cols, at%e.cols
		scale := e.scales[row/e.rows*e.each+row%e.rows/e.high*e.across+col/e.wide]
		for end := min(n, i+e.cols-col, i+e.wide-col%e.wide); i < end; i++ {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(scale*e.values[raw[i]]))
		}
	}
	return len(b), nil
}
