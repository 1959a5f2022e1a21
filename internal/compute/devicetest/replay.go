package devicetest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Replay returns dev, held to the contract of segments: a Run fails where its body calls other operations, or the same
// with other operands, than the first Run of the same segment did, or reads a tensor while operations may still be
// queued.
func Replay(dev compute.Device) compute.Device {
	return &replay{Device: dev, first: map[compute.Segment][]call{}}
}

// replay records every segment's operations. One goroutine uses it at a time.
type replay struct {
	compute.Device
	first   map[compute.Segment][]call
	running bool // operations may be queued
	read    bool // a tensor was read meanwhile
}

// call is an operation; nil stands for Host. Tensors and weights are the same where shapes and memory are.
type call struct{ compute.Op }

func (c call) same(d call) bool {
	if c.Op == nil || d.Op == nil {
		return c.Op == d.Op
	}
	x, y := reflect.ValueOf(c.Op), reflect.ValueOf(d.Op)
	return x.Type() == y.Type() && x.Elem().Interface() == y.Elem().Interface()
}

func (c call) String() string {
	if c.Op == nil {
		return "Host()"
	}
	var w words
	c.Visit(&w)
	return fmt.Sprintf("%s(%s)", compute.Name(c.Op), strings.Join(w, ", "))
}

// words are an operation's operands in words. They implement compute.Visitor.
type words []string

func (w *words) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

func (w *words) Tensor(t *compute.Tensor, _ compute.Access) {
	w.add("[%d×%d] %p", t.Rows, t.Cols, t.Mem)
}

func (w *words) Set(s *compute.Set, _ compute.Access) { w.add("set [%d×%d] %p", s.Rows, s.N, s.Mem) }

func (w *words) Choice(c *compute.Choice, _ compute.Access) {
	w.add("choice [%d×%d of %d] %p", c.Rows, c.Used, c.N, c.Mem)
}
func (w *words) Cache(c **compute.Cache, layer *int) { w.add("layer %d of %p", *layer, *c) }

func (w *words) Matrix(m **compute.Matrix) {
	if *m != nil {
		w.add("%s", (*m).Name)
	}
}

func (w *words) Vector(v **compute.Vector) {
	if *v != nil {
		w.add("%s", (*v).Name)
	}
}

// Run runs body and compares its operations with the segment's first run.
func (r *replay) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	rec := recorder{r: r}
	r.read = false
	err := r.Device.Run(seg, p, func(v compute.Verbs) {
		r.running = true
		rec.to = v
		body(compute.NewVerbs(&rec))
		r.running = false
	})
	if err != nil {
		return err
	}
	if r.read {
		return fmt.Errorf("segment %q: the body reads a tensor outside Host", seg.Name)
	}
	first, again := r.first[seg]
	if !again {
		r.first[seg] = rec.calls
		return nil
	}
	for i := range max(len(first), len(rec.calls)) {
		switch {
		case i == len(rec.calls):
			return fmt.Errorf("segment %q: %d operations, and %d in its first run: %v is missing", seg.Name, i, len(first), first[i])
		case i == len(first):
			return fmt.Errorf("segment %q: %d operations, and %d in its first run: %v is new", seg.Name, len(rec.calls), i, rec.calls[i])
		case !rec.calls[i].same(first[i]):
			return fmt.Errorf("segment %q: operation %d is %v, and was %v in its first run", seg.Name, i, rec.calls[i], first[i])
		}
	}
	return nil
}

// Read returns the device's, and noted where operations may be queued.
func (r *replay) Read(t compute.Tensor, i int) ([]float32, error) {
	r.read = r.read || r.running
	return r.Device.Read(t, i)
}

// recorder passes operations on and keeps them. It implements compute.Executor.
type recorder struct {
	r     *replay
	to    compute.Verbs
	calls []call
}

func (c *recorder) Do(op compute.Op) {
	c.calls = append(c.calls, call{compute.Clone(op)})
	c.to.Do(op)
}

// Foresee and ForeseeExperts forward predictions, which are not operations.
func (c *recorder) Foresee(g compute.Guess)              { c.to.Foresee(g) }
func (c *recorder) ForeseeExperts(g compute.ExpertGuess) { c.to.ForeseeExperts(g) }

func (c *recorder) Host(f func() error) {
	c.calls = append(c.calls, call{})
	c.to.Host(func() error {
		running := c.r.running
		c.r.running = false // what was queued has ended
		err := f()
		c.r.running = running
		return err
	})
}
