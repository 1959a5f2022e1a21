package convert

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// tensor is one tensor of the output. Its elements are the folder's (stack), a GGUF file's (mapped), or computed (values).
type tensor struct {
	name   string
	shape  []int // row length first
	stated []int // shape in the file, if it differs, with as many elements; nil: shape
	as     storage

	stack   stack
	row     func(int) int // the stack's row for a row of the output; nil is the identity
	single  bool          // row maps elements, not rows
	columns *stride       // nil: rows are the stack's rows
	mapped  *gguf.Tensor
	values  []float32

	changes []change // applied to the elements in this order
	// importance holds one for each element of a row, matrix after matrix; nil: none are known.
	importance []float32
}

// storage says which element types a tensor may have.
type storage int

const (
	asAsked  storage = iota // the output's type, or its type for such tensors
	asFloats                // F32: vectors, learned positions
	asHalves                // F16
	asWhole                 // I32: the elements are whole numbers
	asTokens                // I64
)

// stride says which columns of the stack's only tensor become rows: first, first+step and so on. That tensor has as many
// matrices as the output.
type stride struct {
	first, step int
}

// stack is a sequence of the folder's tensors: their rows, one tensor after the other.
type stack []section

// section is one tensor of a stack.
type section struct {
	*checkpoint.Tensor
	small *smallFloats // scales of the tensor's NVFP4 codes; nil: it holds elements
	end   int          // elements of the stack up to the section's end
}

// and returns s followed by next.
func (s stack) and(next ...section) stack {
	for _, p := range next {
		n := product(p.Shape)
		if p.small != nil {
			n *= 2 // a byte holds two codes
		}
		p.end = s.elements() + n
		s = append(s, p)
	}
	return s
}

func (s stack) elements() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].end
}

// at returns the section that holds row r of rowLen elements, that section's first row, and the first row after it. p is
// nil for rows after the last section.
func (s stack) at(r, rowLen int) (p *section, begin, end int) {
	i, _ := slices.BinarySearchFunc(s, r*rowLen+1, func(p section, at int) int { return p.end - at })
	if i > 0 {
		begin = s[i-1].end / rowLen
	}
	if i == len(s) {
		return nil, begin, r + 1
	}
	return &s[i], begin, s[i].end / rowLen
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// matrixRows returns the rows of each matrix of a tensor, which may have one matrix for each expert.
func matrixRows(shape []int) int {
	if len(shape) < 2 {
		return 1
	}
	return shape[1]
}

// intact reports whether t's rows are whole, unchanged rows of its stack.
func (t *tensor) intact() bool {
	padded := t.row == nil && product(t.shape) > t.stack.elements()
	return t.columns == nil && !t.single && !padded && len(t.changes) == 0
}

// blocks reports whether the folder has t's elements in blocks of a GGUF type. See plan.unblock.
func (t *tensor) blocks() bool { return len(t.stack) > 0 && t.stack[0].Blocks() }

// codes reports whether the folder has elements of t as codes of NVFP4.
func (t *tensor) codes() bool {
	return slices.ContainsFunc(t.stack, func(p section) bool { return p.small != nil })
}

func (t *tensor) change(c change) { t.changes = append(t.changes, c) }
