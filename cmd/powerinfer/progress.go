package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(r) }

// unit is what a progress bar counts.
type unit int

const (
	unitBytes unit = iota
	unitTokens
	unitRuns
)

// patience is how long a task may take before anything is shown, and how far plain lines lie apart.
const (
	patience  = 2 * time.Second
	lineEvery = 5 * time.Second
)

// progress shows a task on standard error once it has run longer than patience:
// a bar with rate and time left on a terminal, plain lines elsewhere.
type progress struct {
	mu       sync.Mutex
	what     string
	unit     unit
	begin    time.Time
	lastLine time.Time
	tty      bool
	bar      *progressbar.ProgressBar
}

func newProgress(what string, u unit) *progress {
	return &progress{what: what, unit: u, begin: time.Now(), tty: term.IsTerminal(int(os.Stderr.Fd()))}
}

// set tells how much is done.
func (p *progress) set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(p.begin)
	if elapsed < patience {
		return
	}
	if p.tty {
		if p.bar == nil {
			p.bar = p.newBar(total)
		}
		_ = p.bar.Set64(done)
		return
	}
	if now.Sub(p.lastLine) < lineEvery || done == 0 {
		return
	}
	p.lastLine = now
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done)).Round(time.Second)
	rate := float64(done) / elapsed.Seconds()
	fmt.Fprintf(os.Stderr, "%s: %d %% (%s, %s left)\n", p.what, 100*done/max(total, 1), p.unit.rate(rate), left)
}

func (u unit) rate(perSecond float64) string {
	switch u {
	case unitBytes:
		return fmt.Sprintf("%.0f MB/s", perSecond/1e6)
	case unitTokens:
		return fmt.Sprintf("%.1f tokens/s", perSecond)
	}
	return fmt.Sprintf("%.2f/s", perSecond)
}

func (p *progress) newBar(total int64) *progressbar.ProgressBar {
	o := []progressbar.Option{
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(p.what),
		progressbar.OptionSetPredictTime(true), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""),
	}
	switch p.unit {
	case unitBytes:
		o = append(o, progressbar.OptionShowBytes(true))
	case unitTokens:
		o = append(o, progressbar.OptionSetItsString("tokens"))
	}
	return progressbar.NewOptions64(total, o...)
}

// finish clears the bar.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
