package engine

import (
	"slices"
	"testing"
)

// TestHiddenBefore: before finds the hidden state before a position among a step's states and the earlier one, also
// after rejected drafts.
func TestHiddenBefore(t *testing.T) {
	var states draftStates
	for pos := range 4 { // step by step
		states.keep(0, pos, []float32{float32(pos)})
	}
	states.keep(0, 4, []float32{4}) // and one with two drafts
	states.keep(1, 5, []float32{5})
	states.keep(2, 6, []float32{6})
	for pos, want := range map[int][]float32{3: nil, 4: {3}, 5: {4}, 6: {5}, 7: {6}, 8: nil} {
		if got := states.before(pos); !slices.Equal(got, want) {
			t.Errorf("before position %d came %v, want %v", pos, got, want)
		}
	}
}
