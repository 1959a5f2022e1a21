package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

// TestWithLess: a card that has less memory than it said is asked for less, and one that fails is left out; errors that are not the
// card's stand.
func TestWithLess(t *testing.T) {
	full := fmt.Errorf("model.gguf: %w", &hybrid.CardError{Err: &vulkan.OutOfMemory{Device: "a card", Asked: 1, Used: 2, Budget: 3}})
	pipeline := &hybrid.CardError{Err: errors.New("a pipeline cannot be compiled")}
	file := errors.New("model.gguf: no such tensor")
	plan := func(share float64) (*engine.Plan, error) {
		return &engine.Plan{Cards: []engine.Card{{Budget: int64(8 * share * (1 << 30))}}}, nil
	}
	for name, c := range map[string]struct {
		fits   float64 // GiB from which on the card fails, with:
		with   error
		opened []float64 // GiB of the cards that were tried, 0 for none
		err    error
		told   string
	}{
		"at once":     {9, full, []float64{8}, nil, ""},
		"with less":   {6, full, []float64{8, 6.8, 5.78}, nil, "trying with less"},
		"never":       {0, full, []float64{8, 6.8, 5.78, 4.913, 0}, nil, "going on without it"},
		"no pipeline": {0, pipeline, []float64{8, 0}, nil, "going on without it"},
		"a bad file":  {0, file, []float64{8}, file, ""},
	} {
		var opened []float64
		var told []string
		_, err := withLess(plan, func(card *engine.Plan) (*engine.Engine, error) {
			if card == nil {
				opened = append(opened, 0)
				return nil, nil
			}
			opened = append(opened, gib(card.Cards[0].Budget))
			if gib(card.Cards[0].Budget) > c.fits {
				return nil, c.with
			}
			return nil, nil
		}, func(s string) { told = append(told, s) })
		if !errors.Is(err, c.err) || !slices.EqualFunc(opened, c.opened, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%s: budgets %v, error %v; want %v", name, opened, err, c.opened)
		}
		if c.told != "" && (len(told) != len(opened)-1 || !strings.HasSuffix(told[len(told)-1], c.told)) || c.told == "" && len(told) > 0 {
			t.Errorf("%s: told %q", name, told)
		}
	}
	if _, err := withLess(func(float64) (*engine.Plan, error) { return nil, file }, nil, nil); !errors.Is(err, file) {
		t.Errorf("a plan that fails: error %v", err)
	}
}

// TestRest: where one of two cards fails, what is left goes to the other, and where that fails, too, to none.
func TestRest(t *testing.T) {
	b, err := blueprint.Describe("llama-7b,type=q4_0")
	if err != nil {
		t.Fatal(err)
	}
	const budget = 2 << 30
	c := &cli.Command{Flags: cardFlags()}
	p := &planner{
		c: c, b: b.Blueprint(4096), failed: make([]bool, 2),
		cards:   []vulkan.Info{{Index: 3, Name: "first", Kind: vulkan.Discrete, Free: budget}, {Index: 5, Name: "second", Kind: vulkan.Discrete, Free: budget}},
		machine: measure.Machine{Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: 40e9}}},
	}
	for _, card := range p.cards {
		p.machine.Cards = append(p.machine.Cards, measure.Card{ID: measure.ID{Name: card.Name}, Read: 400e9, Upload: 10e9, Download: 10e9, HandOff: 40e-6})
	}
	both, err := p.plan(1)
	if err != nil || len(both.Cards) != 2 || both.Cards[0].Device != "3" || both.Cards[1].Device != "5" {
		t.Fatalf("a plan for both cards: %+v, error %v", both, err)
	}
	second := both.Rest(0)
	if second == nil || len(second.Cards) != 1 || second.Cards[0].Device != "5" || second.Cards[0].Planned > second.Cards[0].Budget {
		t.Fatalf("a plan for the second card: %+v", second)
	}
	used := false
	for _, y := range second.Places {
		if used = used || y.Attention; y.GPU > 0 {
			t.Errorf("a layer lies on card %d of one", y.GPU)
		}
	}
	if !used {
		t.Error("nothing lies on the card that is left")
	}
	if rest := second.Rest(0); rest != nil {
		t.Errorf("a plan for no card: %+v", rest)
	}
}
