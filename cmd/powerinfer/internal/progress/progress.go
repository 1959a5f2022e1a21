// Package progress shows how far a command's work is: a bar with rate and time left on a terminal, plain lines
// elsewhere. Tasks within the user's patience show nothing.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Unit names the things that a bar counts.
type Unit int

// Units.
const (
	Bytes Unit = iota
	Tokens
	Runs
	Windows // windows of a text's tokens
	Time    // nanoseconds of expected work, which are not shown
)

// usualPatience is the time after which a task shows its progress, lineEvery the time between plain lines.
const (
	usualPatience = 2 * time.Second
	lineEvery     = 5 * time.Second
)

// Patience returns how long a task runs, or should take, before it shows anything: the default, or POWERINFER_PATIENCE,
// such as 1h for programs that read standard error.
func Patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("POWERINFER_PATIENCE")); err == nil {
		return d
	}
	return usualPatience
}

// barThrottle is the time between two redraws of a bar.
const barThrottle = 100 * time.Millisecond

// Bar shows a task once it has run longer than its patience: a bar with rate and time left on a terminal, plain
// lines elsewhere.
type Bar struct {
	mu       sync.Mutex
	patience time.Duration
	what     string
	unit     Unit
	out      io.Writer
	now      func() time.Time
	begin    time.Time
	lastLine time.Time
	total    int64
	bar      *progressbar.ProgressBar // if out is a terminal that can move its cursor; writes through late
	waiting  *time.Timer              // until the task of Begins has made progress
	waited   bool                     // the running time was shown
}

// late drops output until p has run for its patience: the bar computes its rate from its creation, at the task's
// beginning.
type late struct{ p *Bar }

func (l late) Write(b []byte) (int, error) {
	if l.p.now().Sub(l.p.begin) < l.p.patience {
		return len(b), nil
	}
	return l.p.out.Write(b)
}

// New returns a task's bar on standard error. what names the task, u is its unit.
func New(what string, u Unit) *Bar {
	tty := screen.Err.IsTerminal() && os.Getenv("TERM") != "dumb"
	return start(what, u, screen.Err.Styled(), tty, time.Now, Patience())
}

func start(what string, u Unit, out io.Writer, tty bool, now func() time.Time, patience time.Duration) *Bar {
	p := &Bar{patience: patience, what: terminal.Clean(what), unit: u, out: out, now: now, begin: now()}
	if tty {
		p.bar = p.newBar()
	}
	return p
}

// waitEvery is the time between two redraws of the running time before any progress.
const waitEvery = time.Second

// Begins says that the task runs now and that its first part may take long. Its running time is shown until Begun.
func (p *Bar) Begins() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin = p.now()
	p.waiting = time.AfterFunc(p.patience, p.wait)
}

func (p *Bar) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return
	}
	p.waited = true
	ran := p.now().Sub(p.begin).Round(time.Second)
	if p.bar != nil {
		fmt.Fprintf(p.out, "\r%s: 0 %% (%s)", p.what, ran)
		p.waiting.Reset(waitEvery)
		return
	}
	fmt.Fprintf(p.out, "%s: 0 %% (%s)\n", p.what, ran)
	p.waiting.Reset(lineEvery)
}

// Starts says that the task, which waited for another, runs now.
func (p *Bar) Starts() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin = p.now()
	if p.bar != nil {
		p.bar = p.newBar() // its rate counts from its creation
	}
}

// Begun says that the task has made progress, and clears the terminal's line.
func (p *Bar) Begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return
	}
	p.waiting.Stop()
	p.waiting = nil
	if p.waited && p.bar != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// Count is Set for ints.
func (p *Bar) Count(done, total int) { p.Set(int64(done), int64(total)) }

// Set sets how much is done.
func (p *Bar) Set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done <= 0 || total <= 0 {
		return
	}
	if p.bar != nil {
		if p.total != total {
			p.total = total
			p.bar.ChangeMax64(total)
		}
		_ = p.bar.Set64(done)
		return
	}
	now := p.now()
	elapsed := now.Sub(p.begin)
	if elapsed < p.patience || now.Sub(p.lastLine) < lineEvery {
		return
	}
	p.lastLine = now
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done)).Round(time.Second)
	rate := float64(done) / elapsed.Seconds()
	percent := 100 * done / total
	if percent < 1 { // too little to estimate the rest
		fmt.Fprintf(p.out, "%s: %d %%\n", p.what, percent)
		return
	}
	if p.unit == Time {
		fmt.Fprintf(p.out, "%s: %d %% (%s left)\n", p.what, percent, left)
		return
	}
	fmt.Fprintf(p.out, "%s: %d %% (%s, %s left)\n", p.what, percent, p.unit.rate(rate), left)
}

// Say sets the name of the task's present part.
func (p *Bar) Say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what = terminal.Clean(what); p.bar != nil {
		p.bar.Describe(p.what)
	}
}

func (u Unit) rate(perSecond float64) string {
	switch u {
	case Bytes:
		return fmt.Sprintf("%.0f MB/s", perSecond/1e6)
	case Tokens:
		return fmt.Sprintf("%.1f tokens/s", perSecond)
	}
	return fmt.Sprintf("%.2f/s", perSecond)
}

// Columns of a bar: usualBar if the terminal is wide enough, and at least leastBar. besideBar is the width of the rest
// of the line without the task's name: the share, the amounts, the rate and the times.
const (
	usualBar  = 30
	leastBar  = 5
	besideBar = 50
)

// barWidth returns the columns of the bar itself, so that its line fits the terminal.
func (p *Bar) barWidth() int {
	s, ok := p.out.(interface{ Size() (columns, rows int) })
	if !ok {
		return usualBar
	}
	columns, _ := s.Size()
	if columns <= 0 {
		return usualBar
	}
	return min(usualBar, max(leastBar, columns-utf8.RuneCountInString(p.what)-besideBar))
}

// newBar makes a bar without colours, for the sake of NO_COLOR.
func (p *Bar) newBar() *progressbar.ProgressBar {
	o := []progressbar.Option{
		progressbar.OptionSetWriter(late{p}), progressbar.OptionSetDescription(p.what),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(p.barWidth()), progressbar.OptionThrottle(barThrottle), progressbar.OptionClearOnFinish(),
	}
	if p.unit != Time {
		o = append(o, progressbar.OptionShowCount())
	}
	switch p.unit {
	case Bytes:
		o = append(o, progressbar.OptionShowBytes(true)) // with their rate
	case Tokens:
		o = append(o, progressbar.OptionShowIts(), progressbar.OptionSetItsString("tokens"))
	case Runs:
		o = append(o, progressbar.OptionShowIts(), progressbar.OptionSetItsString("runs"))
	case Windows:
		o = append(o, progressbar.OptionShowIts(), progressbar.OptionSetItsString("windows"))
	}
	return progressbar.NewOptions64(1, o...)
}

// Finish clears the bar.
func (p *Bar) Finish() {
	p.Begun()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil && p.total > 0 {
		_ = p.bar.Finish()
	}
}
