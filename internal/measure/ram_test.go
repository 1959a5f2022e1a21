package measure

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// slow is memory with figures that differ between attempts: [attempt][threads-1], in GB/s.
type slow struct {
	streams, scattered [][]float64
	calls              *int // of stream
}

func (s slow) size() int64 { return 1 << 30 }

func (s slow) stream(threads int) (float64, string, error) {
	v := s.streams[*s.calls/2][threads-1]
	*s.calls++
	return v * 1e9, "plain loads", nil
}

func (s slow) rows(threads, _ int) float64 { return s.scattered[(*s.calls-1)/2][threads-1] * 1e9 }

// TestDoubtfulFigures: contradictory figures, and those taken while other programs ran, are taken again, at most three
// times. The fastest stay, and doubts that remain are reported.
func TestDoubtfulFigures(t *testing.T) {
	for name, c := range map[string]struct {
		streams, scattered [][]float64 // [attempt][threads]
		busy               []int       // before and after each attempt
		want               []RAM
		tries              int
		doubts             []string // beginnings
	}{
		"good": {
			streams: [][]float64{{10, 18}}, scattered: [][]float64{{5, 9}}, busy: []int{0, 0}, tries: 1,
			want: []RAM{{Threads: 1, Stream: 10e9}, {Threads: 2, Stream: 18e9}},
		},
		"in order slower than rows, once": {
			streams: [][]float64{{5, 7}, {14, 20}}, scattered: [][]float64{{12, 16}, {11, 15}}, busy: []int{0, 0, 0, 0}, tries: 2,
			want: []RAM{{Threads: 1, Stream: 14e9}, {Threads: 2, Stream: 20e9}},
		},
		"in order slower than rows, always": {
			streams: [][]float64{{5, 7}, {5, 7}, {6, 7}}, scattered: [][]float64{{12, 7}, {12, 7}, {12, 7}}, busy: make([]int, 6), tries: 3,
			want:   []RAM{{Threads: 1, Stream: 6e9}, {Threads: 2, Stream: 7e9}},
			doubts: []string{"1 thread read scattered rows of 2304 bytes at 12.0 GB/s, but memory in order at 6.0", "1 thread read scattered rows of 8192"},
		},
		"two threads slower than one": {
			streams: [][]float64{{10, 4}, {10, 5}, {10, 5}}, scattered: [][]float64{{3, 3}, {3, 3}, {3, 3}}, busy: make([]int, 6), tries: 3,
			want:   []RAM{{Threads: 1, Stream: 10e9}, {Threads: 2, Stream: 5e9}},
			doubts: []string{"2 threads read at 5.0 GB/s, but 1 thread at 10.0"},
		},
		"busy at first": {
			streams: [][]float64{{3, 4}, {10, 18}}, scattered: [][]float64{{3, 3}, {5, 9}}, busy: []int{1, 0, 0, 0}, tries: 2,
			want: []RAM{{Threads: 1, Stream: 10e9}, {Threads: 2, Stream: 18e9}},
		},
		"busy": {
			streams: [][]float64{{3, 4}, {3, 4}, {3, 5}}, scattered: [][]float64{{3, 3}, {3, 3}, {3, 3}}, busy: []int{4, 5, 3, 3, 0, 6}, tries: 3,
			want:   []RAM{{Threads: 1, Stream: 3e9}, {Threads: 2, Stream: 5e9}},
			doubts: []string{"other programs were busy with 3 tasks"},
		},
	} {
		calls, asked, steps, more := 0, 0, 0, 0
		m := Machine{Cores: 2}
		busy := func() int { asked++; return c.busy[asked-1] }
		err := m.measureRAM(t.Context(), slow{c.streams, c.scattered, &calls}, busy, func() { steps++ }, func() { more += ramSteps(2) })
		if err != nil || calls != 2*c.tries || steps != ramSteps(2)+more {
			t.Errorf("%s: %v after %d attempts and %d steps, want %d attempts", name, err, calls/2, steps, c.tries)
		}
		same := func(a, b RAM) bool { return a.Threads == b.Threads && a.Stream == b.Stream }
		if !slices.EqualFunc(m.RAM, c.want, same) {
			t.Errorf("%s: %+v, want %+v", name, m.RAM, c.want)
		}
		if !slices.EqualFunc(m.Taken.Doubts, c.doubts, strings.HasPrefix) {
			t.Errorf("%s: doubts %q, want %q", name, m.Taken.Doubts, c.doubts)
		}
		if m.Taken.Buffer != 1<<30 || time.Since(m.Taken.At) > time.Hour {
			t.Errorf("%s: %+v", name, m.Taken)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m := Machine{Cores: 2}
	if err := m.measureRAM(ended, slow{calls: new(int)}, func() int { return 0 }, func() {}, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Doubtful figures are not kept for good: they are measured again as soon as that can give better ones.
func TestDue(t *testing.T) {
	doubts := []string{"x"}
	for _, c := range []struct {
		taken Taken
		busy  int
		want  bool
	}{
		{Taken{}, 0, false},
		{Taken{Busy: 1}, 0, false}, // of so many cores that it did not matter
		{Taken{Doubts: doubts}, 0, true},
		{Taken{Doubts: doubts}, 9, true},
		{Taken{Doubts: doubts, Busy: 4}, 0, true},
		{Taken{Doubts: doubts, Busy: 4}, 1, true},
		{Taken{Doubts: doubts, Busy: 4}, 2, false},
		{Taken{Doubts: doubts, Busy: 4}, 20, false},
	} {
		if got := c.taken.due(c.busy); got != c.want {
			t.Errorf("%+v with %d busy: due %v", c.taken, c.busy, got)
		}
	}
	path := filepath.Join(t.TempDir(), "machine.json")
	m := example()
	now := This(nil)
	m.CPU, m.Cores, m.Memory, m.GPUs = now.CPU, now.Cores, now.Memory, nil
	for _, c := range []struct {
		taken *Taken
		want  bool
	}{{nil, false}, {&Taken{}, true}, {&Taken{Doubts: doubts}, false}} {
		m.Taken = c.taken
		if err := m.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, ok := Cached(path, nil); ok != c.want {
			t.Errorf("%+v: kept %v", c.taken, ok)
		}
	}
}
