package engine

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// TestDistributionWithGuesses: sampled tokens follow the model's probabilities given the earlier tokens, whether these
// were drafted right, wrong or not at all. The third token's frequencies equal the probabilities summed over the first
// two tokens.
func TestDistributionWithGuesses(t *testing.T) {
	const temperature, draws, most = 0.1, 6000, 4
	prompt := []int32{3, 1, 4, 1, 5}
	after := func(h fakeText) (p [fakeVocab]float64) {
		logits, sum := make([]float32, fakeVocab), 0.0
		h.logits(logits)
		for i, v := range logits {
			p[i] = math.Exp(float64(v) / temperature)
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	h := *newFakeText()
	for _, id := range prompt {
		h.add(kvcache.LabelOf(id, false))
	}
	var want [fakeVocab]float64
	for first, p := range after(h) {
		h := h
		h.add(kvcache.LabelOf(int32(first), true))
		for second, q := range after(h) {
			h := h
			h.add(kvcache.LabelOf(int32(second), true))
			for third, r := range after(h) {
				want[third] += p * q * r
			}
		}
	}
	for _, slots := range []int{0, 3} { // without recurrent states and with them
		e, _ := openFakeRecurrent(t, 12, slots, limits{rows: 16, outputs: 1, drafts: most, context: 2 * compute.PagePositions})
		e.guesser = func(*Request) guesser { return &fakeGuesser{sure: true} }
		var seen [fakeVocab]int
		for seed := range uint64(draws) {
			o := sample.DefaultOptions()
			o.Temperature, o.Seed, o.TopK, o.TopP, o.MinP = temperature, seed, 0, 1, 0
			s, err := sample.New(o, fakeVocab)
			if err != nil {
				t.Fatal(err)
			}
			var out []int32
			if _, err := e.Generate(t.Context(), Request{Prompt: prompt, Max: 5, Sampler: s, IgnoreEOG: true}, func(tok Token) bool {
				out = append(out, tok.ID)
				return true
			}); err != nil {
				t.Fatal(err)
			}
			seen[out[2]]++
		}
		if s := e.Stats(); s.Accepted < draws/4 || s.Drafted-s.Accepted < draws/4 {
			t.Errorf("%d of %d guesses came: too many or too few to tell", s.Accepted, s.Drafted)
		}
		for id, p := range want { // five standard deviations: one run in a million would fail without fixed seeds
			if n, mean := float64(seen[id]), draws*p; math.Abs(n-mean) > 5*math.Sqrt(mean*(1-p))+1 {
				t.Errorf("%d slots: token %d was drawn %g times, want about %.0f", slots, id, n, mean)
			}
		}
	}
}
