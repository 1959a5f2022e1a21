package disk

import (
	"fmt"
	"math/bits"
	"slices"
)

// buffer is memory that a page's boundary begins, outside of Go's heap.
type buffer struct {
	memory []byte // nil: not yet allocated
	size   int64
}

// reserve allocates the buffer if it is not there.
func (b *buffer) reserve() error {
	if b.memory != nil || b.size == 0 {
		return nil
	}
	memory, err := allocate(int(b.size))
	if err != nil {
		return fmt.Errorf("no memory for %d bytes from the disk, close other programs or lower the budget: %w", b.size, err)
	}
	b.memory = memory
	return nil
}

// release gives buffers back to the system.
func release(list []buffer) {
	for _, b := range list {
		if b.memory != nil {
			free(b.memory)
		}
	}
}

// buffers counts a Reader's buffers and keeps those that are not used.
type buffers struct {
	most int64 // bytes of all of them, but for a single one that is larger
	held int64 // bytes of all of them
	free []buffer
}

// sized returns the size of buffers for n bytes. There are few sizes, so that buffers can be used again.
func sized(n int64) int64 {
	const small, large = 64 << 10, 1 << 20
	switch {
	case n == 0:
		return 0
	case n > large:
		return (n + large - 1) &^ (large - 1)
	}
	return max(small, int64(1)<<bits.Len64(uint64(n-1)))
}

// Buffered returns the most bytes that a Reader's buffers take for so many pieces at a time, of so many bytes each.
func Buffered(pieces int, bytes int64) int64 {
	each := sized(bytes)
	return max(min(mostBuffered, int64(pieces)*each), each)
}

// take returns a buffer of n bytes, to be reserved, and buffers to be released before. ok is false if there is no room;
// a single buffer always has some.
func (s *buffers) take(n int64, single bool) (b buffer, stale []buffer, ok bool) {
	size := sized(n)
	if size == 0 {
		return buffer{}, nil, true
	}
	best, unused := -1, int64(0)
	for i, f := range s.free {
		unused += f.size
		if f.size >= size && (best < 0 || f.size < s.free[best].size) {
			best = i
		}
	}
	if best >= 0 {
		b = s.free[best]
		s.free = slices.Delete(s.free, best, best+1)
		return b, nil, true
	}
	if s.held-unused+size > s.most && !single {
		return buffer{}, nil, false
	}
	for s.held+size > s.most && len(s.free) > 0 {
		last := len(s.free) - 1
		s.held -= s.free[last].size
		stale = append(stale, s.free[last])
		s.free = s.free[:last]
	}
	s.held += size
	return buffer{size: size}, stale, true
}

// put takes a buffer back.
func (s *buffers) put(b buffer) {
	if b.memory == nil {
		s.held -= b.size
		return
	}
	s.free = append(s.free, b)
}

// drain returns all buffers that are not used, to be released.
func (s *buffers) drain() []buffer {
	list := s.free
	s.free = nil
	for _, b := range list {
		s.held -= b.size
	}
	return list
}
