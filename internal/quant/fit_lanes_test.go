package quant

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestLanesAreTheirTwins: eight blocks in lanes give the bits of each block alone.
func TestLanesAreTheirTwins(t *testing.T) {
	if fitLanes() == 0 {
		t.Skip("no vectors here")
	}
	rng := testenv.Rand(t)
	for round := range 200 {
		size := 16 << (round % 2)
		x, w := make([]float32, laneBlocks*size), make([]float32, laneBlocks*size)
		for i := range x {
			x[i], w[i] = float32(rng.NormFloat64()*math.Exp(rng.NormFloat64())), rng.Float32()
			switch i / size {
			case round % 11: // one block of zeros, one of a constant, one without weights
				x[i] = 0
			case round % 13:
				x[i] = 3
			case round % 17:
				w[i] = 0
			case round % 19:
				x[i] *= 1e-20
			}
		}
		var d, m, wantD, wantM lanes
		most := []float32{3, 4, 8, 15, 16, 31, 32}[round%7]
		fitScaleLanes(d[:], x, w, most)
		for j := range wantD {
			wantD[j] = fitScale(x[j*size:][:size], w[j*size:][:size], most)
		}
		if d != wantD {
			t.Fatalf("round %d: scales %v, alone %v", round, d, wantD)
		}
		for _, g := range []grids{weighedGrids(), formQ2_K().unweighed, formQ4_K().unweighed} {
			fitMinimumLanes(d[:], m[:], x, w, most, g)
			for j := range wantD {
				wantD[j], wantM[j] = fitMinimum(x[j*size:][:size], w[j*size:][:size], most, g)
			}
			if d != wantD || m != wantM {
				t.Fatalf("round %d, %+v: %v %v, alone %v %v", round, g, d, m, wantD, wantM)
			}
		}
	}
}
