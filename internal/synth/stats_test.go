package synth_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// statsTolerance is how far the observed frequency of an eighth of a layer's neurons may be from the law's: a few
// hundred tokens, which repeat.
const statsTolerance = 0.06

// TestStats: the neurons that Stats calls hot are active on a text, as often as it says.
func TestStats(t *testing.T) {
	for _, arch := range []string{"llama", "bamboo", "opt"} {
		t.Run(arch, func(t *testing.T) {
			s := small(arch)
			want, err := synth.Stats(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := want.Overall(); math.Abs(got-s.Sparsity) > 1e-3 {
				t.Errorf("%.4f of the activations are zero by the statistics, not %.4f", got, s.Sparsity)
			}
			f := write(t, s)
			p := newPortrait(s.Layers)
			run(t, f, tokens(t, f), p.each)
			for l, order := range want.Order() {
				frequency := want.Frequencies(l)
				for part := range 8 {
					var law, seen float64
					for _, n := range order[part*s.FF/8 : (part+1)*s.FF/8] {
						law += float64(frequency[n]) / float64(s.FF/8)
						seen += float64(p.counts[l][n]) / float64(p.tokens) / float64(s.FF/8)
					}
					if math.Abs(law-seen) > statsTolerance {
						t.Errorf("layer %d: neurons of part %d are active for %.3f of the tokens, by the statistics for %.3f", l, part, seen, law)
					}
				}
			}
		})
	}
	s := small("llama")
	s.Sparsity = 0
	if _, err := synth.Stats(s); err == nil || fmt.Sprint(err) == "" {
		t.Error("a model without a law has statistics")
	}
}
