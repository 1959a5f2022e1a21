package disk

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Use counts what a Reader read.
type Use struct {
	Reads int64
	Bytes int64         // whole blocks of the file
	Busy  time.Duration // time in which a read was under way
	Sum   time.Duration // sum of the times of all reads: on average Sum/Busy were under way
}

// Since returns the counts since an earlier state.
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

// begin counts a read that begins while this many others are under way.
func (u *usage) begin(b *batch, others int) {
	b.began = monotime.Now()
	if others == 0 {
		u.from, u.before = b.began, u.Use
	}
}

// end counts a read that has ended while this many others are under way.
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

// Use returns what was read until now. Reads under way are not counted yet, except in Busy.
func (r *Reader) Use() Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage.Use
}

// Observe makes r call fn whenever the last running read has ended. fn gets the times, by monotime.Now, when the first
// of these reads began and the last one ended, and what was read meanwhile. It must be quick and must not call r. Call
// Observe before anything is read.
func (r *Reader) Observe(fn func(from, until time.Duration, of Use)) { r.usage.observe = fn }
