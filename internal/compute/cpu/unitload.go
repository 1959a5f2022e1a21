package cpu

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
)

// load is a unit that is being read into its slot.
type load struct {
	s      *store
	b      *bundle
	unit   int32
	slot   int32
	guess  bool // no step has asked for the unit yet
	holds  bool // the load itself holds the unit's slot, until it has arrived
	pieces []spanRead
	left   atomic.Int32 // pieces that have not arrived
	failed atomic.Pointer[error]
}

// spanRead is a read of a span.
type spanRead struct {
	disk.Piece
	src compute.Source // the part that is being packed
}

// read makes the next flush begin to read a unit into a slot. A guess is read after all units that are needed.
func (s *store) read(b *bundle, unit, slot int32, guess bool) *load {
	l := s.newLoad(len(b.spans))
	l.b, l.unit, l.slot, l.guess, l.holds = b, unit, slot, guess, guess
	l.left.Store(int32(len(b.spans)))
	b.loads[unit], b.fresh[unit] = l, true
	s.under++
	at := int64(b.fileUnit(unit))
	for i := range b.spans {
		y, p := &b.spans[i], &l.pieces[i]
		p.File, p.Offset, p.Bytes = y.file, y.offset+at*y.stride, y.bytes
		s.use.Reads++
		s.use.Bytes += int64(y.bytes)
		if guess {
			s.later = append(s.later, &p.Piece)
		} else {
			s.now = append(s.now, &p.Piece)
		}
	}
	return l
}

// fileUnit returns which of the file's units a unit is.
func (b *bundle) fileUnit(unit int32) int32 {
	if order := b.parts[0].order; order != nil {
		return order[unit]
	}
	return unit
}

// newLoad returns a load of the given number of pieces.
func (s *store) newLoad(pieces int) *load {
	n := len(s.unused)
	if n == 0 {
		s.unused = append(s.unused, &load{s: s})
		n = 1
	}
	l := s.unused[n-1]
	s.unused = s.unused[:n-1]
	if len(l.pieces) < pieces {
		l.setPieces(pieces)
	}
	return l
}

// setPieces makes a load's n pieces, one for each span.
func (l *load) setPieces(n int) {
	l.pieces = make([]spanRead, n)
	for i := range l.pieces {
		l.pieces[i].Done = func(data []byte, err error) { l.arrive(i, data, err) }
	}
}

// arrive packs the data read of span i. It runs on a goroutine of the reader.
func (l *load) arrive(i int, data []byte, err error) {
	if err == nil {
		err = l.pack(i, data)
	}
	if err != nil {
		l.fail(err)
	}
	if l.left.Add(-1) > 0 {
		return
	}
	l.s.mu.Lock()
	l.s.arrived = append(l.s.arrived, l)
	enough := len(l.s.arrived) == l.s.awaited
	l.s.mu.Unlock()
	if enough {
		l.s.arrival.Signal()
	}
}

func (l *load) fail(err error) { l.failed.Store(&err) }

// pack packs the data read of span i into the slot.
func (l *load) pack(i int, data []byte) error {
	y, src := &l.b.spans[i], &l.pieces[i].src
	defer func() { src.Data = nil }()
	for j, n := range y.parts {
		p := l.b.parts[n]
		*src = p.src
		src.Data = data[y.at[j]:][:p.fileSize]
		if err := p.verify(l.b.fileUnit(l.unit), src.Data); err != nil {
			return err
		}
		dst := l.b.class.slabs[n][int(l.slot)*p.size:][:p.size]
		for c := range p.packing.chunks(src) {
			p.packing.pack(dst, src, c)
		}
	}
	return nil
}

// verify returns an error if rows differ from the unit's data when the file was written.
func (p *part) verify(unit int32, rows []byte) error {
	if p.disk.Verify == nil {
		return nil
	}
	return p.disk.Verify(int(unit), rows)
}

// hurry moves a guess, which is needed now, to the reads of needed units.
func (l *load) hurry(r pieceReader) {
	if !l.guess {
		return
	}
	l.guess = false
	for i := range l.pieces[:len(l.b.spans)] {
		r.Hurry(&l.pieces[i].Piece)
	}
}

// drop cancels a guess if no read of its pieces has begun, and reports whether it did.
func (l *load) drop(r pieceReader) bool {
	n := len(l.b.spans)
	for i := n - 1; i >= 0; i-- { // the last one is the last to begin
		if !r.Drop(&l.pieces[i].Piece) {
			for ; i+1 < n; i++ {
				r.Later(&l.pieces[i+1].Piece)
			}
			return false
		}
	}
	return true
}

// await waits until loads of the loads that are under way have arrived, and finishes all that have. It wakes once,
// because waking takes about as long as packing a neuron.
func (s *store) await(loads int) (finished int) {
	s.mu.Lock()
	s.awaited = loads
	for len(s.arrived) < loads {
		s.arrival.Wait()
	}
	s.awaited = 0
	s.mu.Unlock()
	return s.drain()
}

// drain finishes the loads that have arrived.
func (s *store) drain() (finished int) {
	s.mu.Lock()
	s.arrived, s.finished = s.finished[:0], s.arrived
	s.mu.Unlock()
	for _, l := range s.finished {
		s.finish(l)
	}
	return len(s.finished)
}

// finish ends a load that has arrived: its unit is in RAM now. If it could not be read, its slot is free again.
func (s *store) finish(l *load) {
	cache, n := l.b.class.cache, l.b.first+l.unit
	l.b.loads[l.unit] = nil
	s.under--
	delete(l.b.unread, l.unit)
	switch err := l.failed.Swap(nil); {
	case err != nil:
		cache.Drop(n)
		s.lose(l.b, l.unit)
		l.b.unread[l.unit] = true
		if l.guess {
			s.unread = cmp.Or(s.unread, *err)
		} else {
			s.failed = cmp.Or(s.failed, *err)
		}
		if s.b == l.b {
			if i := slices.Index(s.units, l.unit); i >= 0 {
				s.held[i] = false
			}
		}
	case l.holds:
		cache.Release(n)
	}
	s.unused = append(s.unused, l)
}
