package disk

import (
	"fmt"
	"os"
	"slices"
)

// MostBuffered is the memory that a Reader takes for what it reads. A larger piece takes its own size in addition while
// it is read. [bytes]
const MostBuffered = 64 << 20

// span is a part of a Reader's memory.
type span struct {
	at, end int64
	single  bool // it is larger than that memory, and gets its own
}

// buffers are a Reader's memory, outside of Go's heap. It is one region, in huge pages if the system has them: the
// fewer pages a read writes to, the less work it is. Spans are taken from the region's beginning, so that no more of it
// is resident than was in use at once.
type buffers struct {
	memory []byte
	page   int64
	free   []span // in order, none next to another
	single bool   // a single span is taken
}

// Buffered returns the most memory that a Reader takes for this many pieces at once, of this many bytes each. [bytes]
func Buffered(pieces int, bytes int64) int64 {
	each := bytes + 2*usualAlign // a piece need not be aligned
	if each > MostBuffered {
		return MostBuffered + each
	}
	all := min(int64(pieces), (MostBuffered+each-1)/each) * each
	return min((all+hugePage-1)&^(hugePage-1), MostBuffered)
}

// hugePage is the usual largest size of pages. [bytes]
const hugePage = 2 << 20

func newBuffers() (buffers, error) {
	memory, err := allocate(MostBuffered)
	if err != nil {
		return buffers{}, noMemory(MostBuffered, err)
	}
	return buffers{memory: memory, page: int64(os.Getpagesize()), free: []span{{end: MostBuffered}}}, nil
}

func noMemory(bytes int64, err error) error {
	return fmt.Errorf("no memory for %d MiB from the disk, close other programs or lower the budget: %w", bytes>>20, err)
}

// close gives the memory back.
func (s *buffers) close() {
	if s.memory != nil {
		free(s.memory)
		s.memory, s.free = nil, nil
	}
}

// take returns a span for n bytes; ok is false if there is no room now.
func (s *buffers) take(n int64) (b span, ok bool) {
	n = (n + s.page - 1) &^ (s.page - 1)
	switch {
	case n == 0:
		return span{}, true
	case n > MostBuffered:
		ok = !s.single
		s.single = true
		return span{end: n, single: true}, ok
	}
	for i := range s.free {
		f := &s.free[i]
		if f.end-f.at < n {
			continue
		}
		b = span{at: f.at, end: f.at + n}
		if f.at = b.end; f.at == f.end {
			s.free = slices.Delete(s.free, i, i+1)
		}
		return b, true
	}
	return span{}, false
}

// put takes a span back.
func (s *buffers) put(b span) {
	switch {
	case b.single:
		s.single = false
		return
	case b.at == b.end:
		return
	}
	i := 0
	for i < len(s.free) && s.free[i].at < b.at {
		i++
	}
	s.free = slices.Insert(s.free, i, b)
	if i+1 < len(s.free) && s.free[i+1].at == b.end {
		s.free[i].end = s.free[i+1].end
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].end == b.at {
		s.free[i-1].end = s.free[i].end
		s.free = slices.Delete(s.free, i, i+1)
	}
}
