package speculate_test

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/speculate"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// repeated returns, by trying all, the length of the longest end of text that stood before.
func repeated(text []int32) int {
	for n := len(text) - 1; n > 0; n-- {
		end := text[len(text)-n:]
		for at := 0; at+n < len(text); at++ {
			if slices.Equal(text[at:at+n], end) {
				return n
			}
		}
	}
	return 0
}

// TestRepeated compares the automaton with its definition on random texts of few tokens, which repeat themselves much.
func TestRepeated(t *testing.T) {
	r := testenv.Rand(t)
	for tokens := range int32(5) {
		l := speculate.NewLookup(&speculate.Chances{})
		var text []int32
		for range 150 {
			text = append(text, r.Int32N(tokens+1))
			l.Accept(text[len(text)-1])
			n, next := l.Repeated()
			if want := repeated(text); n != want {
				t.Fatalf("%d tokens at the end of %v stood before, want %d", n, text, want)
			}
			if n > 0 && (next < n || next >= len(text) || !slices.Equal(text[next-n:next], text[len(text)-n:])) {
				t.Fatalf("the last %d of %v do not stand before %d", n, text, next)
			}
		}
	}
}

// steps is the cost of a processor on which a token more takes a tenth of a step.
var steps = costs(0, 0.1)

func costs(others int, each float64) speculate.Cost {
	c := speculate.Cost{Others: others}
	for n := range 9 {
		c.Times = append(c.Times, 1+each*float64(n))
	}
	return c
}

func always(c speculate.Cost) func(int) speculate.Cost { return func(int) speculate.Cost { return c } }

func TestDraftFollowsWhatStoodBefore(t *testing.T) {
	l := speculate.NewLookup(&speculate.Chances{})
	for _, id := range []int32{7, 1, 2, 3, 4, 5, 6, 9, 1, 2, 3} {
		l.Accept(id)
	}
	got := l.Draft(3, always(steps))
	if len(got) == 0 || !slices.Equal(got, []int32{4, 5, 6}[:len(got)]) {
		t.Errorf("guessed %v behind 1 2 3, which 4 5 6 followed", got)
	}
}

// drafts returns the number of drafts at the end of a repetitive text.
func drafts(chances *speculate.Chances, most int, cost speculate.Cost) int {
	l := speculate.NewLookup(chances)
	for range 8 {
		for id := range int32(16) {
			l.Accept(id)
		}
	}
	return len(l.Draft(most, always(cost)))
}

func TestAsManyAsAreWorthIt(t *testing.T) {
	right, wrong := &speculate.Chances{}, &speculate.Chances{}
	for range 60 {
		for _, c := range []*speculate.Chances{right, wrong} {
			l := speculate.NewLookup(c)
			for range 8 {
				for id := range int32(16) {
					l.Accept(id)
				}
			}
			n := len(l.Draft(8, always(steps)))
			if c == right {
				l.Outcome(n, n)
			} else {
				l.Outcome(n, 0)
			}
		}
	}
	if n := drafts(right, 8, steps); n != 8 {
		t.Errorf("%d guesses where all came true, want 8", n)
	}
	if n := drafts(wrong, 8, steps); n != 0 {
		t.Errorf("%d guesses where none came true, want 0", n)
	}
	if n := drafts(right, 8, costs(0, 1)); n != 0 {
		t.Errorf("%d guesses where checking one takes as long as computing one, want 0", n)
	}
	// With 31 other tokens, a tenth of one token's step is a smaller part of what all gain.
	if n := drafts(right, 8, costs(31, 1./20)); n != 0 {
		t.Errorf("%d guesses where one sequence's gain costs 31 others a twentieth each, want 0", n)
	}
}

// TestTriesAgain has a text change: what was worth nothing is tried from time to time.
func TestTriesAgain(t *testing.T) {
	c := &speculate.Chances{}
	tried := 0
	for range 1000 {
		l := speculate.NewLookup(c)
		for id := range int32(20) {
			l.Accept(id % 10)
		}
		if n := len(l.Draft(8, always(steps))); n > 0 {
			l.Outcome(n, 0)
			tried++
		}
	}
	if tried < 10 || tried > 50 {
		t.Errorf("%d of 1000 guesses were checked although none came true; want some, but few", tried)
	}
}
