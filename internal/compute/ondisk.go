package compute

import (
	"context"
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// OnDisk says that a weight stays in a file. Its rows divide into units, which are read when they are needed: those of
// an expert, or of a neuron.
type OnDisk struct {
	File   *disk.File
	Offset int64 // of unit 0's rows, which are as in a GGUF file
	Stride int64 // bytes from a unit's rows to those of the next
	Units  int
	Verify func(unit int, rows []byte) error // returns an error if rows are not what was written; nil: nobody knows
}

// Check reports whether the weight's rows divide into units that the file can hold. The error names the tensor.
func (o *OnDisk) Check(s *Source) error {
	if o.Units < 1 || s.Rows%o.Units != 0 {
		return fmt.Errorf("tensor %q: %d rows are not those of %d units on disk", s.Name, s.Rows, o.Units)
	}
	bytes := int64(s.Rows/o.Units) * int64(s.Type.RowBytes(s.Cols))
	if o.Offset < 0 || o.Stride < bytes || o.Offset > o.File.Size()-bytes || int64(o.Units-1) > (o.File.Size()-bytes-o.Offset)/o.Stride {
		return fmt.Errorf("tensor %q: %d units of %d bytes are not within %s, whose size is %d", s.Name, o.Units, bytes, o.File.Path(), o.File.Size())
	}
	return nil
}

// From returns where the units from unit first on are, n of them.
func (o *OnDisk) From(first, n int) *OnDisk {
	if o == nil {
		return nil
	}
	from := *o
	from.Offset, from.Units = o.Offset+int64(first)*o.Stride, n
	if o.Verify != nil {
		from.Verify = func(unit int, rows []byte) error { return o.Verify(first+unit, rows) }
	}
	return &from
}

// UnitKeeper is a device that computes with weights on disk: it keeps the units that are used most in RAM.
type UnitKeeper interface {
	Device
	// Bundle says that the units of parts, matrices on disk with as many units each, are read and kept together: unit u
	// of each is of the same expert or neuron. prior is the share of tokens that are expected to use each unit, or nil.
	// [units]
	Bundle(prior []float64, parts ...*Matrix) error
	// Keep makes room in RAM for units, once all bundles are known, and reads those that are expected to be used most,
	// as far as there is room. progress learns of the bytes that were read; it may be nil.
	Keep(ctx context.Context, progress func(done, total int64)) error
	// Step says that a step of so many tokens begins, whose uses of units the runs that follow count.
	Step(tokens int)
}

// UnitLender is a UnitKeeper that gives units of weights as files have them to another device, which computes with them.
// Its methods are called by the goroutine that runs steps, but for Row.
type UnitLender interface {
	UnitKeeper
	// Lends reports whether Fetch can give m's rows.
	Lends(m *Matrix) bool
	// Fetch begins to read those units of the bundle which m is part of that are not in RAM. It waits for nothing.
	Fetch(m *Matrix, units []int32) UnitFetch
}

// UnitFetch is units that are being read, or have been. Release ends it, whatever became of it.
type UnitFetch interface {
	// Wait waits until all units are there.
	Wait() error
	// Row returns a row of the i-th unit's part of m as a file has it, in scratch, which has room for it, or where it
	// is. It is called after Wait and before the device does anything else, on any goroutine.
	Row(m *Matrix, i, row int, scratch []byte) []byte
	Release()
}

// UnitUse counts what a device did with units on disk since the model was loaded. A step's use of a unit is one, by
// however many tokens.
type UnitUse struct {
	residency.CacheUse
	Reads, Bytes int64         // from disk
	Busy         time.Duration // in which a read was under way
	Sum          time.Duration // of the times that reads took: Sum/Busy were under way at a time
	Wait         time.Duration // that steps spent waiting for them
	Slots        int64         // units that RAM has room for
	Units        int64         // units on disk
	Kept, OnDisk int64         // bytes of RAM for units, and of RAM that all units would take
}

// Since returns what was counted after then, an earlier state.
func (u UnitUse) Since(then UnitUse) UnitUse {
	u.CacheUse = u.CacheUse.Since(then.CacheUse)
	u.Reads -= then.Reads
	u.Bytes -= then.Bytes
	u.Busy -= then.Busy
	u.Sum -= then.Sum
	u.Wait -= then.Wait
	return u
}

// Add adds what was counted at another time.
func (u *UnitUse) Add(v UnitUse) {
	u.CacheUse.Add(v.CacheUse)
	u.Reads += v.Reads
	u.Bytes += v.Bytes
	u.Busy += v.Busy
	u.Sum += v.Sum
	u.Wait += v.Wait
}

// UnitUser is a device that can say what it did with units on disk.
type UnitUser interface {
	// UnitUse returns what it did until now. It is called between runs.
	UnitUse() UnitUse
}
