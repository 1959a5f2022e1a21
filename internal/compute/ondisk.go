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
	Verify func(unit int, rows []byte) error // returns an error if rows are not what was written; nil: there are no checksums
	// Dense is where the same units are with nothing between them: reading most of them in order is faster there; nil: here.
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

// From returns where the units from unit first on are, n of them.
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

// UnitKeeper is a device that computes with weights on disk: it keeps the units that are used most in RAM.
type UnitKeeper interface {
	Device
	// Bundle says that units of parts are read and kept together. Parts are matrices on disk with the same number of
	// units, and unit u of each part belongs to the same expert or neuron. prior is the share of tokens that are expected
	// to use each unit, or nil. [units]
	Bundle(prior []float64, parts ...*Matrix) error
	// Keep makes room in RAM for units, once all bundles are known, and reads those that are expected to be used most,
	// as far as there is room. progress learns of the bytes that were read; it may be nil.
	Keep(ctx context.Context, progress func(done, total int64)) error
	// Step says that a step of so many tokens begins. The runs that follow count their uses of units for it.
	Step(tokens int)
}

// UnitGuesser is a UnitKeeper that reads units before they are needed.
type UnitGuesser interface {
	UnitKeeper
	// GuessUnits reads units of m's bundle that are not in RAM, because a step may need them. The likeliest is first. They
	// are read after what the next Experts of the run in progress needs, and as many as guesses may cost. No result
	// depends on it.
	GuessUnits(m *Matrix, units []int32)
}

// UnitLender is a UnitKeeper that gives another device units of weights, as files have them, to compute with. Its methods
// are called by the goroutine that runs steps, except Row.
type UnitLender interface {
	UnitKeeper
	// Lend reserves some of the RAM for units for so many fetches at a time, of so many bytes each. It is called before
	// Keep, and reports whether there is enough.
	Lend(fetches int, bytes int64) bool
	// Lends reports whether Fetch can give m's rows.
	Lends(m *Matrix) bool
	// Fetch begins to read units of m's bundle, as far as they are not in RAM. It waits for nothing.
	Fetch(m *Matrix, units []int32) UnitFetch
}

// UnitFetch is units that are being read, or have been. It must be released, also after an error.
type UnitFetch interface {
	// Wait waits until all units are there.
	Wait() error
	// Row returns a row of the i-th unit's part of m as a file has it, in scratch, which has room for it, or in the
	// device's memory. It is called after Wait and before the device does anything else, on any goroutine.
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
	Kept, OnDisk int64         // bytes of RAM for units, and those that all units would take there
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
