package eval

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// chanceTolerance is 6.8 standard errors of a share near 0.95 over the trials: one seed in 3e10 exceeds it for one of
// the three sizes.
const (
	limitTrials     = 100_000
	chanceTolerance = 6.8 * 0.218 / 316.2
)

// TestLimits: in 95 of 100 trials at least 19 of 20 further values are within the limit, however few values gave it.
func TestLimits(t *testing.T) {
	rng := testenv.Rand(t)
	for _, n := range []int{3, 8, 32} {
		kept, k := 0, limitFactor(n)
		for range limitTrials {
			var values []float64
			for range n {
				values = append(values, -5+0.4*rng.NormFloat64())
			}
			most, over := above(values, k), 0
			for range LimitIn {
				if -5+0.4*rng.NormFloat64() > most {
					over++
				}
			}
			if over <= LimitIn-LimitOf {
				kept++
			}
		}
		if share := float64(kept) / limitTrials; math.Abs(share-limitConfidence) > chanceTolerance {
			t.Errorf("limits from %d documents are kept with a probability of %.4f", n, share)
		}
	}
}

// Shares are bounded from below, by the same law, and stay shares.
func TestLeastSameTop(t *testing.T) {
	docs := []Document{{SameTop: 0.98}, {SameTop: 0.96}, {SameTop: 0.97}, {SameTop: 0.99}, {SameTop: 0.95}, {SameTop: 0.97}}
	if least := LeastSameTop(docs); !(least > 0.85 && least < 0.95) {
		t.Errorf("at least %g", least)
	}
	if least := LeastSameTop(docs[:2]); !(least >= 0 && least < 0.5) {
		t.Errorf("two documents: at least %g", least)
	}
	if most := MostKLD(docs[:1]); !math.IsInf(most, 1) {
		t.Errorf("one document: at most %g", most)
	}
	if least := LeastSameTop(docs[:1]); least > 1e-9 {
		t.Errorf("one document: at least %g", least)
	}
	same := []Document{{SameTop: 1}, {SameTop: 1}, {SameTop: 1}}
	if MostKLD(same) > 2*leastKLD || LeastSameTop(same) != 1 {
		t.Errorf("no difference: %g, %g", MostKLD(same), LeastSameTop(same))
	}
}
