package quant

import (
	"math"
	"math/rand/v2"
)

// Imitate is Encode for tests and synthetic models. For a type on a grid, which is slow to encode, it writes valid
// blocks of random codes instead. They depend only on src, and their elements have the root mean square of src's.
func Imitate(t Type, dst []byte, src []float32) {
	if !t.OnGrid() {
		Encode(t, dst, src)
		return
	}
	size, n := t.BlockBytes(), t.BlockElems()
	x := make([]float32, n)
	for ; len(src) > 0; src, dst = src[n:], dst[size:] {
		var square float64
		seed := uint64(14695981039346656037) // of FNV
		for _, v := range src[:n] {
			square += float64(float64(v) * float64(v))
			seed = (seed ^ uint64(math.Float32bits(v))) * 1099511628211
		}
		rng, b := rand.New(rand.NewPCG(seed, 0)), dst[:size]
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		unit := float32(1. / 64)
		t.SetUnits(b, func() float32 { return unit })
		Decode(t, x, b)
		var own float64
		for _, v := range x {
			own += float64(float64(v) * float64(v))
		}
		if own > 0 {
			unit *= float32(math.Sqrt(square / own))
		}
		t.SetUnits(b, func() float32 { return unit })
	}
}
