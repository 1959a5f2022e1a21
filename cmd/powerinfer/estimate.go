package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// expects reports whether a command says what it will take: where somebody looks on, or asked for it.
func expects(c *cli.Command) bool {
	return c.Bool("verbose") || stderr.IsTerminal()
}

// readsOnly is expect's number of tokens for commands that generate nothing.
const readsOnly = -1

// expect has o tell on standard error what loading a model takes of memory, and how long generating so many tokens will
// then take; 0: their number is not known.
func expect(c *cli.Command, o *powerinfer.Options, tokens int) {
	if !expects(c) {
		return
	}
	last := ""
	o.Expect = func(m powerinfer.Memory, rate float64) {
		if line := expectation(m, rate, tokens); line != last { // it is told again where a GPU fails
			last = line
			note(line)
		}
	}
}

// mostLimited is the rate, in tokens per second, from which on memory is not what limits generation: the model lies in
// the processor's caches.
const mostLimited = 1000

// expectation says in a line what a model takes.
func expectation(m powerinfer.Memory, rate float64, tokens int) string {
	gib := func(n int64) float64 { return float64(n) / (1 << 30) }
	line := "about " + m.Parts() + " of memory"
	if m.Available > 0 {
		line += fmt.Sprintf(", of %.1f GiB that are free", gib(m.Available))
	}
	if m.OnGPUs > 0 {
		line += fmt.Sprintf(", and %.2f GiB on GPUs", gib(m.OnGPUs))
	}
	if m.OnDisk > 0 {
		line += fmt.Sprintf("; %.2f GiB stay on the disk", gib(m.OnDisk))
	}
	if rate > 0 && rate < mostLimited && tokens != readsOnly {
		line += fmt.Sprintf("; generates at most about %.1f tokens/s", rate)
		if whole := time.Duration(float64(tokens) / rate * float64(time.Second)); whole > patience() {
			line += fmt.Sprintf(", %s for %s", whole.Round(time.Second), count(tokens, "token"))
		}
	}
	return line
}

// remaining tells once how long a task will take, by how long the beginning of it took.
type remaining struct {
	now   func() time.Time
	out   func(string) // where the note goes
	begin time.Time    // of the work: for bytes, when the first of them were done, since reading a vocabulary may come before them
	first float64      // the share that was done at begin
	parts string       // what the task consists of, for the note: "windows of 512 tokens"; empty: bytes
	told  bool
}

// enough is the time after which the speed of a task that is counted in bytes is known.
const enough = time.Second

func newRemaining(parts string) *remaining {
	r := &remaining{now: time.Now, out: note, parts: parts}
	if parts != "" {
		r.begin = r.now()
	}
	return r
}

// foretold tells that the task, of so many parts, is expected to take so long, so that set tells nothing. bar shows
// that it runs.
func (r *remaining) foretold(total int, whole time.Duration, bar *progress) {
	r.told = true
	if whole <= patience() {
		return
	}
	bar.begun()
	r.tell(whole, int64(total))
	bar.begins()
}

// set tells that done of total are done: one part, or some of the bytes, says how long all take.
func (r *remaining) set(done, total int64) {
	r.share(float64(done)/float64(total), total)
}

// share is set for parts that take unlike times: those done are such a share of the work.
func (r *remaining) share(done float64, total int64) {
	if r.told || done <= 0 {
		return
	}
	if r.begin.IsZero() {
		r.begin, r.first = r.now(), done
	}
	took := r.now().Sub(r.begin)
	if done <= r.first || r.parts == "" && took < enough {
		return
	}
	r.told = true
	whole := time.Duration(float64(took) / (done - r.first))
	if whole <= patience() {
		return
	}
	r.tell(whole, total)
}

func (r *remaining) tell(whole time.Duration, total int64) {
	line := fmt.Sprintf("about %s", roundTime(whole))
	if r.parts != "" {
		line = fmt.Sprintf("%s for %d %s", line, total, r.parts)
	}
	r.out(line)
}
