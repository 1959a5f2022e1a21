package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Matrices in MXFP4 are codes, two to a byte, the first in the lower half, and an exponent for each 32 elements of a
// row (OCP Microscaling Formats 1.0). Folders name codes and exponents
//
//	W_blocks, W_scales              gpt-oss; codes have the dimensions blocks and 16 in place of the columns
//	W.weight_packed, .weight_scale  llm-compressor, such as Kimi K3
//	W.weight, W.scale               DeepSeek V4's experts
//	W.weight, W.weight_scale        MiMo V2.5's experts
//
// GGUF's MXFP4 has the same codes and exponents in another order. Its Q4_0 is likewise the form of whole numbers of
// four bits that are symmetric about zero.

// blockElems is the number of elements of a block of MXFP4 and of Q4_0, and blockCodes that of the bytes of their codes.
const (
	blockElems = 32
	blockCodes = blockElems / 2
)

// noExponent is an exponent that stands for no number.
const noExponent = 0xff

// unpackBlocks has matrices in MXFP4 read as blocks of that type.
func (c *Checkpoint) unpackBlocks(p Packing) error {
	for _, name := range slices.Sorted(maps.Keys(c.Tensors)) {
		codes := c.Tensors[name]
		if codes == nil { // it was a part of another
			continue
		}
		if codes.DType != "U8" && codes.DType != "I8" {
			continue
		}
		matrix, scales := name, []string{name + "_scale", strings.TrimSuffix(name, "weight") + "scale"}
		shape, sure := codes.Shape, false // whether the names prove that these are MXFP4
		if base, ok := strings.CutSuffix(name, "_blocks"); ok {
			n := len(shape) - 2
			if n < 1 || shape[n+1] != blockCodes {
				continue
			}
			matrix, scales, sure = base, []string{base + "_scales"}, true
			shape = widened(shape[:n+1], shape[n]*blockCodes)
		} else if base, of := ofPacked(name); base != "" {
			matrix, scales = base, []string{of}
		}
		for _, of := range scales {
			s := c.Tensors[of]
			if s == nil || of == name || s.DType != "U8" && s.DType != "F8_E8M0" {
				continue
			}
			if n := len(shape); n < 1 || len(s.Shape) != n || !slices.Equal(widened(s.Shape, s.Shape[n-1]*blockCodes), shape) {
				if sure || p.Eights || matrix != name {
					return misfit(codes, s)
				}
				continue
			}
			b := &blocks{codes: codes, scales: s, typ: quant.MXFP4, each: 1}
			c.replace(b.tensor(matrix, widened(shape, 2*shape[len(shape)-1])), codes, s)
			break
		}
	}
	return nil
}

// blocks reads a matrix of codes of four bits as blocks of a GGUF type: the factor, then the codes. A byte holds element
// i and, above it, element i+16; in the source it holds element 2i and, above it, 2i+1.
type blocks struct {
	codes, scales *Tensor
	typ           quant.Type
	each          int // blocks of a row that share a scale
	across        int // blocks of a row; needed where each is not 1
}

// tensor returns the matrix of that shape.
func (b *blocks) tensor(name string, shape []int) *Tensor {
	size := int64(leading(shape)) * int64(b.typ.RowBytes(shape[len(shape)-1]))
	return &Tensor{Name: name, DType: b.typ.String(), Shape: shape, Bytes: size, packed: true, blocks: true, typ: b.typ, file: &shard{path: b.codes.Path(), r: b}}
}

// ReadAt implements io.ReaderAt for whole blocks.
func (b *blocks) ReadAt(out []byte, offset int64) (int, error) {
	size := b.typ.BlockBytes()
	if offset%int64(size) != 0 || len(out)%size != 0 {
		return 0, fmt.Errorf("%d bytes from %d on are not whole blocks", len(out), offset)
	}
	n, first := len(out)/size, int(offset/int64(size))
	if n == 0 {
		return 0, nil
	}
	codes := make([]byte, n*blockCodes)
	if err := b.codes.ReadAt(codes, int64(first)*blockCodes); err != nil {
		return 0, err
	}
	put := b.exponents
	if b.typ == quant.Q4_0 {
		put = b.halves
	}
	if err := put(out, first, n); err != nil {
		return 0, err
	}
	for i := range n {
		block, in := out[i*size:][size-blockCodes:size], codes[i*blockCodes:][:blockCodes]
		for j := range block {
			shift := j % 2 * 4
			block[j] = in[j/2]>>shift&15 | in[j/2+blockCodes/2]>>shift&15<<4
		}
	}
	return len(out), nil
}

// exponents writes the exponents of n blocks of MXFP4, from first on, to the blocks' places in out.
func (b *blocks) exponents(out []byte, first, n int) error {
	raw := make([]byte, n)
	if err := b.scales.ReadAt(raw, int64(first)); err != nil {
		return err
	}
	for i, e := range raw {
		if e == noExponent {
			return fmt.Errorf("%s: offset %d: tensor %q holds NaN; the model is damaged", b.scales.Path(), b.scales.Offset, b.scales.Name)
		}
		out[i*b.typ.BlockBytes()] = e
	}
	return nil
}

// halves does the same with the scales of blocks of Q4_0, which it rounds to F16: those below 2⁻¹⁴ lose bits that
// weights do not miss.
func (b *blocks) halves(out []byte, first, n int) error {
	of := func(block int) int { return block/b.across*(b.across/b.each) + block%b.across/b.each }
	scales, err := b.scales.numbersAt(of(first), of(first+n-1)+1-of(first))
	if err != nil {
		return err
	}
	for i := range n {
		s := scales[of(first+i)-of(first)]
		if !(math.Abs(float64(s)) <= 65504) {
			return fmt.Errorf("%s: offset %d: tensor %q has the scale %g, beyond F16; the model is damaged", b.scales.Path(), b.scales.Offset, b.scales.Name, s)
		}
		binary.LittleEndian.PutUint16(out[i*b.typ.BlockBytes():], quant.F16FromF32(s))
	}
	return nil
}

// Blocks reports whether t is in blocks of a GGUF type. Type returns it.
func (t *Tensor) Blocks() bool { return t.blocks }

// Floats returns t, or a view of it as F32 if it is in blocks.
func (t *Tensor) Floats() *Tensor {
	if !t.blocks {
		return t
	}
	elems := int64(t.typ.BlockElems())
	return &Tensor{Name: t.Name, DType: "F32", Shape: t.Shape, Bytes: t.Bytes / int64(t.typ.BlockBytes()) * elems * 4, packed: true, file: &shard{path: t.Path(), r: &unblocked{t}}}
}

// unblocked reads a tensor of blocks as F32.
type unblocked struct{ t *Tensor }

// ReadAt implements io.ReaderAt for whole elements of F32.
func (u *unblocked) ReadAt(out []byte, offset int64) (int, error) {
	if offset%4 != 0 || len(out)%4 != 0 {
		return 0, fmt.Errorf("%d bytes from %d on are not whole elements", len(out), offset)
	}
	elems, size := int64(u.t.typ.BlockElems()), int64(u.t.typ.BlockBytes())
	first, last := offset/4/elems, (offset+int64(len(out)))/4
	count := (last+elems-1)/elems - first
	raw, x := make([]byte, count*size), make([]float32, count*elems)
	if err := u.t.ReadAt(raw, first*size); err != nil {
		return 0, err
	}
	quant.Decode(u.t.typ, x, raw)
	for i := range len(out) / 4 {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(x[offset/4-first*elems+int64(i)]))
	}
	return len(out), nil
}

var _ io.ReaderAt = (*unblocked)(nil)
