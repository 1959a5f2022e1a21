package progress

import (
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// Remaining tells once how long a task will take, from how long its beginning took.
type Remaining struct {
	Now   func() time.Time
	Out   func(string) // takes the note
	begin time.Time    // beginning of the work; for bytes, when the first of them were done, since reading a vocabulary may come before them
	first float64      // the share that was done at begin
	parts string       // what the task consists of, for the note: "windows of 512 tokens"; empty: bytes
	told  bool
}

// enough is the time after which the speed of a task that is counted in bytes is known.
const enough = time.Second

// NewRemaining returns the clock of a task that consists of these parts, such as windows; "" means bytes.
func NewRemaining(parts string) *Remaining {
	r := &Remaining{Now: time.Now, Out: screen.Note, parts: parts}
	if parts != "" {
		r.begin = r.Now()
	}
	return r
}

// Starts tells that the work begins now.
func (r *Remaining) Starts() { r.begin = r.Now() }

// Foretold tells that a task of total parts is expected to take the time whole, so that Set tells nothing. bar shows that
// it runs.
func (r *Remaining) Foretold(total int, whole time.Duration, bar *Bar) {
	r.told = true
	if whole <= Patience() {
		return
	}
	bar.Begun()
	r.tell(whole, int64(total))
	bar.Begins()
}

// Set tells how much is done: one part, or some of the bytes, says how long all take.
func (r *Remaining) Set(done, total int64) {
	r.Share(float64(done)/float64(total), total)
}

// Share is Set for parts that take unlike times: those that are done are this share of the work.
func (r *Remaining) Share(done float64, total int64) {
	if r.told || done <= 0 {
		return
	}
	if r.begin.IsZero() {
		r.begin, r.first = r.Now(), done
	}
	took := r.Now().Sub(r.begin)
	if done <= r.first || r.parts == "" && took < enough {
		return
	}
	r.told = true
	whole := time.Duration(float64(took) / (done - r.first))
	if whole <= Patience() {
		return
	}
	r.tell(whole, total)
}

func (r *Remaining) tell(whole time.Duration, total int64) {
	line := fmt.Sprintf("about %s", quantity.Time(whole))
	if r.parts != "" {
		line = fmt.Sprintf("%s for %d %s", line, total, r.parts)
	}
	r.Out(line)
}
