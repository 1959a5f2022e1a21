package disk

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestUse: what a reader counts is what it read, the times in which it read do not overlap, and together they are the
// time in which it was busy.
func TestUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader(4)
	if err != nil {
		t.Fatal(err)
	}
	var told Use // guarded by the reader's lock until it is closed
	var until time.Duration
	r.Observe(func(from, to time.Duration, of Use) {
		if from < until || to < from || of.Busy != to-from {
			t.Errorf("%v to %v after %v, busy for %v", from, to, until, of.Busy)
		}
		until = to
		told = Use{told.Reads + of.Reads, told.Bytes + of.Bytes, told.Busy + of.Busy, told.Sum + of.Sum}
	})
	var all sync.WaitGroup
	for i := range int64(64) {
		all.Add(1)
		r.Read(&Piece{File: f, Offset: i * 16 << 10, Bytes: 8 << 10, Done: func(_ []byte, err error) {
			defer all.Done()
			if err != nil {
				t.Error(err)
			}
		}})
		if i%16 == 15 {
			all.Wait()
		}
	}
	r.Close()
	u := r.Use()
	if u != told || u.Reads < 1 || u.Reads > 64 || u.Bytes < 64*8<<10 || u.Bytes > 1<<20 || u.Sum < u.Busy {
		t.Errorf("%+v were counted, %+v told", u, told)
	}
}
