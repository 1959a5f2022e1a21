package disk

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Use counts what a Reader read.
type Use struct {
	Reads int64
	Bytes int64         // whole blocks of the file
	Busy  time.Duration // in which a read was under way
	Sum   time.Duration // of the times that reads took: Sum/Busy were under way at a time
}

// Since returns what was counted after then, an earlier state.
func (u Use) Since(then Use) Use {
	return Use{u.Reads - then.Reads, u.Bytes - then.Bytes, u.Busy - then.Busy, u.Sum - then.Sum}
}

// usage counts for a Reader. Its mu guards it.
type usage struct {
	Use
	from    time.Duration                           // monotime.Now when the first of the reads under way began
	before  Use                                     // what was counted then
	observe func(from, until time.Duration, of Use) // see Observe
}

// begin counts a read that begins while so many others are under way.
func (u *usage) begin(b *batch, others int) {
	b.began = monotime.Now()
	if others == 0 {
		u.from, u.before = b.began, u.Use
	}
}

// end counts a read that has ended while so many others are under way.
func (u *usage) end(b *batch, others int) {
	now := monotime.Now()
	u.Reads++
	u.Bytes += b.to - b.from
	u.Sum += now - b.began
	if others > 0 {
		return
	}
	u.Busy += now - u.from
	if u.observe != nil {
		u.observe(u.from, now, u.Use.Since(u.before))
	}
}

// Use returns what was read until now; of reads under way only bytes and times of those that ended.
func (r *Reader) Use() Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage.Use
}

// Observe makes r call fn whenever the last read that was under way has ended. fn gets the times, by monotime.Now, when the
// first of these reads began and the last one ended, and what was read meanwhile. It must be quick and must not call r. It
// is set before anything is read.
func (r *Reader) Observe(fn func(from, until time.Duration, of Use)) { r.usage.observe = fn }
