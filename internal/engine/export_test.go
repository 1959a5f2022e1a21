package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// timedRunner is a runner with simulated times of steps, on its own clock.
type timedRunner struct {
	runner
	clock *time.Duration
	times StepTimes
}

// StepTimes say how long steps take.
type StepTimes struct {
	Guess       time.Duration // a drafting step
	Step, Token time.Duration // another step, and each of its tokens
}

func (r timedRunner) run(p *compute.Params, w wanted) error {
	if p.Draft {
		*r.clock += r.times.Guess
	} else {
		*r.clock += r.times.Step + time.Duration(len(p.Tokens))*r.times.Token
	}
	return r.runner.run(p, w)
}

// SetTimes gives e's scheduler these times of steps instead of the real ones. It must come before any request.
func SetTimes(e *Engine, times StepTimes) {
	s := e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	clock := new(time.Duration)
	s.runner, s.now = timedRunner{s.runner, clock, times}, func() time.Duration { return *clock }
}

// LoadAgain makes e load its model again, as after a GPU failed between two steps.
func LoadAgain(e *Engine) error {
	s := e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	err := e.reload(errors.New("a GPU failed"))
	e.mu.Unlock()
	if err == nil {
		s.restart()
	}
	return err
}

// SetAvailable simulates a machine with this much available RAM until t ends.
func SetAvailable(t *testing.T, bytes int64) {
	t.Helper()
	readMemory = func() (hw.Memory, error) { return hw.Memory{Available: uint64(bytes)}, nil }
	t.Cleanup(func() { readMemory = hw.ReadMemory })
}

// MemoryOf returns the memory for opening the model in f with o, with the parts in on on GPUs.
func MemoryOf(t *testing.T, f *gguf.File, o Options, on placement.Layout) Memory {
	t.Helper()
	c, err := model.ReadConfig(f, o.Activation)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.TakeHead(f, o.Head); err != nil {
		t.Fatal(err)
	}
	c.FurtherCached = o.GuessesFurther()
	return o.memory(f, c, on)
}

// Provide decides how to load the model in f with the parts in on on GPUs.
func Provide(f *gguf.File, o Options, on placement.Layout) (Memory, error) {
	p, err := o.provide(f, on)
	return p.need, err
}

// StepOf returns the tokens of the largest step of the model in f, after deciding how to load it with the parts in on
// on GPUs.
func StepOf(f *gguf.File, o *Options, on placement.Layout) (int, error) {
	_, err := o.provide(f, on)
	return o.LargestStep(), err
}
