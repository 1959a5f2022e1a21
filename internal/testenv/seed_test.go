package testenv_test

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func TestSeed(t *testing.T) {
	t.Setenv("POWERINFER_SEED", "")
	fixed := testenv.Seed(t)
	if again := testenv.Seed(t); again != fixed {
		t.Errorf("seeds %d and %d of one test", fixed, again)
	}
	t.Run("another", func(t *testing.T) {
		if other := testenv.Seed(t); other == fixed {
			t.Errorf("two tests have the seed %d", fixed)
		}
	})
	t.Setenv("POWERINFER_SEED", "42")
	if seed := testenv.Seed(t); seed != 42 {
		t.Errorf("seed %d, want 42", seed)
	}
	t.Setenv("POWERINFER_SEED", "random")
	if a, b := testenv.Seed(t), testenv.Seed(t); a == b {
		t.Errorf("the seed %d was drawn twice", a)
	}
}
