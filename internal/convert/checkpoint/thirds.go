package checkpoint

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Matrices of −1, 0 and 1 as transformers packs BitNet's are W.weight, bytes of four rows each, and W.weight_scale, one
// number. With n rows of bytes the lowest two bits of row r are element r plus 1, the next those of row r+n, and so on.

// unpackThirds has such matrices read as F32; divides says that scales divide.
func (c *Checkpoint) unpackThirds(divides bool) error {
	for _, name := range slices.Sorted(maps.Keys(c.Tensors)) {
		t, s := c.Tensors[name], c.Tensors[name+"_scale"]
		if t == nil || s == nil || t.DType != "U8" || len(t.Shape) != 2 || !strings.HasSuffix(name, ".weight") {
			continue
		}
		scale, err := scalesOf(s)
		if err != nil {
			return err
		}
		if len(scale) != 1 || !(scale[0] > 0) {
			return misfit(t, s)
		}
		r := &thirds{t: t, scale: scale[0]}
		if divides {
			r.scale = 1 / r.scale
		}
		c.replace(&Tensor{Name: name, DType: "F32", Shape: []int{4 * t.Shape[0], t.Shape[1]}, Bytes: 16 * t.Bytes, packed: true, file: &shard{path: t.Path(), r: r}}, t, s)
	}
	return nil
}

// thirds reads a matrix of three values as F32.
type thirds struct {
	t     *Tensor
	scale float32
}

// ReadAt implements io.ReaderAt for whole elements of F32.
func (t *thirds) ReadAt(b []byte, offset int64) (int, error) {
	if offset%4 != 0 || len(b)%4 != 0 {
		return 0, fmt.Errorf("%d bytes from %d on are not whole elements", len(b), offset)
	}
	size := int(t.t.Bytes) // elements of a fourth of the rows
	n, first := len(b)/4, int(offset/4)
	for i := 0; i < n; {
		fourth, at := (first+i)/size, (first+i)%size
		raw := make([]byte, min(n-i, size-at))
		if err := t.t.ReadAt(raw, int64(at)); err != nil {
			return 0, err
		}
		for _, v := range raw {
			code := v >> (2 * fourth) & 3
			if code == 3 {
				return 0, fmt.Errorf("%s: offset %d: tensor %q holds a code of no number; the model is damaged", t.t.Path(), t.t.Offset, t.t.Name)
			}
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(t.scale*(float32(code)-1)))
			i++
		}
	}
	return len(b), nil
}
