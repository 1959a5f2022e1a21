package testenv_test

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func TestFew(t *testing.T) {
	t.Setenv("POWERINFER_LEFT_OUT", "")
	t.Setenv("POWERINFER_EXHAUSTIVE", "")
	t.Setenv("POWERINFER_THOROUGH", "")
	cases := []int{0, 1, 2, 3, 4, 5, 6}
	for n, want := range map[int][]int{1: {0}, 3: {0, 2, 4}, 7: cases, 9: cases} {
		if got := testenv.Few(t, n, cases); !slices.Equal(got, want) {
			t.Errorf("%d cases are %v, want %v", n, got, want)
		}
	}
	t.Run("skipped", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("a quick run has a thorough test")
			}
		})
		testenv.Thorough(t)
	})
	for _, name := range []string{"POWERINFER_THOROUGH", "POWERINFER_EXHAUSTIVE"} {
		t.Setenv("POWERINFER_THOROUGH", "")
		t.Setenv(name, "1")
		if got := testenv.Few(t, 3, cases); !slices.Equal(got, cases) && !testing.Short() {
			t.Errorf("with %s the cases are %v", name, got)
		}
	}
}
