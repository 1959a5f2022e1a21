package cpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// stepReader reads what is needed at once, and guesses when a test says so.
type stepReader struct {
	content []byte
	reads   int // of what was needed
	later   []*disk.Piece
	failed  error // of every read from now on
}

func (r *stepReader) Read(pieces ...*disk.Piece) {
	for _, p := range pieces {
		r.reads++
		r.give(p)
	}
}

func (r *stepReader) give(p *disk.Piece) {
	if r.failed != nil {
		p.Done(nil, r.failed)
		return
	}
	p.Done(r.content[p.Offset:][:p.Bytes], nil)
}

func (r *stepReader) Later(pieces ...*disk.Piece) { r.later = append(r.later, pieces...) }

func (r *stepReader) Hurry(p *disk.Piece) {
	if r.Drop(p) {
		r.Read(p)
	}
}

func (r *stepReader) Drop(p *disk.Piece) bool {
	i := slices.Index(r.later, p)
	if i < 0 {
		return false
	}
	r.later = slices.Delete(r.later, i, i+1)
	return true
}

func (r *stepReader) Use() disk.Use { return disk.Use{} }

func (r *stepReader) Close() error { return nil }

// next reads the first guess that waits.
func (r *stepReader) next() {
	p := r.later[0]
	r.later = r.later[1:]
	r.give(p)
}

// newSteppedStore returns the store of a device with two bundles of so many units, whose two parts are read apart, and
// the reader that it has from now on.
func newSteppedStore(t *testing.T, units, slots int) (*store, *stepReader) {
	t.Helper()
	const cols, rows = 16, 2 // of a unit
	size := rows * quant.F32.RowBytes(cols)
	r := &stepReader{content: make([]byte, 4*(units*size+2*spanGap))}
	for i := range r.content {
		r.content[i] = byte(i * i >> 7)
	}
	path := filepath.Join(t.TempDir(), "units")
	if err := os.WriteFile(path, r.content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	d, err := New(Options{Threads: 1, UnitCache: int64(slots * 2 * size)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	offset := int64(0)
	for range 2 {
		var parts []*compute.Matrix
		for range 2 {
			m, err := d.Matrix(compute.Source{
				Type: quant.F32, Rows: units * rows, Cols: cols, Data: make([]byte, units*size), Stack: units, Disk: &compute.OnDisk{File: file, Offset: offset, Stride: int64(size), Units: units},
			}, compute.Dense)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, m)
			offset += int64(units*size) + 2*spanGap
		}
		if err := d.Bundle(nil, parts...); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Keep(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	d.units.close()
	d.units.reader = r
	return d.units, r
}

// hold takes units in, checks their bytes and lets them go.
func hold(t *testing.T, s *store, r *stepReader, b *bundle, units ...int32) {
	t.Helper()
	for _, c := range s.classes {
		c.cache.Step(1)
	}
	s.begin(b, units, slices.Repeat([]int32{1}, len(units)))
	for at := 0; at < len(units); {
		n, err := s.take(at, len(units))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range units[at : at+n] {
			for i, p := range b.parts {
				want := r.content[p.disk.Offset+int64(u)*p.disk.Stride:][:p.fileSize]
				if got := b.class.slabs[i][int(b.slot(u))*p.size:][:p.size]; !slices.Equal(got, want) {
					t.Errorf("unit %d: part %d is not the file's", u, i)
				}
			}
		}
		s.release(at, n)
		at += n
	}
}

// TestGuesses: a guess is read after what is needed, in two reads as its parts are apart; it is used without another
// read, hurried when it is needed before it was read, and taken back when its layer did not need it.
func TestGuesses(t *testing.T) {
	s, r := newSteppedStore(t, 128, 128) // slots have units 0 to 63 of both, and guesses may cost 4
	b := s.bundles[1]
	at := func(u int32) int32 { return b.slot(u) }

	s.guess(b, []int32{1, 105, 106, 107})
	if len(r.later) != 6 || r.reads != 0 {
		t.Fatalf("%d guesses wait, want 2 for each of 3 units", len(r.later))
	}
	r.next()
	r.next()
	r.next()
	hold(t, s, r, b, 105) // was read; of 106 a part was, 107 is not needed
	if r.reads != 0 {
		t.Errorf("%d reads of a unit that had been read", r.reads)
	}
	if len(r.later) != 1 || at(106) == residency.Absent || at(107) != residency.Absent {
		t.Errorf("%d guesses wait, want one part of unit 106", len(r.later))
	}
	hold(t, s, r, b, 106)
	if r.reads != 1 || len(r.later) != 0 {
		t.Errorf("%d reads, want the part of unit 106 that was missing", r.reads)
	}
	s.guess(b, []int32{104, 107})
	hold(t, s, r, b, 107, 104)
	if r.reads != 5 {
		t.Errorf("%d reads, want two more of each of 2 units", r.reads)
	}
	use := s.bundles[0].class.cache.Counted()
	if use.Guessed != 4 || use.GuessesUsed != 4 || use.Misses != 0 || s.under != 0 {
		t.Errorf("%+v with %d under way, want 4 guesses, all right", use, s.under)
	}
	if s.use.Reads-256 != 8 { // after the first 128 units
		t.Errorf("%d reads counted", s.use.Reads)
	}
}

// TestGuessCannotBeRead: a guess that cannot be read fails no step, and its error is kept. The unit is read again only when
// a step needs it, which fails if it still cannot be read.
func TestGuessCannotBeRead(t *testing.T) {
	s, r := newSteppedStore(t, 128, 128) // slots have units 0 to 63 of both
	b := s.bundles[1]
	r.failed = errors.New("not in a test")
	for tries, want := range []int{2, 0} { // parts of the unit
		s.guess(b, []int32{105})
		if len(r.later) != want {
			t.Errorf("%d reads of a guess that failed %d times", len(r.later), tries)
		}
		for len(r.later) > 0 {
			r.next()
		}
		hold(t, s, r, b, 1)
	}
	if s.unread != r.failed {
		t.Errorf("the error %v is kept, want %v", s.unread, r.failed)
	}
	s.begin(b, []int32{105}, []int32{1})
	if _, err := s.take(0, 1); err != r.failed {
		t.Errorf("a step that needs the unit: %v", err)
	}
	s.abandon(0)
	r.failed = nil
	hold(t, s, r, b, 105)
	if len(b.unread) > 0 {
		t.Error("the unit was read, and counts as one that cannot be read")
	}
}

// TestGuessesHoldSlots: a step that needs slots which guesses have waits for these.
func TestGuessesHoldSlots(t *testing.T) {
	s, r := newSteppedStore(t, 8, 1)
	a, b := s.bundles[0], s.bundles[1]
	hold(t, s, r, a, 4)
	s.guess(b, []int32{5, 6, 7})
	n := len(r.later)
	if n != 2 { // parts of a unit
		t.Fatal("nothing was guessed")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		hold(t, s, r, a, 1, 2, 3)
	}()
	for range n { // a guess is read whatever waits
		p := r.later[0]
		r.later = r.later[1:]
		r.give(p)
	}
	<-done
	hold(t, s, r, b, 5, 6, 7)
}

// prompt takes units in as a prompt of many tokens does, which reads the next layers ahead.
func prompt(t *testing.T, s *store, r *stepReader, b *bundle, units ...int32) {
	t.Helper()
	s.begin(b, units, slices.Repeat([]int32{20}, len(units)))
	for at := 0; at < len(units); {
		n, err := s.take(at, 8)
		if err != nil {
			t.Fatal(err)
		}
		s.readAhead(s.tokens)
		for _, u := range units[at : at+n] {
			for i, p := range b.parts {
				want := r.content[p.disk.Offset+int64(u)*p.disk.Stride:][:p.fileSize]
				if got := b.class.slabs[i][int(b.slot(u))*p.size:][:p.size]; !slices.Equal(got, want) {
					t.Errorf("unit %d: part %d is not the file's", u, i)
				}
			}
		}
		s.release(at, n)
		at += n
	}
}

// TestPromptReadsAhead: a prompt has what the next layer will use read while a layer is computed, and what is in RAM of
// it stays there. Nothing of it is held after the next layer's turn, nor when a step ends without one.
func TestPromptReadsAhead(t *testing.T) {
	s, r := newSteppedStore(t, 128, 128) // slots have units 0 to 63 of both
	a, b := s.bundles[0], s.bundles[1]
	all := make([]int32, 128)
	for i := range all {
		all[i] = int32(i)
	}
	step := func(tokens int) {
		s.letAllGo()
		s.tokens = tokens
		for _, c := range s.classes {
			c.cache.Step(tokens)
		}
	}
	step(512)
	prompt(t, s, r, a, all...)
	if n := len(r.later); n != 2*128/aheadShare || len(b.kept) == 0 {
		t.Fatalf("%d pieces are read ahead, and %d units kept", n, len(b.kept))
	}
	for range 5 { // in the middle of a unit
		r.next()
	}
	reads := r.reads
	prompt(t, s, r, b, all...)
	if n := r.reads - reads; n > 2*96 || len(r.later) > 0 || s.under > 0 || a.class.kept > 0 {
		t.Errorf("%d pieces read, %d wait, %d units under way, %d kept", n, len(r.later), s.under, a.class.kept)
	}
	step(512)
	prompt(t, s, r, a, all...)
	step(1) // the next layer's turn did not come
	if len(b.kept) > 0 || a.class.kept > 0 {
		t.Error("units are held after their step")
	}
	for len(r.later) > 0 {
		r.next()
	}
	hold(t, s, r, b, 1, 2, 3)
	for n := range a.class.slots { // every slot can be given away
		u := int32(n) % 128
		if n%2 == 0 {
			hold(t, s, r, a, u)
		} else {
			hold(t, s, r, b, u)
		}
	}
}
