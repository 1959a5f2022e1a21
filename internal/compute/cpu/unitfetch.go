package cpu

import (
	"cmp"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// fetch is units of a bundle that are sent to another device. Units in slots are taken from there. The others are read
// into the fetch's own memory, so that the slots keep what texts use. It implements compute.UnitFetch.
type fetch struct {
	d      *Device
	s      *store
	b      *bundle
	units  []int32
	unit   int        // bytes of a unit, as files have them
	first  []int      // the first unit of each span among them
	data   []byte     // [units][unit] what is read from disk
	read   []bool     // [units]
	memory []byte     // memory of data, with room for later fetches
	pieces []*fetched // [units·spans], by span
	alone  bool       // Borrow made it: it has one unit, which keeps its slot if it has one

	mu      sync.Mutex
	arrival sync.Cond
	left    int // pieces that have not arrived
	failed  error
}

// fetched is a span of a unit.
type fetched struct {
	disk.Piece
	f    *fetch
	span int
	unit int32
	to   []byte
}

// Lend implements hybrid.Host.
func (d *Device) Lend(fetches int, bytes int64) bool {
	s := d.units
	least := int64(0) // bytes of a unit of each class, which must still have room
	for _, c := range s.classes {
		least += c.bytes
	}
	if lent := int64(fetches) * bytes; lent > s.budget/2 || s.budget-lent < least {
		return false
	}
	s.budget -= int64(fetches) * bytes
	s.lent = max(s.lent, int(bytes))
	return true
}

// Lends implements hybrid.Host.
func (d *Device) Lends(m *compute.Matrix) bool {
	w := mem(m)
	return w.disk != nil && w.layout != groups && w.disk.size == w.disk.src.Rows*w.rowBytes
}

// Fetch implements hybrid.Host.
func (d *Device) Fetch(m *compute.Matrix, units []int32) compute.UnitFetch {
	f := d.newFetch(&d.units.fetches, m, units)
	f.begin()
	return f
}

// Borrow implements hybrid.Host.
func (d *Device) Borrow(m *compute.Matrix, unit int32) compute.UnitFetch {
	f := d.newFetch(&d.units.borrowed, m, []int32{unit})
	f.alone = true
	d.units.drain()
	if b := f.b; f.present(0) && b.class.mayKeep() {
		b.class.cache.Hold(b.first + unit)
		b.class.kept++
		return f
	}
	if len(f.memory) < f.unit {
		f.memory = make([]byte, f.unit)
	}
	f.readUnits([]int{0})
	return f
}

// newFetch returns a fetch, an unused one if there is one, of units of m's bundle.
func (d *Device) newFetch(unused *[]*fetch, m *compute.Matrix, units []int32) *fetch {
	var f *fetch
	if n := len(*unused); n > 0 {
		f, *unused = (*unused)[n-1], (*unused)[:n-1]
	} else {
		f = &fetch{d: d, s: d.units}
		f.arrival.L = &f.mu
	}
	f.b, f.units = mem(m).disk.bundle, append(f.units[:0], units...)
	f.first, f.unit = f.first[:0], 0
	for i := range f.b.spans {
		f.first = append(f.first, f.unit)
		f.unit += f.b.spans[i].bytes
	}
	f.read = slices.Repeat([]bool{false}, len(units))
	return f
}

// present reports whether the i-th unit is in RAM.
func (f *fetch) present(i int) bool {
	u := f.units[i]
	return f.b.slot(u) != residency.Absent && f.b.loads[u] == nil
}

// begin begins to read the units that are not in RAM and are not being read yet.
func (f *fetch) begin() {
	f.s.drain()
	var absent []int // places in units
	for i := range f.units {
		if !f.read[i] && !f.present(i) {
			absent = append(absent, i)
		}
	}
	if len(absent) == 0 {
		return
	}
	if size := len(f.units) * f.unit; len(f.memory) < size { // it is never given back: a fetch gets all that it may have at once
		memory, err := f.d.mem.bytes(max(size, f.s.lent))
		if err != nil {
			f.failed = err
			return
		}
		f.memory = memory
	}
	f.readUnits(absent)
}

// readUnits begins to read the units at the places absent into f's memory.
func (f *fetch) readUnits(absent []int) {
	f.data = f.memory[:len(f.units)*f.unit]
	slices.SortFunc(absent, func(i, j int) int { return cmp.Compare(f.b.fileUnit(f.units[i]), f.b.fileUnit(f.units[j])) })
	var list []*disk.Piece
	for n := range f.b.spans { // neighbours in a file are read at once
		y := &f.b.spans[n]
		for _, i := range absent {
			p := f.newPiece(len(list))
			p.span, p.unit, p.to = n, f.units[i], f.data[i*f.unit+f.first[n]:][:y.bytes]
			p.File, p.Offset, p.Bytes = y.file, y.offset+int64(f.b.fileUnit(f.units[i]))*y.stride, y.bytes
			list = append(list, &p.Piece)
			f.s.use.Reads++
			f.s.use.Bytes += int64(y.bytes)
		}
	}
	for _, i := range absent {
		f.read[i] = true
	}
	f.left = len(list)
	f.s.reader.Read(list...)
}

// newPiece returns the i-th piece, which is not being read.
func (f *fetch) newPiece(i int) *fetched {
	if i == len(f.pieces) {
		p := &fetched{f: f}
		p.Done = p.arrive
		f.pieces = append(f.pieces, p)
	}
	return f.pieces[i]
}

// arrive records a read. It runs on a goroutine of the reader.
func (p *fetched) arrive(data []byte, err error) {
	copy(p.to, data)
	if err == nil {
		err = p.verify()
	}
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.failed = cmp.Or(p.f.failed, err)
	if p.f.left--; p.f.left == 0 {
		p.f.arrival.Signal()
	}
}

// verify returns an error if the data read differs from the data written.
func (p *fetched) verify() error {
	b := p.f.b
	y := &b.spans[p.span]
	for j, n := range y.parts {
		part := b.parts[n]
		if err := part.verify(b.fileUnit(p.unit), p.to[y.at[j]:][:part.fileSize]); err != nil {
			return err
		}
	}
	return nil
}

// Wait implements compute.UnitFetch. A unit that was in RAM may have left it since.
func (f *fetch) Wait() error {
	if f.alone {
		return f.wait()
	}
	from := monotime.Now()
	err := f.wait()
	if err == nil {
		f.begin()
		err = f.wait()
	}
	f.s.waited(from, f.b)
	return err
}

func (f *fetch) wait() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.left > 0 {
		f.arrival.Wait()
	}
	return f.failed
}

// Row implements compute.UnitFetch.
func (f *fetch) Row(m *compute.Matrix, i, row int, scratch []byte) []byte {
	w := mem(m)
	size := w.disk.fileSize / w.disk.src.Rows
	if f.read[i] {
		return f.data[i*f.unit+f.offset(w.disk)+row*size:][:size]
	}
	n := slices.Index(f.b.parts, w.disk)
	stored := f.b.class.slabs[n][int(f.b.slot(f.units[i]))*w.disk.size+row*w.rowBytes:][:w.rowBytes]
	if !w.packed || !m.Type.Quantised() {
		return stored
	}
	kernel.RestoreRow(m.Type, scratch[:size], stored, 0, m.Cols)
	return scratch[:size]
}

// offset returns the offset of a part in a unit's bytes.
func (f *fetch) offset(p *part) int {
	for i := range f.b.spans {
		y := &f.b.spans[i]
		for j, n := range y.parts {
			if f.b.parts[n] == p {
				return f.first[i] + y.at[j]
			}
		}
	}
	panic("cpu: a part that no span has")
}

// Release implements compute.UnitFetch.
func (f *fetch) Release() {
	f.mu.Lock()
	left := f.left
	f.mu.Unlock()
	if left > 0 { // nobody asks for it any more
		for _, p := range f.pieces {
			if f.s.reader.Drop(&p.Piece) {
				f.mu.Lock()
				f.left--
				f.mu.Unlock()
			}
		}
		_ = f.wait()
	}
	f.failed = nil
	if !f.alone {
		f.s.fetches = append(f.s.fetches, f)
		return
	}
	if !f.read[0] {
		f.b.class.cache.Release(f.b.first + f.units[0])
		f.b.class.kept--
	}
	f.s.borrowed = append(f.s.borrowed, f)
}
