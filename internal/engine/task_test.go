package engine

import (
	"slices"
	"testing"
)

// TestHiddenBefore: of a step's hidden states, and of the one before them, it is known which came before a position,
// also where drafts are taken back.
func TestHiddenBefore(t *testing.T) {
	task := newTask()
	for pos := range 4 { // step by step
		task.keep(0, pos, []float32{float32(pos)})
	}
	task.keep(0, 4, []float32{4}) // and one with two drafts
	task.keep(1, 5, []float32{5})
	task.keep(2, 6, []float32{6})
	for pos, want := range map[int][]float32{3: nil, 4: {3}, 5: {4}, 6: {5}, 7: {6}, 8: nil} {
		if got := task.before(pos); !slices.Equal(got, want) {
			t.Errorf("before position %d came %v, want %v", pos, got, want)
		}
	}
}
