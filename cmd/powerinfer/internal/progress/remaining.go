package progress

import (
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// Remaining prints once how long a task will take, estimated from its beginning.
type Remaining struct {
	Now   func() time.Time
	Out   func(string) // gets the note
	begin time.Time    // beginning of the work; for bytes the time of the first ones, after the vocabulary was read
	first float64      // share that was done at begin
	parts string       // the task's parts for the note, such as "windows of 512 tokens"; empty: bytes
	told  bool
}

// enough is the time after which the speed of a task in bytes is known.
const enough = time.Second

// NewRemaining returns the clock of a task with these parts; "" means bytes.
func NewRemaining(parts string) *Remaining {
	r := &Remaining{Now: time.Now, Out: screen.Note, parts: parts}
	if parts != "" {
		r.begin = r.Now()
	}
	return r
}

// Starts says that the work begins now.
func (r *Remaining) Starts() { r.begin = r.Now() }

// Foretold prints the expected time whole of a task with total parts. Set then prints nothing. bar shows that the task
// runs.
func (r *Remaining) Foretold(total int, whole time.Duration, bar *Bar) {
	r.told = true
	if whole <= Patience() {
		return
	}
	bar.Begun()
	r.tell(whole, int64(total))
	bar.Begins()
}

// Set sets how much is done. One part, or some of the bytes, gives the estimate.
func (r *Remaining) Set(done, total int64) {
	r.Share(float64(done)/float64(total), total)
}

// Share is Set for parts of unequal length: done is the share of the work that is done.
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
