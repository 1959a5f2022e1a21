package residency_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// predicted bounds the difference between the predicted and the simulated share of hits.
const predicted = 0.01

// powerLaw returns shares that follow rank^-s, cut off at 1, so that a token uses this many units on average.
func powerLaw(units int, s, used float64) []float64 {
	shares := make([]float64, units)
	low, high := 0.0, 1e9
	for range 100 {
		scale := (low + high) / 2
		sum := 0.0
		for i := range shares {
			shares[i] = min(scale*math.Pow(float64(i+1), -s), 1)
			sum += shares[i]
		}
		if sum > used {
			high = scale
		} else {
			low = scale
		}
	}
	return shares
}

// TestPredict holds what is predicted to a cache that tokens use at random by the same shares.
func TestPredict(t *testing.T) {
	r := testenv.Rand(t)
	for _, law := range []struct{ s, used float64 }{{0, 20}, {0.6, 60}, {1, 16}, {1, 100}, {1.6, 60}} {
		shares := powerLaw(1000, law.s, law.used)
		for _, slots := range []int{100, 250, 500, 750, 950} {
			got, want := residency.Predict(slots, shares), simulate(r, slots, shares)
			t.Logf("rank^-%g, %g of 1000 used, %d slots: %.3f predicted, %.3f simulated", law.s, law.used, slots, got, want)
			if math.Abs(got-want) > predicted {
				t.Errorf("rank^-%g, %g of 1000 used, %d slots: %.3f predicted, %.3f simulated", law.s, law.used, slots, got, want)
			}
		}
	}
}

// simulate returns the share of hits where units are used at random, after some half-lives.
func simulate(r *rand.Rand, slots int, shares []float64) float64 {
	c := residency.NewCache(slots, residency.TunedCache())
	c.Add(len(shares))
	for u, s := range shares {
		c.Expect(int32(u), s)
	}
	const warm, tokens = 1500, 2500
	var before residency.CacheUse
	for i := range warm + tokens {
		if i == warm {
			before = c.Counted()
		}
		c.Step(1)
		for u, s := range shares {
			if r.Float64() < s {
				c.Use(int32(u), 1)
				c.Admit(int32(u))
				c.Release(int32(u))
			}
		}
	}
	use := c.Counted().Since(before)
	return float64(use.Hits) / float64(use.Uses())
}

func TestPredictedEnds(t *testing.T) {
	shares := []float64{1, 0.5, 0.25, 0}
	for slots, want := range map[int]float64{0: 0, 3: 1, 4: 1, 9: 1} {
		if got := residency.Predict(slots, shares); got != want {
			t.Errorf("%d slots: %g of the uses are hits, want %g", slots, got, want)
		}
	}
	if got := residency.Predict(3, make([]float64, 8)); got != 0 {
		t.Errorf("%g of no uses are hits", got)
	}
	if got := residency.Predict(3, nil); got != 0 {
		t.Errorf("%g of no uses are hits", got)
	}
}

// BenchmarkPredict predicts for a million units.
func BenchmarkPredict(b *testing.B) {
	for _, s := range []float64{0.5, 1, 1.5} {
		shares := powerLaw(1_000_000, s, 100_000)
		b.Run(fmt.Sprintf("rank^-%g", s), func(b *testing.B) {
			for b.Loop() {
				residency.Predict(500_000, shares)
			}
		})
	}
}
