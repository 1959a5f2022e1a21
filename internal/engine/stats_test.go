package engine

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestStats: statistics count evaluated tokens and the cache's contents, and reading them allocates nothing.
func TestStats(t *testing.T) {
	const pages = 12
	e, m := openFake(t, pages, limits{rows: 48, outputs: 5, context: 8 * compute.PagePositions})
	prompt := tokens(rand.New(rand.NewPCG(1, 0)), 2*compute.PagePositions)
	r := Request{Prompt: prompt, Max: 6, Sampler: greedySampler{}, IgnoreEOG: true}
	during := Stats{}
	_, err := e.Generate(context.Background(), r, func(Token) bool {
		if s := e.Stats(); s.PagesHeld > 0 { // at the last token the text has ended
			during = s
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	s := e.Stats()
	if s.Read != int64(len(prompt)) || s.Decoded != 5 || s.Steps != int64(m.steps) || s.Sequences != s.Steps {
		t.Errorf("a prompt of %d and 6 tokens in %d steps are counted as %+v", len(prompt), m.steps, s)
	}
	if during.PagesHeld != 3 || s.PagesHeld != 0 || s.PagesKept != 3 || s.Pages != pages || s.PagePositions != compute.PagePositions {
		t.Errorf("the cache held %+v, and then %+v", during, s)
	}
	if n := testing.AllocsPerRun(10, func() { s = e.Stats() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	e.sched.close(ErrClosed)
}
