package compute

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Matrix is a weight [Rows, Cols] on a device: Rows outputs of Cols inputs each.
type Matrix struct {
	Name       string
	Type       quant.Type
	Rows, Cols int
	Mem        any // the device's own handle
}

// Vector is a one-dimensional float32 weight [Len]: a norm's scale, a bias, frequency factors.
type Vector struct {
	Name string
	Len  int
	Mem  any // the device's own handle
}

// Source is a weight as a file stores it: rows of Cols elements in GGUF layout. Data is only borrowed while the device
// loads it, unless Pinned: then it stays mapped as long as the device lives, and the device may compute on it in place.
type Source struct {
	Name       string
	Type       quant.Type
	Rows, Cols int
	Data       []byte
	Pinned     bool
	Passing    bool    // Data, which is Pinned, is in memory only while the weight's layer is computed
	Order      []int32 // neuron i of a matrix for Rows or Columns is the source's Order[i]; nil keeps the source's order
	Split      Split   // which neurons go to which tier, on a device of several; other devices ignore it, and vectors go to Tier whole
	Disk       *OnDisk // where the weight stays on disk, for devices that keep units; else nil. Data is not read then
	Stack      int     // number of expert matrices stored one after the other, each with its own neurons; Split then counts rows; 0: one matrix
}

// Stacked returns the number of matrices in s and the rows of each.
func (s *Source) Stacked() (n, rows int) {
	n = max(1, s.Stack)
	return n, s.Rows / n
}

// Check reports whether Data holds Rows rows of Cols elements of a type that devices compute with. The error names the
// tensor.
func (s *Source) Check() error {
	if !s.Type.Known() || s.Type.Whole() {
		return fmt.Errorf("tensor %q: %s cannot be computed with; these can: %s", s.Name, s.Type, quant.Supported())
	}
	if s.Stack < 0 || s.Stack > 0 && s.Rows%s.Stack != 0 {
		return fmt.Errorf("tensor %q: %d rows are not those of %d matrices", s.Name, s.Rows, s.Stack)
	}
	if s.Rows < 1 || s.Cols < 1 || s.Cols%s.Type.BlockElems() != 0 || len(s.Data)%s.Rows != 0 || len(s.Data)/s.Rows != s.Type.RowBytes(s.Cols) {
		return fmt.Errorf("tensor %q: %d bytes do not hold %d rows of %d elements of %s", s.Name, len(s.Data), s.Rows, s.Cols, s.Type)
	}
	if s.Disk != nil {
		return s.Disk.Check(s)
	}
	return nil
}

// CheckVector is Check for a weight of one row, whatever Rows says.
func (s *Source) CheckVector() error {
	one := *s
	one.Rows = 1
	return one.Check()
}

// Use says what a weight is for, so that the device can choose its layout.
type Use int

// The uses of a matrix.
const (
	Dense   Use = iota // every row is read for every token
	Precise            // as Dense, for attention, where perplexity is most sensitive: products with F16 weights lose less than rounding to F16 would
	Head               // as Precise, for the output matrix: prompts' rows have the arithmetic of single tokens
	Lookup             // single rows are looked up, and every row multiplied, as Head, if the head is tied
	Rows               // rows are neurons: any subset may be read
	Columns            // columns are neurons: any subset may be read
)
