package modelcost

import (
	"slices"
	"testing"
)

// TestFalling: values that do not rise stay, and rising ones become their mean, so that sums before a rise stay the
// same.
func TestFalling(t *testing.T) {
	for _, c := range []struct{ from, want []float32 }{
		{nil, []float32{}},
		{[]float32{4, 2, 2, 1}, []float32{4, 2, 2, 1}},
		{[]float32{1, 3, 1, 0}, []float32{2, 2, 1, 0}},
		{[]float32{1, 2, 3}, []float32{2, 2, 2}},
		{[]float32{4, 0, 1, 2, 0}, []float32{4, 1, 1, 1, 0}},
	} {
		if got := falling(c.from); !slices.Equal(got, c.want) {
			t.Errorf("%v became %v, want %v", c.from, got, c.want)
		}
	}
}
