package cpu

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

const (
	// wholePiece is the most bytes of a whole layer that are read at a time.
	wholePiece = 1 << 20
	// wholeGap is the largest gap of neurons in RAM that is read rather than left out. [bytes]
	wholeGap = 64 << 10
	// wholeCopy is the number of neurons that a worker copies at a time.
	wholeCopy = 64
	// wholeShare bounds the share of the memory for units that a second whole layer may take, as a divisor.
	wholeShare = 8
)

// wholeLayer is all rows of a layer of neurons in order, for steps that need many. Rows in slots are copied from there;
// the others are read in the file's order. Rows never change, so they stay valid as long as the memory is the layer's.
type wholeLayer struct {
	s    *store
	at   int     // its index in store.wholes
	data []byte  // nil: it shares its memory with slots, see store.lend
	b    *bundle // the bundle with rows here, or with rows on their way; nil: none

	reads   []*wholeRead
	used    int // reads in use
	under   sync.WaitGroup
	failed  atomic.Pointer[error]
	absent  []bool // [units] in the file's order: they are read
	present []int32
}

// wholeRead is a read of consecutive units of a span.
type wholeRead struct {
	disk.Piece
	span     *span
	first, n int // the units, in the file's order
	src      compute.Source
}

// rowCopies is the state of copying units from slots to a whole layer.
type rowCopies struct {
	w  *wholeLayer
	fn func(chunk, worker int)
}

// wholeBytes returns the bytes of all rows of b in RAM.
func (b *bundle) wholeBytes() (n int64) {
	for _, p := range b.parts {
		n += wholePart(p, b.units)
	}
	return n
}

// wholePart returns the bytes of all rows of a part, rounded up so that the next part begins at a cache line.
func wholePart(p *part, units int) int64 {
	return (int64(p.size)*int64(units) + cacheLine - 1) &^ (cacheLine - 1)
}

// addWholes makes whole layers if there are neurons on disk: two if they take little of the memory, so that one is read
// while the other is computed, else one. The rest is for slots. If all units are neurons of one size, slots use the whole
// layers' memory, too, while no step needs it.
func (s *store) addWholes(d *Device) error {
	s.forSlots = s.budget
	largest := int64(0)
	for _, b := range s.bundles {
		if b.byNeuron() {
			largest = max(largest, b.wholeBytes())
		}
	}
	if largest == 0 {
		return nil
	}
	n := 1
	if wholeShare*largest <= s.budget {
		n = 2
	}
	if s.forSlots -= int64(n) * largest; s.forSlots <= 0 {
		return fmt.Errorf("%d MiB of memory have no room for the neurons of a layer, %d MiB, which a prompt needs together, and for others; give more memory",
			s.budget>>20, (largest+1<<20-1)>>20)
	}
	s.copies.fn = s.copyRows
	for i := range n {
		y := &wholeLayer{s: s, at: i}
		if s.wholes = append(s.wholes, y); len(s.classes) == 1 {
			continue
		}
		var err error
		if y.data, err = d.mem.bytes(int(largest)); err != nil {
			return err
		}
	}
	return nil
}

// lendable returns the number of whole layers that share their memory with slots.
func (s *store) lendable() int {
	if len(s.classes) > 1 {
		return 0
	}
	return len(s.wholes)
}

// largest returns the most units of a bundle.
func (c *class) largest() (units int) {
	for _, b := range c.bundles {
		units = max(units, b.units)
	}
	return units
}

// lend gives whole layers the memory that they share with slots, which lose their units.
func (s *store) lend() {
	s.wholeFew = s.wholeFew || s.tokens <= compute.FewTokens
	if s.closed || s.lendable() == 0 {
		return
	}
	for s.under > 0 { // guesses hold slots
		s.await(1)
	}
	s.closed = true
	s.classes[0].cache.Close(s.classes[0].own)
}

// takeMemoryBack is called when a step begins. A step of few tokens gets all slots back, unless the last such step needed
// a whole layer.
func (s *store) takeMemoryBack() {
	if s.tokens > compute.FewTokens {
		return
	}
	again := s.wholeFew
	s.wholeFew = false
	if again || !s.closed {
		return
	}
	for _, y := range s.wholes {
		y.under.Wait()
		y.failed.Store(nil)
		y.b = nil
	}
	s.closed = false
	s.classes[0].cache.Open()
}

// open returns the number of a class's slots that units may have now.
func (s *store) open(c *class) int {
	if s.closed {
		return c.own
	}
	return c.slots
}

// addWholeParts makes the matrices of b, a bundle of neurons, in whole layers.
func (s *store) addWholeParts(b *bundle) {
	if !b.byNeuron() {
		return
	}
	for _, y := range s.wholes {
		list, at := make([]compute.Matrix, len(b.parts)), int64(0)
		for i, p := range b.parts {
			w := *mem(p.m)
			w.disk = nil
			if y.data == nil {
				w.data = b.class.slabs[i][(b.class.own+y.at*b.class.largest())*p.size:][:b.units*p.size]
			} else {
				w.data = y.data[at:][:b.units*p.size]
			}
			list[i] = *p.m
			list[i].Mem = &w
			at += wholePart(p, b.units)
		}
		b.whole = append(b.whole, list)
	}
	if order := b.parts[0].order; order != nil {
		b.inFile = make([]int32, b.units)
		for u := range b.inFile {
			b.inFile[u] = int32(u)
		}
		slices.SortFunc(b.inFile, func(u, v int32) int { return cmp.Compare(order[u], order[v]) })
	}
}

// unitAt returns the i-th of b's units as the file has them, and its place there.
func (b *bundle) unitAt(i int) (unit int32, place int64) {
	if b.inFile == nil {
		return int32(i), int64(i)
	}
	unit = b.inFile[i]
	return unit, int64(b.parts[0].order[unit])
}

// wholeOf returns b's parts with all rows in order. ahead: the next layer will be needed as a whole, too.
func (d *Device) wholeOf(b *bundle, ahead bool) ([]compute.Matrix, error) {
	s := d.units
	s.lend()
	y := s.wholeFor(b)
	var err error
	if y.b == b {
		err = y.wait()
	}
	if y.b != b { // it was not read ahead, or that failed, perhaps in an earlier step
		y.read(d, b)
		err = y.wait()
	}
	if err != nil {
		return nil, err
	}
	if next := b.next; ahead && len(s.wholes) > 1 && next != nil && next.byNeuron() {
		if z := s.wholes[1-y.at]; z.b != next {
			z.read(d, next)
		}
	}
	return b.whole[y.at], nil
}

// wholeFor returns the whole layer that has b's rows, or the one to be used for them.
func (s *store) wholeFor(b *bundle) *wholeLayer {
	for _, y := range s.wholes {
		if y.b == b {
			return y
		}
	}
	return s.wholes[0]
}

// wait waits until all has arrived. If some could not be read, it holds no bundle's rows then.
func (y *wholeLayer) wait() error {
	from := monotime.Now()
	y.under.Wait()
	y.s.waited(from, y.b)
	if err := y.failed.Swap(nil); err != nil {
		y.b = nil
		return *err
	}
	return nil
}

// read begins to read b's rows, and copies rows that are in slots.
func (y *wholeLayer) read(d *Device, b *bundle) {
	y.under.Wait()
	y.failed.Store(nil)
	y.b = b
	y.s.drain()
	cache := b.class.cache
	absent := grown(&y.absent, b.units)
	for i := range absent {
		u, _ := b.unitAt(i)
		absent[i] = cache.Slot(b.first+u) == residency.Absent || b.loads[u] != nil
	}
	y.used = 0
	for i := range b.dense {
		y.readSpan(b, &b.dense[i])
	}
	y.present = y.present[:0]
	for i, gone := range absent {
		if !gone {
			u, _ := b.unitAt(i)
			y.present = append(y.present, u)
		}
	}
	y.s.copies.w = y
	d.pool.Run((len(y.present)+wholeCopy-1)/wholeCopy, y.s.copies.fn)
}

// readSpan begins to read the absent rows of a span.
func (y *wholeLayer) readSpan(b *bundle, of *span) {
	absent := y.absent[:b.units]
	for i := 0; i < b.units; i++ {
		if !absent[i] {
			continue
		}
		_, place := b.unitAt(i)
		end := i + 1
		for j := end; j < b.units; j++ {
			_, at := b.unitAt(j)
			if at != place+int64(j-i) || int64(j-i+1)*of.stride > wholePiece || int64(j-end)*of.stride > wholeGap {
				break
			}
			if absent[j] {
				end = j + 1
			}
		}
		r := y.newRead()
		r.span, r.first, r.n = of, i, end-i
		r.File, r.Offset, r.Bytes = of.file, of.offset+place*of.stride, int(int64(end-i-1)*of.stride)+of.bytes
		y.s.use.Reads++
		y.s.use.Bytes += int64(r.Bytes)
		y.under.Add(1)
		y.s.reader.Read(&r.Piece)
		i = end - 1
	}
}

// newRead returns a read.
func (y *wholeLayer) newRead() *wholeRead {
	if y.used == len(y.reads) {
		r := &wholeRead{}
		r.Done = func(data []byte, err error) { y.arrive(r, data, err) }
		y.reads = append(y.reads, r)
	}
	y.used++
	return y.reads[y.used-1]
}

// arrive packs the absent rows of a read. It runs on a goroutine of the reader.
func (y *wholeLayer) arrive(r *wholeRead, data []byte, err error) {
	defer y.under.Done()
	if err != nil {
		y.failed.Store(&err)
		return
	}
	for i := range r.n {
		if !y.absent[r.first+i] {
			continue
		}
		u, place := y.b.unitAt(r.first + i)
		for j, n := range r.span.parts {
			p := y.b.parts[n]
			r.src = p.src
			r.src.Data = data[int64(i)*r.span.stride+int64(r.span.at[j]):][:p.fileSize]
			if err := p.verify(int32(place), r.src.Data); err != nil {
				y.failed.Store(&err)
				continue
			}
			p.packing.pack(y.row(p, u), &r.src, 0)
		}
	}
	r.src.Data = nil
}

// row returns where unit u of a part is.
func (y *wholeLayer) row(p *part, u int32) []byte {
	return mem(&y.b.whole[y.at][p.number]).data[int(u)*p.size:][:p.size]
}

// copyRows copies some of the units that are in slots.
func (s *store) copyRows(chunk, _ int) {
	y := s.copies.w
	for _, u := range y.present[chunk*wholeCopy : min(len(y.present), (chunk+1)*wholeCopy)] {
		slot := int(y.b.slot(u))
		for i, p := range y.b.parts {
			copy(y.row(p, u), y.b.class.slabs[i][slot*p.size:][:p.size])
		}
	}
}
