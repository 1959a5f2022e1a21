package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestShift: when the context is full, a text continues as after a prompt of the remaining tokens, and the pages of the
// forgotten tokens are free.
func TestShift(t *testing.T) {
	for _, drafts := range []int{0, 4} {
		testShift(t, drafts)
	}
}

func testShift(t *testing.T, drafts int) {
	const length = 2 * compute.PagePositions
	e, _ := openFake(t, 12, limits{rows: 48, outputs: 5, drafts: drafts, context: length})
	e.guesser = func(*Request) guesser { return &fakeGuesser{sure: true} } // up to where the context is full
	prompt := tokens(rand.New(rand.NewPCG(7, 0)), 40)
	for _, shift := range []Shift{{Keep: 10, Discard: 50}, {Keep: 0}, {Keep: 1000}, {Keep: 10, Discard: 100_000}} {
		const want = 300
		var out []int32
		res, err := e.Generate(context.Background(), Request{Prompt: prompt, Max: want, Sampler: greedySampler{}, IgnoreEOG: true, Shift: &shift}, func(tok Token) bool {
			out = append(out, tok.ID)
			return true
		})
		if err != nil || len(out) != want || res.Tokens != want || res.PromptTokens+res.Reused != len(prompt) {
			t.Fatalf("%+v: %d tokens: %+v, %v", shift, len(out), res, err)
		}
		sequence, told, shifts := prompt, 0, 0
		for told < want {
			n := min(length-len(sequence)+1, want-told)
			if next := alone(sequence, n); !slices.Equal(out[told:told+n], next) {
				t.Fatalf("%+v, after %d shifts: %v, want %v", shift, shifts, out[told:told+n], next)
			}
			all := slices.Concat(sequence, out[told:told+n])
			if told += n; told == want {
				break
			}
			shifts++
			keep := min(shift.Keep, length-leastShift)
			gone := shift.Discard
			if gone == 0 {
				gone = (length - keep) / 2
			}
			sequence = slices.Concat(all[:keep], all[min(keep+gone, length):])
		}
		if res.Shifts != shifts || shifts < 2 {
			t.Errorf("%+v: %d shifts, want %d", shift, res.Shifts, shifts)
		}
	}
	if n := e.heldPages(); n != 0 {
		t.Errorf("%d pages are held", n)
	}
}
