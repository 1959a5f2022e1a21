package compute

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/disk"
)

// OnDisk says that a weight stays in a file. Its rows divide into units, one for each expert or neuron, which are read
// when they are needed.
type OnDisk struct {
	File   *disk.File
	Offset int64 // of unit 0's rows, which are stored as in a GGUF file
	Stride int64 // bytes from a unit's first row to the next unit's
	Units  int
	Verify func(unit int, rows []byte) error // returns an error if rows are not what was written; nil: there are no checksums
	// Dense is a second place with the same units and nothing between them, where reading most of them in order is
	// faster; nil: this place has nothing between them either.
	Dense *OnDisk
}

// Check returns an error, which names the tensor, unless the weight's rows divide into units that the file can hold.
func (o *OnDisk) Check(s *Source) error {
	if d := o.Dense; d != nil {
		if d.Units != o.Units {
			return fmt.Errorf("tensor %q: %d units on disk, and %d where nothing is between them", s.Name, o.Units, d.Units)
		}
		if err := d.Check(s); err != nil {
			return err
		}
	}
	if o.Units < 1 || s.Rows%o.Units != 0 {
		return fmt.Errorf("tensor %q: %d rows are not those of %d units on disk", s.Name, s.Rows, o.Units)
	}
	bytes := int64(s.Rows/o.Units) * int64(s.Type.RowBytes(s.Cols))
	if o.Offset < 0 || o.Stride < bytes || o.Offset > o.File.Size()-bytes || int64(o.Units-1) > (o.File.Size()-bytes-o.Offset)/o.Stride {
		return fmt.Errorf("tensor %q: %d units of %d bytes are not within %s, whose size is %d", s.Name, o.Units, bytes, o.File.Path(), o.File.Size())
	}
	return nil
}

// From returns the place of n units from unit first on.
func (o *OnDisk) From(first, n int) *OnDisk {
	if o == nil {
		return nil
	}
	from := *o
	from.Offset, from.Units, from.Dense = o.Offset+int64(first)*o.Stride, n, o.Dense.From(first, n)
	if o.Verify != nil {
		from.Verify = func(unit int, rows []byte) error { return o.Verify(first+unit, rows) }
	}
	return &from
}
