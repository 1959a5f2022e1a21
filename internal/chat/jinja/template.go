// Package jinja renders the templates of chat models. Its language is Jinja2's (3.1), set up as in the transformers
// library: trim_blocks and lstrip_blocks are on, autoescaping is off, lists and dicts cannot be changed, and there are
// break, continue, generation blocks, raise_exception, strftime_now and a tojson that does not escape HTML.
//
// Templates come from strangers. A rendering is bounded in steps, output, memory and nesting, cannot reach anything but
// its input, and every error names its line and column.
package jinja

import (
	"context"
	"strings"
	"time"
)

// Limits bound a rendering. A zero field means the default.
type Limits struct {
	Steps  int // operations, loop passes and statements; default 10 million, about a second
	Output int // bytes of the result; default 64 MiB
	Memory int // bytes of all strings and lists made on the way; default 512 MiB
	Depth  int // nesting of calls of macros and recursive loops; default 200
}

// breath is the number of steps between checks of the context.
const breath = 4096

// maxValueDepth is the largest nesting of lists, tuples and dicts.
const maxValueDepth = 256

func (l Limits) filled() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Steps, 10_000_000}, {&l.Output, 64 << 20}, {&l.Memory, 512 << 20}, {&l.Depth, 200}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return l
}

// A Template is a parsed template. It may be rendered by several goroutines at once.
type Template struct {
	src  string // normalized
	root *scope
	body []statement
}

// Options say how to render.
type Options struct {
	Limits  Limits
	Context context.Context  // ends the rendering, with ErrEnded; nil: nothing does
	Now     func() time.Time // the clock of strftime_now; nil for time.Now
}

// Names reports whether the template reads a variable with that name anywhere, which it may also set itself.
func (t *Template) Names(name string) bool {
	_, ok := t.root.slots[name]
	return ok
}

// Render renders the template with the variables of vars. It neither changes nor keeps their values. Errors are of type
// *Error.
func (t *Template) Render(vars *Dict, o Options) (string, error) {
	r := &render{src: t.src, limits: o.Limits.filled(), now: o.Now, filters: filters, tests: tests, methods: stringMethods}
	if r.now == nil {
		r.now = time.Now
	}
	r.steps, r.memory, r.ctx, r.look = r.limits.Steps, r.limits.Memory, o.Context, r.limits.Steps
	r.out = &strings.Builder{}
	f := &frame{vars: make([]Value, len(t.root.slots))}
	for name, slot := range t.root.slots {
		if v, ok := vars.Get(name); ok {
			f.vars[slot] = v
		} else if g, ok := globals[name]; ok {
			f.vars[slot] = g
		}
	}
	if _, err := r.run(t.body, f); err != nil {
		return "", placed(t.src, 0, err)
	}
	return r.out.String(), nil
}

// A frame holds the variables of a scope while it runs; nil is a variable not set yet.
type frame struct {
	vars   []Value
	parent *frame
	few    [4]Value // memory for vars, if it is enough
}

func newFrame(s *scope, parent *frame) *frame {
	f := &frame{parent: parent}
	if n := len(s.slots); n <= len(f.few) {
		f.vars = f.few[:n]
	} else {
		f.vars = make([]Value, n)
	}
	return f
}

// render is one rendering of a template.
type render struct {
	src           string
	limits        Limits
	steps, memory int // what remains of each
	ctx           context.Context
	look          int // steps left when the context is checked again
	depth         int // of calls
	out           *strings.Builder
	captured      int // bytes in the builders that out stands in for
	now           func() time.Time
	filters       map[string]*function
	tests         map[string]*function
	methods       map[string]*method
}

// at adds a place to err, unless it has one.
func (r *render) at(pos int, err error) error { return placed(r.src, pos, err) }

// work counts n steps.
func (r *render) work(n int) error {
	if r.steps -= n; r.steps < r.look {
		r.look = r.steps - breath
		if r.ctx != nil && r.ctx.Err() != nil {
			return faultf(ErrEnded, "%s", context.Cause(r.ctx))
		}
	}
	if r.steps < 0 {
		return faultf(ErrSteps, "the template takes more than %d steps", r.limits.Steps)
	}
	return nil
}

// grow counts n bytes of memory before they are taken.
func (r *render) grow(n int) error {
	if n < 0 || n > r.memory {
		r.memory = 0
		return faultf(ErrMemory, "the template takes more than %d bytes of memory", r.limits.Memory)
	}
	r.memory -= n
	return nil
}

// growTimes counts count times size bytes, however large they are.
func (r *render) growTimes(count, size int) error {
	if count > 0 && size > r.memory/count {
		return r.grow(-1)
	}
	return r.grow(count * size)
}

// write appends to the output.
func (r *render) write(s string) error {
	if r.captured+r.out.Len()+len(s) > r.limits.Output {
		return faultf(ErrOutput, "the template's output is larger than %d bytes", r.limits.Output)
	}
	r.out.WriteString(s)
	return nil
}

// capture runs body and returns what it writes.
func (r *render) capture(body []statement, f *frame) (string, signal, error) {
	outer := r.out
	r.captured += outer.Len()
	r.out = &strings.Builder{}
	s, err := r.run(body, f)
	result := r.out.String()
	r.out = outer
	r.captured -= outer.Len()
	if err == nil {
		err = r.grow(len(result))
	}
	return result, s, err
}

// enter counts one nested call; the caller leaves it with r.depth--.
func (r *render) enter() error {
	if r.depth >= r.limits.Depth {
		return faultf(ErrDepth, "calls are nested more than %d deep", r.limits.Depth)
	}
	r.depth++
	return nil
}
