package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// trouble is a source that does before each read what fail says: it returns an error, waits, or shortens the read to so
// many bytes.
type trouble struct {
	source
	fail func(offset int64, bytes int) (most int, err error)
}

func (s *trouble) readAt(b []byte, offset int64) (int, error) {
	most, err := s.fail(offset, len(b))
	if err != nil {
		return 0, err
	}
	return s.source.readAt(b[:min(most, len(b))], offset)
}

// troubled returns a file of so many random bytes that fails as told.
func troubled(t *testing.T, size int, fail func(offset int64, bytes int) (int, error)) (*File, []byte) {
	path, content := written(t, size)
	f := open(t, path)
	f.source = &trouble{f.source, fail}
	return f, content
}

// whole is what fail returns of a read that goes well.
const whole = 1 << 40

// came collects what pieces got.
type came struct {
	mu   sync.Mutex
	list []got
}

type got struct {
	at   int64
	data []byte
	err  error
	when time.Time
}

// piece returns a piece whose result is collected.
func (c *came) piece(f *File, at int64, size int) *Piece {
	return &Piece{File: f, Offset: at, Bytes: size, Done: func(data []byte, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, got{at, bytes.Clone(data), err, time.Now()})
	}}
}

// offsets returns those of the pieces that came, in the order in which they came.
func (c *came) offsets() (list []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.list {
		list = append(list, g.at)
	}
	return list
}

// A disk that stalls holds only what waits for it.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 10 * time.Second
		f, content := troubled(t, 1<<20, func(offset int64, _ int) (int, error) {
			if offset == 0 {
				time.Sleep(stall)
			}
			return whole, nil
		})
		r := newReader(t, 2)
		var c came
		begin := time.Now()
		r.Read(c.piece(f, 0, 100))
		for i := range int64(50) {
			r.Read(c.piece(f, 8192*(i+1), 100))
		}
		synctest.Wait()
		if n := len(c.offsets()); n != 50 {
			t.Errorf("%d pieces came while one stalls, want 50", n)
		}
		time.Sleep(stall)
		synctest.Wait()
		for _, g := range c.list {
			if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+100]) {
				t.Errorf("at %d: %v, or other bytes", g.at, g.err)
			}
			if want := g.at == 0; (g.when.Sub(begin) >= stall) != want {
				t.Errorf("the piece at %d came after %v", g.at, g.when.Sub(begin))
			}
		}
	})
}

// A part of a file that cannot be read leaves others alone, those that were to be read with it, too.
func TestErrorOfOnePiece(t *testing.T) {
	const bad, size = 5 * 4096, 4096
	f, content := troubled(t, 1<<20, func(offset int64, n int) (int, error) {
		if offset <= bad && bad < offset+int64(n) {
			return 0, syscall.EIO
		}
		return whole, nil
	})
	r := newReader(t, 4)
	var c came
	var list []*Piece
	for i := range int64(10) {
		list = append(list, c.piece(f, i*size, size))
	}
	r.Read(list...)
	r.Read(c.piece(f, bad, 1), c.piece(f, 1<<19, 77))
	waitFor(r)
	if len(c.list) != 12 {
		t.Fatalf("%d pieces came, want 12", len(c.list))
	}
	for _, g := range c.list {
		if g.at == bad {
			if !errors.Is(g.err, syscall.EIO) || !strings.Contains(g.err.Error(), f.Path()) || !strings.Contains(g.err.Error(), fmt.Sprint(bad)) || g.data != nil {
				t.Errorf("at %d: %v", g.at, g.err)
			}
		} else if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+int64(len(g.data))]) || len(g.data) == 0 {
			t.Errorf("at %d: %v", g.at, g.err)
		}
	}
}

// waitFor waits until nothing is queued or read.
func waitFor(r *Reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.active > 0 {
		r.ended.Wait()
	}
}

// Reads that a signal interrupts, and short ones, go on.
func TestInterruptedReadsGoOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such errors")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	f, content := troubled(t, 1<<20, func(int64, int) (int, error) {
		switch rng.IntN(3) {
		case 0:
			return 0, syscall.EINTR
		case 1:
			return 4096 * (1 + rng.IntN(3)), nil
		}
		return whole, nil
	})
	r := newReader(t, 1)
	var c came
	for i := range int64(20) {
		r.Read(c.piece(f, 50_000*i+3, 50_000))
	}
	waitFor(r)
	for _, g := range c.list {
		if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+50_000]) {
			t.Errorf("at %d: %v, or other bytes", g.at, g.err)
		}
	}
	f.source.(*trouble).fail = func(int64, int) (int, error) { return 0, syscall.EAGAIN }
	c.list = nil
	r.Read(c.piece(f, 0, 1))
	waitFor(r)
	if !errors.Is(c.list[0].err, syscall.EAGAIN) {
		t.Errorf("a file that is never there: %v", c.list[0].err)
	}
}

// A file that became shorter is an error that says so, for the pieces that it lacks.
func TestTruncated(t *testing.T) {
	const left = 300_001
	path, content := written(t, 1<<20)
	f := open(t, path)
	if err := f.Changed(); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(path, left); err != nil {
		if runtime.GOOS == "windows" { // which does not do that to open files
			t.Skip(err)
		}
		t.Fatal(err)
	}
	r := newReader(t, 4)
	var c came
	var list []*Piece
	for at := int64(left - 50_000); at < left+50_000; at += 10_000 {
		list = append(list, c.piece(f, at, 10_000)) // these are read at once
	}
	r.Read(list...)
	r.Read(c.piece(f, 900_000, 100))
	waitFor(r)
	for _, g := range c.list {
		if g.at+10_000 <= left {
			if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+10_000]) {
				t.Errorf("at %d: %v, or other bytes", g.at, g.err)
			}
		} else if !errors.Is(g.err, ErrChanged) || !strings.Contains(g.err.Error(), path) {
			t.Errorf("at %d: %v", g.at, g.err)
		}
	}
	if err := f.Changed(); !errors.Is(err, ErrChanged) {
		t.Errorf("changed: %v", err)
	}
}

// Pieces that the file never had are errors, not reads.
func TestPiecesOutside(t *testing.T) {
	const size = 10_000
	f, _ := troubled(t, size, func(int64, int) (int, error) {
		t.Error("the file is read")
		return whole, nil
	})
	r := newReader(t, 1)
	var c came
	for _, p := range []struct {
		at   int64
		size int
	}{{-1, 1}, {0, -1}, {0, size + 1}, {size, 1}, {1 << 62, 1 << 62}, {size + 1, 0}} {
		r.Read(c.piece(f, p.at, p.size))
	}
	waitFor(r)
	for _, g := range c.list {
		if g.err == nil {
			t.Errorf("at %d: no error", g.at)
		}
	}
	c.list = nil
	r.Read(c.piece(f, size, 0), c.piece(f, 0, 0))
	waitFor(r)
	for _, g := range c.list {
		if g.err != nil || len(g.data) != 0 {
			t.Errorf("nothing at %d: %v", g.at, g.err)
		}
	}
}

// A file that is replaced goes on being read.
func TestReplaced(t *testing.T) {
	path, content := written(t, 100_000)
	f := open(t, path)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		if runtime.GOOS == "windows" { // likewise
			t.Skip(err)
		}
		t.Fatal(err)
	}
	r := newReader(t, 4)
	var c came
	r.Read(c.piece(f, 5000, 60_000))
	waitFor(r)
	if g := c.list[0]; g.err != nil || !bytes.Equal(g.data, content[5000:65_000]) {
		t.Errorf("%v, or other bytes", g.err)
	}
	if err := f.Changed(); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("changed: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Changed(); !errors.Is(err, ErrChanged) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

// A file that was written to is another one, even with its old size.
func TestWrittenTo(t *testing.T) {
	path, _ := written(t, 1000)
	f := open(t, path)
	later := f.opened.ModTime().Add(time.Second)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	if err := f.Changed(); !errors.Is(err, ErrChanged) {
		t.Errorf("changed: %v", err)
	}
}

// Close waits for what runs, and hands the rest back.
func TestCloseDuringReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := troubled(t, 1<<20, func(int64, int) (int, error) {
			time.Sleep(time.Second)
			return whole, nil
		})
		r := newReader(t, 3)
		var c came
		for i := range int64(10) {
			r.Read(c.piece(f, i*8192, 10))
			r.Later(c.piece(f, i*8192+4096, 10))
		}
		synctest.Wait()
		begin := time.Now()
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took != time.Second {
					t.Errorf("Close took %v; reads take a second", took)
				}
			})
		}
		wait.Wait()
		failed := 0
		for _, g := range c.list {
			if errors.Is(g.err, ErrClosed) {
				failed++
			}
		}
		if len(c.list) != 20 || failed != 17 {
			t.Errorf("%d pieces came, %d of them unread; want 20, 17", len(c.list), failed)
		}
		c.list = nil
		r.Read(c.piece(f, 0, 1))
		synctest.Wait()
		if len(c.list) != 1 || !errors.Is(c.list[0].err, ErrClosed) {
			t.Errorf("after Close: %+v", c.list)
		}
		if r.buffers.memory != nil {
			t.Error("the memory is not given back")
		}
	})
}

// Files are closed after the reads that run.
func TestFileClosed(t *testing.T) {
	path, _ := written(t, 1000)
	f := open(t, path)
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	r := newReader(t, 1)
	var c came
	r.Read(c.piece(f, 0, 1))
	waitFor(r)
	if !errors.Is(c.list[0].err, fs.ErrClosed) {
		t.Error(c.list[0].err)
	}
}

// apart is so far that pieces are not read at once.
const apart = 32 << 10

// What is needed is read before what is guessed, guesses that turn out to be needed in their turn.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := troubled(t, 64*apart, func(int64, int) (int, error) {
			time.Sleep(time.Second)
			return whole, nil
		})
		r := newReader(t, 1)
		var c came
		at := func(i int64) *Piece { return c.piece(f, i*apart, 10) }
		guess, hurried, dropped, again := at(1), at(2), at(3), at(4)
		r.Read(at(0))
		r.Later(guess, hurried, dropped, again)
		r.Read(at(5))
		r.Hurry(hurried)
		r.Hurry(hurried)
		r.Read(again)
		r.Read(at(6))
		if !r.Drop(dropped) || r.Drop(dropped) {
			t.Error("a piece that waits is taken back once")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []int64{0, 5 * apart, 2 * apart, 4 * apart, 6 * apart, 1 * apart}
		if got := c.offsets(); !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
		if r.Drop(guess) {
			t.Error("a piece that came was taken back")
		}
	})
}

// No more pieces than the depth are read at once, and work on what came does not keep the disk idle.
func TestReadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading atomic.Int64
		f, _ := troubled(t, 64*apart, func(int64, int) (int, error) {
			reading.Add(1)
			time.Sleep(time.Second)
			reading.Add(-1)
			return whole, nil
		})
		r := newReader(t, 4)
		check := func(want int64, what string) {
			t.Helper()
			synctest.Wait()
			if got := reading.Load(); got != want {
				t.Errorf("%s: %d reads run, want %d", what, got, want)
			}
		}
		slow := func(i int64) *Piece {
			return &Piece{File: f, Offset: i * apart, Bytes: 10, Done: func([]byte, error) { time.Sleep(time.Hour) }}
		}
		for i := range int64(20) {
			r.Later(slow(i))
		}
		check(4, "guesses alone")
		for i := range int64(20) {
			r.Read(slow(20 + i))
		}
		check(4, "with urgent ones")
		time.Sleep(1500 * time.Millisecond)
		check(4, "while others are worked on")
		time.Sleep(time.Second)
		check(0, "with as much unread work as may be")
		time.Sleep(24 * time.Hour)
	})
}

// Memory is bounded; a single piece may be larger.
func TestMemoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	var held, most, large, larger atomic.Int64
	nothing := func(b []byte, _ int64) {
		if len(b) > MostBuffered {
			larger.Store(max(larger.Load(), large.Add(1)))
			defer large.Add(-1)
		} else {
			now := held.Add(int64(len(b)))
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			defer held.Add(-int64(len(b)))
		}
		runtime.Gosched()
	}
	f.source = pretended{f.source, nothing}
	r := newReader(t, 32)
	rng := rand.New(rand.NewPCG(3, 4))
	var wait sync.WaitGroup
	for i := range 400 {
		size := 1 << (10 + rng.IntN(13))
		if i%50 == 0 {
			size = 2 * MostBuffered
		}
		wait.Add(1)
		r.Read(&Piece{File: f, Offset: rng.Int64N(1 << 29), Bytes: size, Done: func(data []byte, err error) {
			if err != nil || len(data) != size {
				t.Errorf("%d bytes of %d: %v", len(data), size, err)
			}
			wait.Done()
		}})
	}
	wait.Wait()
	if most.Load() > mostReading || larger.Load() != 1 {
		t.Errorf("%d bytes were read at a time, and %d larger pieces", most.Load(), larger.Load())
	}
}

// Memory that was given back is there again, whole.
func TestBuffers(t *testing.T) {
	s, err := newBuffers()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	rng := rand.New(rand.NewPCG(8, 9))
	var taken []span
	for range 5000 {
		if len(taken) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(taken))
			s.put(taken[i])
			taken = slices.Delete(taken, i, i+1)
			continue
		}
		n := rng.Int64N(1 << (10 + rng.IntN(17)))
		b, ok := s.take(n)
		if !ok {
			continue
		}
		if b.end-b.at < n || b.at < 0 || b.end > MostBuffered || b.at%s.page != 0 {
			t.Fatalf("%+v for %d bytes", b, n)
		}
		for _, o := range taken {
			if b.at < o.end && o.at < b.end {
				t.Fatalf("%+v and %+v overlap", b, o)
			}
		}
		taken = append(taken, b)
	}
	for _, b := range taken {
		s.put(b)
	}
	if len(s.free) != 1 || s.free[0] != (span{end: MostBuffered}) {
		t.Errorf("free: %+v", s.free)
	}
}

// pretended reads nothing.
type pretended struct {
	source
	read func(b []byte, offset int64)
}

func (s pretended) readAt(b []byte, offset int64) (int, error) {
	s.read(b, offset)
	return len(b), nil
}

// Whatever is asked by several goroutines at a time, each piece comes once, or is taken back.
func TestEachPieceOnce(t *testing.T) {
	path, content := written(t, 1<<20)
	f := open(t, path)
	r := newReader(t, 3)
	const pieces = 600
	var counts, drops [pieces]atomic.Int32
	list := make([]*Piece, pieces)
	for i := range list {
		at := i * 1500
		list[i] = &Piece{File: f, Offset: int64(at), Bytes: 2000, Done: func(data []byte, err error) {
			counts[i].Add(1)
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			} else if err == nil && !bytes.Equal(data, content[at:at+2000]) {
				t.Errorf("piece %d has other bytes", i)
			}
		}}
	}
	var wait sync.WaitGroup
	for g := range 3 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(g)))
			for from := g * pieces / 3; from < (g+1)*pieces/3; from += 10 {
				if rng.IntN(2) == 0 {
					r.Read(list[from : from+10]...)
				} else {
					r.Later(list[from : from+10]...)
				}
				for range 5 {
					p := rng.IntN(pieces)
					if rng.IntN(2) == 0 {
						r.Hurry(list[p])
					} else if r.Drop(list[p]) {
						drops[p].Add(1)
					}
				}
				if g == 2 && from > pieces-60 {
					r.Close()
				}
			}
		})
	}
	wait.Wait()
	r.Close()
	for i := range list {
		if c, d := counts[i].Load(), drops[i].Load(); c+d != 1 {
			t.Errorf("piece %d came %d times and was taken back %d times", i, c, d)
		}
	}
}
