package grammar

import (
	"context"
	"errors"
	"runtime"
)

// Limits of compiling one grammar. A step takes 10 to 25 ns, so compiling takes less than a second. Schemas of a
// hundred kilobytes, and the schemas of sixty tools, need less than a twentieth of the steps and bytes.
const (
	maxSteps        = 20_000_000
	maxBytes        = 128 << 20 // everything that is made on the way
	maxPatternSteps = 4_000_000 // of one regular expression, or of joining it with others
	breath          = 4096      // steps between checks of the context
)

var (
	errSteps = errors.New("compiling it takes too much work; make it smaller: fewer alternatives and properties, simpler patterns, smaller counts")
	errBytes = errors.New("compiling it takes too much memory; make it smaller: fewer alternatives and properties, simpler patterns, smaller counts")
)

// A meter counts the work and memory of compiling a grammar, and stops it if they are too much or its context has
// ended. Its error stays, so a loop may check once per round.
type meter struct {
	ctx   context.Context
	steps int
	bytes int // memory that is in use until the grammar is made
	look  int // steps at which the context is checked next
	err   error

	pattern int // steps at which the current regular expression is too large; 0: there is none
}

func newMeter(ctx context.Context) *meter { return &meter{ctx: ctx} }

// spend counts n steps.
func (m *meter) spend(n int) error {
	if m.steps += n; m.steps >= m.look || m.err != nil {
		m.check()
	}
	return m.err
}

// take counts n bytes, and the steps of making them.
func (m *meter) take(n int) error {
	if m.bytes += n; m.bytes > maxBytes && m.err == nil {
		m.err = errBytes
	}
	return m.spend(1 + n/16)
}

// check checks the context and the steps. It first yields the CPU to goroutines that generate text: compiling is never
// urgent.
func (m *meter) check() {
	m.look = m.steps + breath
	runtime.Gosched()
	if m.err != nil {
		return
	}
	if m.err = context.Cause(m.ctx); m.err == nil && m.steps > maxSteps {
		m.err = errSteps
	}
}

// within counts n steps of a regular expression, which has its own limit.
func (m *meter) within(n int) error {
	if err := m.spend(n); err != nil {
		return err
	}
	if m.pattern > 0 && m.steps > m.pattern {
		return errPattern
	}
	return nil
}

// beginPattern begins a regular expression, with a new limit for within.
func (m *meter) beginPattern() { m.pattern = m.steps + maxPatternSteps }
