package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is measured covers all sizes, and is read as a Reader reads.
func TestMeasure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.Truncate(path, LeastMeasured); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	last := int64(0)
	s, err := measure(t.Context(), f, time.Microsecond, time.Microsecond, func(done, total int64) {
		if done < last || done > total {
			t.Errorf("%d of %d are done after %d", done, total, last)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range measuredSizes {
		if !slices.ContainsFunc(s, func(v Speed) bool { return v.Bytes == size && v.Depth == 1 && !v.InOrder }) {
			t.Errorf("pieces of %d bytes were not measured", size)
		}
	}
	if s.InOrder() <= 0 || s.At(4096) <= 0 {
		t.Errorf("%+v", s)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(gone, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled measurement: %v", err)
	}
	if _, err := Measure(gone, filepath.Dir(path), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled measurement: %v", err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("%v: %d files are left, want 1", err, len(list))
	}
}

// slow is a source whose reads take a time for each byte, one after the other, as a throttled disk's do.
type slow struct {
	source
	perByte time.Duration
	turn    chan struct{}
}

func (s *slow) readAt(b []byte, offset int64) (int, error) {
	s.turn <- struct{}{}
	time.Sleep(time.Duration(len(b)) * s.perByte)
	<-s.turn
	return len(b), nil
}

// However slow a disk is, measuring it takes some seconds.
func TestMeasureSlowDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, LeastMeasured); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		perByte time.Duration
		at      int64 // a size that is measured; 0: none is
	}{
		"500 MB/s":          {2 * time.Nanosecond, 4 << 20},
		"10 MB/s":           {100 * time.Nanosecond, 1 << 20},
		"100 KB/s":          {10 * time.Microsecond, 8 << 10},
		"a second a sector": {time.Second / 512, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := open(t, path)
				f.source = &slow{f.source, c.perByte, make(chan struct{}, 1)}
				t.Cleanup(func() { time.Sleep(time.Hour) }) // until all reads have come
				begin, last, lines := time.Now(), int64(0), 0
				s, err := measure(t.Context(), f, trial, mostTime, func(done, total int64) {
					if lines++; done < last || done > total {
						t.Errorf("%d of %d are done after %d", done, total, last)
					}
					last = done
				})
				if took := time.Since(begin); took > mostTime+patience+time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if c.at == 0 {
					if err == nil || !strings.Contains(err.Error(), path) {
						t.Errorf("%v; want an error that names the file", err)
					}
					return
				}
				if err != nil || lines < 2 {
					t.Fatalf("%v after %d lines of progress", err, lines)
				}
				want := 1e9 / float64(c.perByte.Nanoseconds())
				if got := s.At(c.at); got < 0.5*want || got > 1.1*want {
					t.Errorf("pieces of %d are read at %g bytes/s, want %g", c.at, got, want)
				}
			})
		})
	}
}
