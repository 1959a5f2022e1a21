package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Packing holds a configuration's settings of packed matrices. The tensors show which matrices are packed.
type Packing struct {
	Eights bool  // there are floats or whole numbers of eight bits
	Block  []int // rows and columns of a block of eights that share a scale; nil: not in the configuration
	Bits   int   // of whole numbers that are packed into words of 32 bits; 0: there are none
	Group  int   // elements of a row of these that share a scale; 0: all

	// Matrices with names of this ending consist of several parts of rows with separate blocks; empty: none.
	Parted string
	Parts  int

	Thirds  bool // there are matrices of −1, 0 and 1
	Divides bool // scales of these divide
}

// Unpack makes packed matrices readable: those that GGUF has, too, in blocks of its type, all others as F32. It leaves
// out their scales.
func (c *Checkpoint) Unpack(p Packing) error {
	if err := c.unpackBlocks(p); err != nil {
		return err
	}
	if p.Bits > 0 {
		if err := c.unpackWords(p); err != nil {
			return err
		}
	}
	if p.Thirds {
		if err := c.unpackThirds(p.Divides); err != nil {
			return err
		}
	}
	if p.Eights {
		return c.unpackEights(p)
	}
	return nil
}

// replace replaces the tensors that t is made of by t.
func (c *Checkpoint) replace(t *Tensor, from ...*Tensor) {
	for _, f := range from {
		delete(c.Tensors, f.Name)
	}
	c.Tensors[t.Name] = t
}

// leading returns the product of all dimensions but the last.
func leading(shape []int) int {
	n := 1
	for _, d := range shape[:max(0, len(shape)-1)] {
		n *= d
	}
	return n
}

// widened returns shape with another last dimension.
func widened(shape []int, last int) []int {
	return append(slices.Clone(shape[:len(shape)-1]), last)
}

// misfit returns the error of scales that are not of codes.
func misfit(codes, scales *Tensor) error {
	return fmt.Errorf("%s: offset %d: tensor %q is %s of shape %v, which are no scales of %q, %s of shape %v; the folder is damaged, or packed in a form that is not supported",
		scales.Path(), scales.Offset, scales.Name, scales.DType, scales.Shape, codes.Name, codes.DType, codes.Shape)
}

// ofPacked returns the name that the matrix of packed codes has, and that of its scales, by the name of the codes;
// matrix is empty where the name is not of packed codes.
func ofPacked(name string) (matrix, scales string) {
	if base, ok := strings.CutSuffix(name, "_packed"); ok {
		return base, base + "_scale"
	}
	return "", ""
}
