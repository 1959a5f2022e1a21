package disk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// The kernel's ring, where there is one, reads the same bytes as threads, and is used.
func TestRingIsUsed(t *testing.T) {
	r := newReader(t, 8)
	if r.ring == nil {
		testenv.Missing(t, "io_uring", "there is no io_uring, or it is not allowed")
	}
	path, content := written(t, 1<<20+1)
	f := open(t, path)
	if !f.Direct() {
		testenv.Missing(t, "io_uring", "files are not read past the page cache here")
	}
	s := &counted{ring: r.ring}
	r.ring = s
	var c came
	for i := range int64(100) {
		r.Read(c.piece(f, 10_000*(i*37%100), 5000)) // none follows another
	}
	waitFor(r)
	if s.pushed != 100 {
		t.Errorf("the ring read %d of 100 pieces", s.pushed)
	}
	for _, g := range c.list {
		if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+5000]) {
			t.Errorf("at %d: %v, or other bytes", g.at, g.err)
		}
	}
}

type counted struct {
	ring
	pushed int
}

func (s *counted) push(b *batch) bool {
	s.pushed++
	return s.ring.push(b)
}

// badRing takes some batches, begins some of them, reads some of those whole, some in part, and fails otherwise.
type badRing struct {
	mu     sync.Mutex
	rng    *rand.Rand
	pushed []*batch
	runs   []*batch
}

func (s *badRing) push(b *batch) bool {
	if s.rng.IntN(4) == 0 {
		return false
	}
	s.pushed = append(s.pushed, b)
	return true
}

func (s *badRing) submit() (left []*batch) {
	n := s.rng.IntN(len(s.pushed) + 1)
	left = slices.Clone(s.pushed[n:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, s.pushed[:n]...)
	s.pushed = nil
	return left
}

func (s *badRing) wait() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs)%3 == 0 {
		return errors.New("waiting is not possible")
	}
	return nil
}

func (s *badRing) next() (b *batch, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs) == 0 || s.rng.IntN(3) == 0 {
		return nil, 0
	}
	i := s.rng.IntN(len(s.runs)) // they come in any order
	b = s.runs[i]
	s.runs = slices.Delete(s.runs, i, i+1)
	switch s.rng.IntN(3) {
	case 0:
		return b, -5
	case 1:
		return b, s.rng.IntN(b.least())
	}
	n, _ = b.pieces[0].File.source.readAt(b.memory[:b.to-b.from], b.from)
	return b, n
}

func (s *badRing) close() {}

// Whatever a ring does not do is done without it.
func TestRingThatFails(t *testing.T) {
	path, content := written(t, 1<<20+1)
	f := open(t, path)
	r := newReader(t, 8)
	withoutRing(r)
	r.ring = &badRing{rng: rand.New(rand.NewPCG(7, 7))}
	var c came
	var list []*Piece
	for i := range int64(200) {
		list = append(list, c.piece(f, i*5001, 5000))
	}
	r.Read(list[:20]...)
	for _, p := range list[20:] {
		r.Read(p)
	}
	waitFor(r)
	if len(c.list) != 200 {
		t.Errorf("%d pieces came, want 200", len(c.list))
	}
	for _, g := range c.list {
		if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+5000]) {
			t.Errorf("at %d: %v, or other bytes", g.at, g.err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if r.flying != 0 || len(r.landed) != 0 {
		t.Errorf("%d batches fly, %d wait for hands", r.flying, len(r.landed))
	}
}
