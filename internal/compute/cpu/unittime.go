package cpu

import (
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Trace has reads from disk, and waiting for them, kept in l, which may be nil. It goes before Keep.
func (d *Device) Trace(l *trace.Log) { d.units.trace = l }

// traceReads keeps when r reads.
func traceReads(l *trace.Log, r *disk.Reader) {
	if l == nil {
		return
	}
	r.Observe(func(from, until time.Duration, of disk.Use) {
		end := l.Now() - monotime.Since(until)
		l.Between(trace.Disk, fmt.Sprintf("%d reads, %.1f MB", of.Reads, float64(of.Bytes)/1e6), end-(until-from), end)
	})
}

// waited counts the time since from, which a step spent waiting for reads.
func (s *store) waited(from time.Duration, b *bundle) {
	took := monotime.Since(from)
	s.use.Wait += took
	if s.trace != nil {
		end := s.trace.Now()
		s.trace.Between(trace.DiskWaits, b.parts[0].m.Name, end-took, end)
	}
}
