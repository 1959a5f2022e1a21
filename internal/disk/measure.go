package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// What Measure tries.
var (
	measuredSizes  = []int64{4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
	measuredDepths = []int{1, 2, 4, 8, 16, 32, 64}
	inOrder        = Speed{Bytes: 1 << 20, Depth: 8, InOrder: true}
)

const (
	// trial is the time of one measurement of a speed. Other programs use the disk, too, so the best of several trials
	// counts: as many as there is time for.
	trial    = 22 * time.Millisecond
	mostTime = 3 * time.Second
	// patience is the time that Measure waits for reads under way after mostTime. A slow disk, or one that the system
	// holds back, may need minutes for them.
	patience = time.Second
	// temporary is the size of the file that is written to measure with, within what mostWriting allows. [bytes]
	temporary   = 256 << 20
	mostWriting = 3 * time.Second
)

// Measure measures how fast the disk of path is read, in some 3 seconds, and 4 at most. path is a file of at least 64
// MiB that is only read, or a folder where 256 MiB may be written for it, which takes up to 3 seconds more. For a slow
// disk only some sizes and depths are measured. progress, which may be nil, gets the time spent and the time needed.
func Measure(ctx context.Context, path string, progress func(done, total int64)) (Speeds, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	f, spent, err := measurable(ctx, path, progress)
	if err != nil {
		return nil, err
	}
	s, err := measure(ctx, f, trial, mostTime, func(done, total int64) { progress(int64(spent)+done, int64(spent)+total) })
	go f.Close() // which waits for reads that took too long
	return s, err
}

// measure tries all sizes and depths, again and again until the time is over, few reads at once first, to see whether
// more would take too long.
func measure(ctx context.Context, f *File, trial, most time.Duration, progress func(done, total int64)) (Speeds, error) {
	var tries Speeds
	for _, depth := range measuredDepths {
		for _, size := range measuredSizes {
			if size*int64(depth) <= mostReading && size <= f.Size() {
				tries = append(tries, Speed{Bytes: size, Depth: depth})
			}
		}
		if depth == 1 {
			tries = append(tries, inOrder)
		}
	}
	rng := rand.New(rand.NewPCG(uint64(f.Size()), 1))
	slow := map[int64]int{} // the depth from which on pieces of a size take long: more at once are not faster
	begin, last := monotime.Now(), time.Duration(0)
	for round := 0; round == 0 || monotime.Since(begin)+last < most; round++ {
		began := monotime.Now()
		for i := range tries {
			s := &tries[i]
			spent := monotime.Since(begin)
			if d, ok := slow[s.Bytes]; ok && s.Depth > d && (!s.InOrder || spent >= patience) {
				continue
			}
			if spent >= most+patience || spent >= most && s.Depth > 1 && !s.InOrder {
				break
			}
			read, took, err := s.take(ctx, f, trial, most+patience-spent, rng)
			if err != nil {
				return nil, err
			}
			if s.Read = max(s.Read, read); took > 4*trial && !s.InOrder {
				slow[s.Bytes] = s.Depth
			}
			progress(int64(min(monotime.Since(begin), most)), int64(most))
		}
		last = monotime.Since(began)
	}
	progress(int64(most), int64(most))
	list := slices.DeleteFunc(tries, func(s Speed) bool { return s.Read == 0 })
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: reading %d bytes takes longer than %v, so that the disk cannot be measured; try again when it is less busy", f.path, measuredSizes[0], most+patience)
	}
	return list, list.Check()
}

// LeastMeasured is the size of file that measuring a disk needs. [bytes]
const LeastMeasured = 64 << 20

// measurable opens a file to measure with, and returns how long writing it may have taken.
func measurable(ctx context.Context, path string, progress func(done, total int64)) (f *File, spent time.Duration, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if info.IsDir() {
		f, err = writeTemporary(ctx, path, func(done time.Duration) { progress(int64(done), int64(mostWriting+mostTime)) })
		return f, mostWriting, err
	}
	if f, err = Open(path); err != nil {
		return nil, 0, err
	}
	if f.Size() < LeastMeasured {
		f.Close()
		return nil, 0, fmt.Errorf("%s has %d bytes, too few to measure a disk with; name a file of at least %d MiB, or a folder where %d MiB may be written",
			path, f.Size(), LeastMeasured>>20, temporary>>20)
	}
	return f, 0, nil
}

// writeTemporary writes a file in folder, as much as mostWriting allows. The file is removed when it is closed, or
// earlier.
func writeTemporary(ctx context.Context, folder string, progress func(spent time.Duration)) (*File, error) {
	w, err := os.CreateTemp(folder, "powerinfer-disk-*.tmp")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	fail := func(err error) (*File, error) {
		w.Close()
		return nil, errors.Join(err, os.Remove(w.Name()))
	}
	uncache(w)
	const synced = 16 << 20                                           // so that data the system has yet to write does not add up
	block, random := make([]byte, 1<<20), rand.NewChaCha8([32]byte{}) // data that a disk cannot compress
	begin := monotime.Now()
	for n := len(block); n <= temporary && (n <= synced || monotime.Since(begin) < mostWriting); n += len(block) {
		_, _ = random.Read(block)
		_, err := w.Write(block)
		if err == nil && n%synced == 0 {
			err = w.Sync()
			progress(min(monotime.Since(begin), mostWriting))
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return fail(err)
		}
	}
	if err := w.Sync(); err != nil {
		return fail(err)
	}
	uncache(w)
	f, err := Open(w.Name())
	if err != nil {
		return fail(err)
	}
	w.Close()
	if os.Remove(f.path) != nil { // open files cannot be removed here
		f.source = removed{f.source, f.path}
	}
	return f, nil
}

// removed is a file that is removed when it is closed.
type removed struct {
	source
	path string
}

func (r removed) Close() error { return errors.Join(r.source.Close(), os.Remove(r.path)) }

// take measures how many bytes are read in a second. It reads Depth pieces at once; each is read again at another
// offset when it has come. took is the time of the measurement. After most it leaves running reads to themselves.
func (s *Speed) take(ctx context.Context, f *File, trial, most time.Duration, rng *rand.Rand) (perSecond float64, took time.Duration, err error) {
	r, err := NewReader(s.Depth)
	if err != nil {
		return 0, 0, err
	}
	blocks := f.Size() / s.Bytes
	var (
		mu    sync.Mutex // of the following fields, rng included
		next  int64
		read  int64
		over  bool
		left  = s.Depth
		ended = make(chan struct{})
		begin = monotime.Now()
	)
	place := func(p *Piece) { // mu is held, or nothing runs
		block := next % blocks
		if next++; !s.InOrder {
			block = rng.Int64N(blocks)
		}
		p.Offset = block * s.Bytes
	}
	pieces := make([]*Piece, s.Depth)
	for i := range pieces {
		p := &Piece{File: f, Bytes: int(s.Bytes)}
		p.Done = func(data []byte, failed error) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				return
			}
			read, took = read+int64(len(data)), monotime.Since(begin)
			if err = errors.Join(err, failed, ctx.Err()); err == nil && took < trial {
				place(p)
				r.Read(p)
				return
			}
			if left--; left == 0 {
				close(ended)
			}
		}
		place(p)
		pieces[i] = p
	}
	for _, p := range pieces {
		r.Read(p)
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-ended:
		r.Close()
	case <-ctx.Done():
		go r.Close()
	case <-late.C:
		go r.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if over = true; left > 0 {
		took, err = monotime.Since(begin), errors.Join(err, ctx.Err())
	}
	took = max(took, 1) // a clock may be coarse
	return float64(read) / took.Seconds(), took, err
}
