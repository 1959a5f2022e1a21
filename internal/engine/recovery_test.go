package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// mortal is a card that fails from the run on that it has left, or, if silent, when the results of that run are read.
type mortal struct {
	compute.Device
	left   *int
	with   error
	silent bool
}

func (m mortal) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	if *m.left--; *m.left < 0 && !m.silent {
		return fmt.Errorf("segment %q: %w", seg.Name, m.with)
	}
	return m.Device.Run(seg, p, body)
}

func (m mortal) Read(t compute.Tensor, i int) []float32 {
	if *m.left < 0 {
		return make([]float32, t.Cols)
	}
	return m.Device.Read(t, i)
}

func (m mortal) Err() error {
	if *m.left < 0 {
		return m.with
	}
	return nil
}

// openMortal opens the demo on so many cards, all of them lavapipe, whose runs fail once *left of them were made.
func openMortal(t *testing.T, cards int, left *int, with error, silent bool, told *[]string) *Engine {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{
		Cards:  slices.Repeat([]Card{{Device: vulkan.Software, Budget: 1 << 30}}, cards),
		Notice: func(s string) { *told = append(*told, s) },
		wrap:   func(d compute.Device) compute.Device { return mortal{d, left, with, silent} },
	}
	plain, err := Open(f, Options{Threads: 1, Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	layers := plain.Config().Layers
	for l := range layers + 1 {
		plan.Places = append(plan.Places, placement.Place{GPU: l * cards / (layers + 1), Attention: true, Hot: 96})
	}
	plain.Close()
	e, err := Open(f, Options{Threads: 1, Context: 1024, UBatch: 16, Plan: plan})
	if errors.Is(err, vulkan.ErrNone) {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// likely evaluates ids one by one behind what s holds, and returns the likeliest token behind each.
func likely(t *testing.T, e *Engine, s *Sequence, ids []int32) (out []int32) {
	t.Helper()
	for i := range ids {
		err := e.Evaluate(s, ids[i:i+1], always, func(_ int, logits []float32) {
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

// TestLostCard: when the card fails in the middle of a text, the processor goes on, and says the same as if it had always been alone;
// so it does for a sequence that was idle meanwhile, and for one whose pages were shared.
func TestLostCard(t *testing.T) {
	for _, c := range []struct {
		cards  int
		with   error
		silent bool
		told   string
		rest   bool // there is a plan for the card that is left
	}{
		{1, vulkan.ErrLost, false, "going on without it", false},
		{1, vulkan.ErrLost, true, "going on without it", false},
		{1, &vulkan.OutOfMemory{Device: "a card", Asked: 1 << 20}, false, "going on without it", false},
		{2, vulkan.ErrLost, false, "going on without cards", false},
		{2, vulkan.ErrLost, false, "going on without it", true},
	} {
		with := c.with
		left := 1 << 30
		var told []string
		e := openMortal(t, c.cards, &left, with, c.silent, &told)
		if c.rest {
			e.options.Plan.Rest = func(card int) *Plan {
				if card != 1 {
					t.Errorf("card %d failed, not the second", card)
				}
				rest := &Plan{Cards: []Card{{Device: vulkan.Software, Budget: 1 << 30}}}
				for range e.config.Layers + 1 {
					rest.Places = append(rest.Places, placement.Place{Attention: true, Hot: 96})
				}
				return rest
			}
		}
		ids := e.Tokenizer().Encode("There was once a poor woodcutter who lived with his wife and his daughter in a little house at the edge of a wood.", true, true)
		half := len(ids) / 2
		first, second, idle := e.NewSequence(), e.NewSequence(), e.NewSequence()
		likely(t, e, idle, ids[:half])
		want := likely(t, e, first, ids[:half])
		likely(t, e, second, ids[:3])
		steps := e.Neurons()[0].Steps
		forked := idle.fork(half - 2)
		left = 3 // of two cards the second fails
		want = append(want, likely(t, e, first, ids[half:])...)
		if len(told) != 1 || !strings.Contains(told[0], with.Error()) || strings.Contains(told[0], "\n") || !strings.HasSuffix(told[0], c.told) {
			t.Errorf("told %q", told)
		}
		if strings.Contains(e.Device(), "Vulkan") != c.rest {
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
		if got := likely(t, e, forked, ids[half-2:]); !slices.Equal(got[2:], want[half:]) {
			t.Errorf("a fork from before the loss goes on with %v, not %v", got[2:], want[half:])
		}
		for _, s := range []*Sequence{first, second, idle, forked, alone} {
			e.Release(s)
		}
		if n := len(e.pages.free); n != len(e.pages.refs) {
			t.Errorf("%d of %d pages are free", n, len(e.pages.refs))
		}
	}
}

// TestLostForGood: where the processor cannot take the model, every step says so.
func TestLostForGood(t *testing.T) {
	left := 1
	var told []string
	e := openMortal(t, 1, &left, vulkan.ErrLost, false, &told)
	e.options.Activation = "no such" // the model can be opened no more
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
