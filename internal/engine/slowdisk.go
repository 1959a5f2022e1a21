package engine

import (
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
)

// Reads from disk are measured over windows of slowWindow in which some were under way. They are slow if their speed is
// below slowShare of the speed measured earlier, in slowOften windows in a row: a machine that sleeps, or a process
// that is stopped, makes reads seem slow once.
const (
	slowWindow = 10 * time.Second
	slowShare  = 0.5
	slowOften  = 3
)

// slowDisk reports once that reads are much slower than measured earlier.
type slowDisk struct {
	speeds disk.Speeds // empty: the disk was not measured, or the report was made
	since  compute.UnitUse
	slow   int // latest slow windows in a row
}

// look returns the report after a step with the counts use; empty: nothing to report.
func (s *slowDisk) look(use compute.UnitUse) string {
	if len(s.speeds) == 0 {
		return ""
	}
	u := use.Since(s.since)
	if u.Busy < slowWindow || u.Reads == 0 {
		return ""
	}
	s.since = use
	rate := float64(u.Bytes) / u.Busy.Seconds()
	depth := max(1, int(float64(u.Sum)/float64(u.Busy))) // reads that were under way at a time
	expected := s.speeds.AtDepth(u.Bytes/u.Reads, depth)
	if rate >= slowShare*expected {
		s.slow = 0
		return ""
	}
	if s.slow++; s.slow < slowOften {
		return ""
	}
	s.speeds = nil
	return fmt.Sprintf("the disk was read at %.0f MB/s in the last while, and so at %.0f when it was measured: other programs may be using it or all of the processor, or it is too hot",
		rate/1e6, expected/1e6)
}
