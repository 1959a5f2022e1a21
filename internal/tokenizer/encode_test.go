package tokenizer

import (
	"math/rand/v2"
	"testing"
)

// TestShortKey: words of like bytes and other lengths, NUL bytes at their ends among them, have keys of their own.
func TestShortKey(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	type key struct{ a, b uint64 }
	words := map[key]string{}
	for range 20000 {
		w := make([]byte, rng.IntN(shortest+1))
		for i := range w {
			w[i] = byte(rng.IntN(3)) // few, so that words differ little
		}
		a, b := shortKey(string(w))
		if before, ok := words[key{a, b}]; ok && before != string(w) {
			t.Fatalf("%q and %q have the same key", before, w)
		}
		words[key{a, b}] = string(w)
	}
}
