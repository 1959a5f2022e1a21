package cpu

import (
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// While one processor waits for another, its memory is idle. It can read what the next SparseFFN needs into the cache
// meanwhile.

const (
	// aheadBytes bounds the bytes read: half of the last-level cache of a usual desktop processor. More would evict the
	// first bytes.
	aheadBytes = 8 << 20
	// aheadPiece is read between two looks at whether the wait is over: some 3 µs. [bytes]
	aheadPiece = 16 << 10
)

// readAhead is the state of one ReadAhead.
type readAhead struct {
	d      *Device
	readFn func(chunk, worker int)

	list  []int32 // neurons to read; nil: all, in order
	rows  int     // in all matrices
	first *compute.Matrix
	rest  [2]*compute.Matrix
	done  func() bool

	next atomic.Int64 // row to be read
	left atomic.Int64 // bytes that may still be read
	stop atomic.Bool
	sums []byte // [threads, cacheLine] sums of what was read, so that the reads are not optimised away
}

func (a *readAhead) init(d *Device) {
	a.d, a.readFn = d, a.read
	a.sums = make([]byte, d.decode.Threads()*cacheLine)
}

// ReadAhead reads rows that a SparseFFN of w for one token will need, until done returns true; only the caller's thread
// calls done. It first reads the rows of the neurons in s that decide which are active (gates), then the other rows. If
// s is all neurons, nobody knows which other rows will be needed, and it reads only the rows that decide.
func (d *Device) ReadAhead(s compute.Set, w compute.SparseWeights, done func() bool) {
	if p := mem(w.Down).disk; p != nil { // the disk's store reads it
		if s.Mem != nil {
			d.units.guess(p.bundle, s.Mem.(*set).token(0))
		}
		return
	}
	a := &d.ahead
	a.first, a.rest = w.Gate, [2]*compute.Matrix{w.Up, w.Down}
	if w.Gate == nil {
		a.first, a.rest = w.Up, [2]*compute.Matrix{w.Down}
	}
	if mem(w.Down).layout != neurons {
		a.rest = [2]*compute.Matrix{}
		if w.Gate != nil {
			a.rest[0] = w.Up
		}
	}
	a.list, a.rows = nil, a.first.Rows
	if s.Mem != nil {
		a.list = s.Mem.(*set).token(0)
		a.rows = len(a.list)
		for _, m := range a.rest {
			if m != nil {
				a.rows += len(a.list)
			}
		}
	}
	a.done = done
	a.next.Store(0)
	a.left.Store(aheadBytes)
	a.stop.Store(false)
	d.decode.Run(d.decode.Threads(), a.readFn) // a chunk for every thread, the caller's too: it looks whether it is time
	a.done = nil
}

// read takes pieces until there are none.
func (a *readAhead) read(_, worker int) {
	size := mem(a.first).rowBytes
	step := max(1, aheadPiece/size)
	sum := byte(0)
	for !a.stop.Load() && a.left.Add(-int64(step*size)) > 0 {
		if worker == 0 && a.done() {
			a.stop.Store(true)
			break
		}
		from := int(a.next.Add(int64(step))) - step
		if from >= a.rows {
			break
		}
		for i := from; i < min(a.rows, from+step); i++ {
			sum += touched(a.row(i))
		}
	}
	a.sums[worker*cacheLine] = sum
}

// row returns the i-th of the rows to be read.
func (a *readAhead) row(i int) []byte {
	m := a.first
	if a.list != nil {
		n := len(a.list)
		if i >= n {
			if m = a.rest[0]; i >= 2*n {
				m = a.rest[1]
			}
			i %= n
		}
		i = int(a.list[i])
	}
	size := mem(m).rowBytes
	return mem(m).data[i*size:][:size]
}

// touched reads a byte of every cache line of row.
func touched(row []byte) (sum byte) {
	for i := 0; i < len(row); i += cacheLine {
		sum += row[i]
	}
	return sum
}
