package grammar

import (
	"context"
	"errors"
	"runtime"
)

// Bounds of what making one grammar may take. A step is some 10 to 25 ns, so that all are about a second. Schemas of a
// hundred kilobytes and those of sixty tools take less than a twentieth of either.
const (
	maxSteps        = 20_000_000
	maxBytes        = 128 << 20 // of all that is made on the way
	maxPatternSteps = 4_000_000 // of one regular expression, or of joining it with others
	breath          = 4096      // steps between looks at the context
)

var (
	errSteps = errors.New("compiling it takes too much work; make it smaller: fewer alternatives and properties, simpler patterns, smaller counts")
	errBytes = errors.New("compiling it takes too much memory; make it smaller: fewer alternatives and properties, simpler patterns, smaller counts")
)

// A meter counts what making a grammar takes, and ends it where that is too much or its context has ended. Its error
// stays, so that loops may ask once per round.
type meter struct {
	ctx   context.Context
	steps int
	bytes int // of what stays until the grammar is made
	look  int // steps at which the context is looked at again
	err   error

	pattern int // steps at which the regular expression under way is too large; 0: none is
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

// check lets others have the processor, who generate text: a compilation is never urgent.
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

// within counts n steps of a regular expression, which has a bound of its own.
func (m *meter) within(n int) error {
	if err := m.spend(n); err != nil {
		return err
	}
	if m.pattern > 0 && m.steps > m.pattern {
		return errPattern
	}
	return nil
}

// beginPattern sets the bound that within holds to.
func (m *meter) beginPattern() { m.pattern = m.steps + maxPatternSteps }
