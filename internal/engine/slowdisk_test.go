package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
)

// TestSlowDisk: a disk that was measured at 100 MB/s for one read of 100 KB at a time, and at 400 for eight.
func TestSlowDisk(t *testing.T) {
	measured := disk.Speeds{{Bytes: 100e3, Depth: 1, Read: 100e6}, {Bytes: 100e3, Depth: 8, Read: 400e6}}
	for _, c := range []struct {
		name   string
		speeds disk.Speeds
		rate   float64 // bytes read per second
		depth  int     // reads at a time
		busy   time.Duration
		told   bool
	}{
		{"as measured, one at a time", measured, 100e6, 1, time.Minute, false},
		{"slower, but not much", measured, 60e6, 1, time.Minute, false},
		{"much slower", measured, 40e6, 1, time.Minute, true},
		{"fast for one at a time, slow for eight", measured, 120e6, 8, time.Minute, true},
		{"as fast with fewer reads than were measured", measured, 120e6, 4, time.Minute, false},
		{"slow for a moment", measured, 40e6, 1, time.Second, false},
		{"nobody measured", nil, 1e6, 1, time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := slowDisk{speeds: c.speeds}
			var use compute.UnitUse
			lines := 0
			for range 5 { // it is reported once
				bytes := int64(c.rate * c.busy.Seconds())
				use.Add(compute.UnitUse{Reads: bytes / 100e3, Bytes: bytes / 100e3 * 100e3, Busy: c.busy, Sum: time.Duration(c.depth) * c.busy})
				if line := s.look(use); line != "" {
					lines++
					if !strings.Contains(line, "MB/s") {
						t.Errorf("%q", line)
					}
				}
			}
			if (lines == 1) != c.told || lines > 1 {
				t.Errorf("told %d times", lines)
			}
		})
	}
}

// TestStoppedIsNotSlow: a process that is sometimes stopped for a minute while it reads does not report a slow disk.
func TestStoppedIsNotSlow(t *testing.T) {
	s := slowDisk{speeds: disk.Speeds{{Bytes: 100e3, Depth: 1, Read: 100e6}}}
	var use compute.UnitUse
	for i := range 100 {
		of := compute.UnitUse{Reads: 1000, Bytes: 100e6, Busy: time.Second, Sum: time.Second}
		if i%25 == 20 {
			of.Busy, of.Sum = of.Busy+time.Minute, of.Sum+time.Minute
		}
		use.Add(of)
		if line := s.look(use); line != "" {
			t.Errorf("after %d seconds: %q", i, line)
		}
	}
}

// TestUnreadIsToldOnce: what cannot be read ahead of need is told in one line, which names the error.
func TestUnreadIsToldOnce(t *testing.T) {
	var lines []string
	e := &Engine{options: Options{Notice: func(line string) { lines = append(lines, line) }}}
	for _, err := range []error{nil, errors.New("m.gguf cannot be read at byte 4096"), errors.New("nor here")} {
		e.tellUnread(err)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "m.gguf cannot be read at byte 4096") {
		t.Errorf("%q", lines)
	}
}
