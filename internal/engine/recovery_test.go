package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// mortal is a GPU that fails after its last run, or, if silent, when that run's results are read.
type mortal struct {
	hybrid.GPU
	left   *int
	with   error
	silent bool
}

func (m mortal) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	if *m.left--; *m.left < 0 && !m.silent {
		return fmt.Errorf("segment %q: %w", seg.Name, m.with)
	}
	return m.GPU.Run(seg, p, body)
}

func (m mortal) Read(t compute.Tensor, i int) ([]float32, error) {
	if *m.left < 0 {
		return nil, m.with
	}
	return m.GPU.Read(t, i)
}

// mortals are GPUs, all of them lavapipe, and the CPU. When a GPU fails, the next of plans is opened.
type mortals struct {
	plans  []placement.Layout          // the first is opened now; one without places is the CPU alone
	make   func(hybrid.GPU) hybrid.GPU // makes a GPU of the first plan
	causes []error                     // errors passed to After
}

func (m *mortals) Layout() (placement.Layout, error) { return m.plans[0], nil }

func (m *mortals) Open(_ context.Context, unitCache int64) (compute.Device, error) {
	now := m.plans[0]
	host, err := cpu.New(cpu.Options{Threads: 1, ThreadsBatch: 1, UnitCache: unitCache})
	if err != nil || now.Places == nil {
		return host, err
	}
	var pairs []*hybrid.Device
	var homes []int
	attention := map[int][]bool{}
	for _, y := range now.Places[:len(now.Places)-1] {
		homes = append(homes, int(y.Tier))
		attention[homes[len(homes)-1]] = append(attention[homes[len(homes)-1]], y.Attention)
	}
	for j := range slices.Max(homes) + 1 {
		gpu, err := vulkan.Open(vulkan.Options{Device: vulkan.Software, Budget: 1 << 30})
		if err != nil {
			return nil, err
		}
		var d hybrid.GPU = gpu
		if len(m.causes) == 0 {
			d = m.make(gpu)
		}
		pairs = append(pairs, hybrid.New(d, host, attention[j]))
	}
	if len(pairs) == 1 {
		return pairs[0], nil
	}
	return hybrid.NewMultiGPU(pairs, homes), nil
}

func (m *mortals) After(err error) bool {
	var failed *hybrid.GPUError
	if len(m.plans) < 2 || !errors.As(err, &failed) {
		return false
	}
	m.plans, m.causes = m.plans[1:], append(m.causes, err)
	return true
}

// divided returns a layout of the demo on this many GPUs.
func divided(layers, gpus int) placement.Layout {
	var y placement.Layout
	for l := range layers + 1 {
		y.Places = append(y.Places, compute.Place{Split: compute.Split{Tier: compute.Tier(l * gpus / (layers + 1)), Bound: 96}, Attention: true})
	}
	return y
}

// openMortal opens the demo on this many GPUs. They fail after *left runs. The demo is then opened on rest of them, and
// then on the CPU.
func openMortal(t *testing.T, gpus, rest int, left *int, with error, silent bool) (*Engine, *mortals) {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	m := &mortals{plans: []placement.Layout{divided(c.Layers, gpus)}, make: func(d hybrid.GPU) hybrid.GPU { return mortal{d, left, with, silent} }}
	if rest > 0 {
		m.plans = append(m.plans, divided(c.Layers, rest))
	}
	m.plans = append(m.plans, placement.Layout{})
	e, err := Open(t.Context(), f, Options{Devices: m, Limits: Limits{Context: 1024, UBatch: 16}})
	if errors.Is(err, vulkan.ErrNone) {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, m
}

// likely evaluates ids one by one after the tokens of s, and returns the likeliest token after each.
func likely(t *testing.T, e *Engine, s *Sequence, ids []int32) (out []int32) {
	t.Helper()
	for i := range ids {
		err := e.Evaluate(s, ids[i:i+1], func(int) bool { return true }, func(_ int, logits []float32) {
			best := 0
			for id, v := range logits {
				if v > logits[best] {
					best = id
				}
			}
			out = append(out, int32(best))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestLostGPU: when the GPU fails in the middle of a text, the CPU continues with its own text. The same holds for a
// sequence that was idle meanwhile, and for one with shared pages.
func TestLostGPU(t *testing.T) {
	testenv.Thorough(t)
	type loss struct {
		gpus, rest int // rest: GPUs left after one of several fails
		with       error
		silent     bool
	}
	for _, c := range testenv.Some(t, 3, []loss{
		{1, 0, vulkan.ErrLost, true},
		{1, 0, &vulkan.OutOfMemory{Device: "a GPU", Asked: 1 << 20}, false},
		{2, 1, vulkan.ErrLost, false},
		{1, 0, vulkan.ErrLost, false},
		{2, 0, vulkan.ErrLost, false},
	}) {
		left := 1 << 30
		e, m := openMortal(t, c.gpus, c.rest, &left, c.with, c.silent)
		ids := e.Tokenizer().Encode("There was once a poor woodcutter", true, true)
		half := len(ids) / 2
		first, second, idle := e.NewSequence(), e.NewSequence(), e.NewSequence()
		likely(t, e, idle, ids[:half])
		want := likely(t, e, first, ids[:half])
		likely(t, e, second, ids[:3])
		steps := e.Neurons()[0].Steps
		shared := e.NewSequence()
		likely(t, e, shared, ids[:half-2])
		left = 3 // the second of two GPUs fails
		want = append(want, likely(t, e, first, ids[half:])...)
		var failed *hybrid.GPUError
		if len(m.causes) != 1 || !errors.Is(m.causes[0], c.with) || !errors.As(m.causes[0], &failed) || failed.GPU != c.gpus-1 {
			t.Errorf("of %d GPUs the last failed: %v", c.gpus, m.causes)
		}
		if strings.Contains(e.Device(), "Vulkan") != (c.rest > 0) {
			t.Errorf("%s computes", e.Device())
		}
		if got := e.Neurons()[0].Steps; got < steps {
			t.Errorf("%d steps are counted, fewer than the %d before", got, steps)
		}
		alone := e.NewSequence()
		if got := likely(t, e, alone, ids); !slices.Equal(got[half:], want[half:]) {
			t.Errorf("the processor says %v behind the loss, and %v where nothing was lost", want[half:], got[half:])
		}
		if got := likely(t, e, second, ids[3:]); !slices.Equal(got[half-3:], want[half:]) {
			t.Errorf("a sequence that was there before the loss goes on with %v, not %v", got[half-3:], want[half:])
		}
		if got := likely(t, e, shared, ids[half-2:]); !slices.Equal(got[2:], want[half:]) {
			t.Errorf("a sequence of shared pages from before the loss goes on with %v, not %v", got[2:], want[half:])
		}
		for _, s := range []*Sequence{first, second, idle, shared, alone} {
			e.Release(s)
		}
		if n := e.sched.kv.Held(); n != 0 {
			t.Errorf("%d pages are held by nobody", n)
		}
	}
}

// TestLostForGood: if the CPU cannot load the model, every step says so.
func TestLostForGood(t *testing.T) {
	testenv.Thorough(t)
	left := 1
	e, _ := openMortal(t, 1, 0, &left, vulkan.ErrLost, false)
	e.options.Activation = "no such" // the model can no longer be opened
	s := e.NewSequence()
	for range 2 {
		err := e.Evaluate(s, []int32{1, 2}, nil, func(int, []float32) {})
		if left >= 0 {
			err = e.Evaluate(s, []int32{1, 2}, nil, func(int, []float32) {})
		}
		if !errors.Is(err, vulkan.ErrLost) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v", err)
		}
	}
}
