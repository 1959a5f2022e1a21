package sample

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

// TestSeededDrawsStay checks that the oldest stages still draw the same tokens for a seed. The sums are of the first
// version of this package.
func TestSeededDrawsStay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, 5000)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for _, c := range []struct {
		name string
		set  func(*Options)
		want uint64
	}{
		{"default", func(*Options) {}, 0x2fe301571997d3d},
		{"greedy", func(o *Options) { o.Temperature, o.RepeatPenalty = 0, 1.3 }, 0x74036f3530c66bc5},
		{"penalties and a ban", func(o *Options) {
			o.RepeatPenalty, o.PresencePenalty, o.FrequencyPenalty = 1.1, 0.3, 0.2
			o.LogitBias = map[int32]float32{2: float32(math.Inf(-1)), 7: 3}
		}, 0xb354755f04170dbb},
		{"all at 1.5", func(o *Options) { o.TopK, o.TopP, o.MinP, o.Temperature = 0, 1, 0, 1.5 }, 0xb5226f01b12d2e39},
		{"top-p alone", func(o *Options) { o.TopK, o.TopP, o.MinP, o.Temperature = 0, 0.9, 0, 1 }, 0x484bb0bbca395cbb},
		{"min-p alone", func(o *Options) { o.TopK, o.TopP, o.MinP = 0, 1, 0.02 }, 0xa6d77c967c6eb469},
		{"one", func(o *Options) { o.TopK = 1 }, 0x6b4d33e50ffffd85},
	} {
		o := DefaultOptions()
		o.Seed = 42
		c.set(&o)
		s, err := New(o, len(logits))
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		for range 500 {
			id := s.Sample(logits)
			s.Accept(id)
			h.Write([]byte{byte(id), byte(id >> 8)})
		}
		if h.Sum64() != c.want {
			t.Errorf("%s: the tokens' sum is %#x, want %#x", c.name, h.Sum64(), c.want)
		}
	}
}
