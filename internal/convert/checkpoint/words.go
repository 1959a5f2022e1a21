package checkpoint

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Matrices of whole numbers of a few bits, as llm-compressor packs them (compressed-tensors, pack-quantized), are
//
//	W.weight_packed      words of 32 bits, the first number in the lowest bits; rows are filled up to whole words
//	W.weight_scale       a number for each group of a row
//	W.weight_shape       rows and columns
//	W.weight_zero_point  what stands for zero in each group, packed along the rows; without it half of all codes
//	W.weight_g_idx       the group of each column; without it as many neighbours each
//
// A number is (code − zero)·scale.

// unpackWords makes such matrices readable as blocks of Q4_0 if these have the same codes, else as F32.
func (c *Checkpoint) unpackWords(p Packing) error {
	if !slices.Contains([]int{2, 4, 8}, p.Bits) || p.Group < 0 {
		return fmt.Errorf("%s: whole numbers of %d bits in groups of %d are not supported; of 2, 4 and 8 bits are", c.Path, p.Bits, p.Group)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tensors)) {
		packed := c.Tensors[name]
		if packed == nil { // it was a part of another
			continue
		}
		matrix, of := ofPacked(name)
		if matrix == "" || packed.DType != "I32" || len(packed.Shape) != 2 {
			continue
		}
		w, err := c.newWords(p, packed, matrix, of)
		if err != nil {
			return err
		}
		used := []*Tensor{packed, c.Tensors[of], c.Tensors[matrix+"_shape"]}
		for _, end := range []string{"_zero_point", "_g_idx"} {
			if t := c.Tensors[matrix+end]; t != nil {
				used = append(used, t)
			}
		}
		c.replace(w.tensor(matrix), used...)
	}
	return nil
}

// words reads a matrix of whole numbers in words of 32 bits as F32.
type words struct {
	packed     *Tensor
	rows, cols int
	bits       int
	group      int     // columns that share a scale
	groups     int     // of a row
	scales     *Tensor // [rows, groups]
	zeros      *Tensor // zeros, in words along the rows; nil: half of all codes
	of         []int   // the group of each column; nil: as many neighbours each
}

func (c *Checkpoint) newWords(p Packing, packed *Tensor, matrix, of string) (*words, error) {
	scales, shape := c.Tensors[of], c.Tensors[matrix+"_shape"]
	if scales == nil || shape == nil {
		return nil, fmt.Errorf("%s: tensor %q has no %s or no %s_shape beside it: the folder is incomplete, download it again", packed.Path(), packed.Name, of, matrix)
	}
	size, err := shape.Numbers()
	if err != nil {
		return nil, err
	}
	w := &words{packed: packed, rows: packed.Shape[0], bits: p.Bits, scales: scales, zeros: c.Tensors[matrix+"_zero_point"]}
	if len(size) == 2 && size[1] >= 1 && size[1] < 1<<30 {
		w.cols = int(size[1])
	}
	if len(size) != 2 || size[0] != float64(w.rows) || w.cols == 0 || packed.Shape[1] != (w.cols*p.Bits+31)/32 {
		return nil, fmt.Errorf("%s: offset %d: tensor %q says %v, and %q has shape %v; the folder is damaged", shape.Path(), shape.Offset, shape.Name, size, packed.Name, packed.Shape)
	}
	w.group = w.cols
	if p.Group > 0 {
		w.group = p.Group
	}
	w.groups = (w.cols + w.group - 1) / w.group
	if _, ok := scales.Type(); !ok || !slices.Equal(scales.Shape, []int{w.rows, w.groups}) {
		return nil, misfit(packed, scales)
	}
	if z := w.zeros; z != nil && (z.DType != "I32" || !slices.Equal(z.Shape, []int{(w.rows*w.bits + 31) / 32, w.groups})) {
		return nil, misfit(packed, z)
	}
	if g := c.Tensors[matrix+"_g_idx"]; g != nil {
		return w, w.readGroups(g)
	}
	return w, nil
}

// zerosOf returns what stands for zero in each group of a row; a word holds those of several rows.
func (w *words) zerosOf(row int) ([]int, error) {
	out := slices.Repeat([]int{1 << (w.bits - 1)}, w.groups)
	if w.zeros == nil {
		return out, nil
	}
	raw, per := make([]byte, 4*w.groups), 32/w.bits
	if err := w.zeros.ReadAt(raw, int64(row/per)*int64(len(raw))); err != nil {
		return nil, err
	}
	for g := range out {
		out[g] = int(binary.LittleEndian.Uint32(raw[4*g:])>>(row%per*w.bits)) & (1<<w.bits - 1)
	}
	return out, nil
}

// readGroups reads the group of each column.
func (w *words) readGroups(t *Tensor) error {
	of, err := t.Numbers()
	if err != nil {
		return err
	}
	if len(of) != w.cols {
		return misfit(w.packed, t)
	}
	if !slices.ContainsFunc(of, func(g float64) bool { return g != -1 }) { // none is set
		return nil
	}
	for _, g := range of {
		if !(g >= 0 && g < float64(w.groups)) {
			return fmt.Errorf("%s: offset %d: tensor %q has the group %g, and rows have %d; the folder is damaged", t.Path(), t.Offset, t.Name, g, w.groups)
		}
		w.of = append(w.of, int(g))
	}
	return nil
}

// tensor returns the matrix.
func (w *words) tensor(name string) *Tensor {
	shape := []int{w.rows, w.cols}
	if w.bits == 4 && w.zeros == nil && w.of == nil && w.cols%blockElems == 0 && w.group%blockElems == 0 && w.cols%w.group == 0 {
		b := &blocks{codes: w.packed, scales: w.scales, typ: quant.Q4_0, each: w.group / blockElems, across: w.cols / blockElems}
		return b.tensor(name, shape)
	}
	return &Tensor{Name: name, DType: "F32", Shape: shape, Bytes: 4 * int64(w.rows) * int64(w.cols), packed: true, file: &shard{path: w.packed.Path(), r: w}}
}

// ReadAt implements io.ReaderAt for whole elements of F32.
func (w *words) ReadAt(out []byte, offset int64) (int, error) {
	if offset%4 != 0 || len(out)%4 != 0 {
		return 0, fmt.Errorf("%d bytes from %d on are not whole elements", len(out), offset)
	}
	n, first, per := len(out)/4, int(offset/4), 8/w.bits // codes of a byte
	stride := 4 * w.packed.Shape[1]
	var raw []byte
	for i := 0; i < n; {
		row, col := (first+i)/w.cols, (first+i)%w.cols
		m := min(n-i, w.cols-col)
		from, to := col/per, (col+m+per-1)/per
		raw = slices.Grow(raw[:0], to-from)[:to-from]
		if err := w.packed.ReadAt(raw, int64(row)*int64(stride)+int64(from)); err != nil {
			return 0, err
		}
		scales, err := w.scales.numbersAt(row*w.groups, w.groups)
		if err != nil {
			return 0, err
		}
		zeros, err := w.zerosOf(row)
		if err != nil {
			return 0, err
		}
		for j := col; j < col+m; j++ {
			g := j / w.group
			if w.of != nil {
				g = w.of[j]
			}
			code := int(raw[j/per-from]>>(j%per*w.bits)) & (1<<w.bits - 1)
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(scales[g]*float32(code-zeros[g])))
			i++
		}
	}
	return len(out), nil
}
