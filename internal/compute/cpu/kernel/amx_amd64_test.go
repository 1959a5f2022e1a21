package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/cpu"
)

// TestTermsAreTheirDefinition holds what makes terms of floats, and tiles of them, to its twins; terms add up to what
// they were made of.
func TestTermsAreTheirDefinition(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 {
		t.Skip("this processor lacks AVX-512 BF16")
	}
	rng := testenv.Rand(t)
	const groups, term = 3, 3*2*bf16Group + 64
	x, halves := make([]float32, groups*bf16Group), make([]byte, groups*bf16Group*2)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(60)-30)))
		binary.LittleEndian.PutUint16(halves[2*i:], quant.F16FromF32(float32(rng.NormFloat64())))
	}
	values := make([]float32, len(x))
	quant.Decode(quant.F16, values, halves)
	for _, c := range []struct {
		name  string
		x     []float32
		terms int
		split func(dst *byte)
	}{
		{"float32", x, layout.ActTerms, func(dst *byte) { splitThreeBF16(dst, term, &x[0], groups) }},
		{"F16", values, layout.TileTerms, func(dst *byte) { splitTwoBF16(dst, term, &values[0], groups) }},
	} {
		got, want := make([]byte, c.terms*term+canary), make([]byte, c.terms*term+canary)
		c.split(&got[0])
		splitGeneric(want, term, c.x, c.terms)
		if !bytes.Equal(got, want) {
			t.Errorf("terms of %s differ from their definition", c.name)
		}
		for i, v := range c.x {
			sum := float32(0)
			for n := range c.terms {
				sum += math.Float32frombits(uint32(binary.LittleEndian.Uint16(want[n*term+2*i:])) << 16)
			}
			if sum != v {
				t.Fatalf("%s: the terms of %g add up to %g", c.name, v, sum)
			}
		}
	}
	scores, sum := make([]float32, len(x)), 0.0
	for i := range scores {
		scores[i] = float32(-7 * math.Abs(rng.NormFloat64()))
	}
	scores[5], scores[40], scores[77] = float32(math.Inf(-1)), -200, 0
	weights := make([]byte, layout.ActTerms*term+canary)
	total := weighThreeAMX(&weights[0], term, &scores[0], groups, 0)
	for i, v := range scores {
		e := exp32(v)
		sum += float64(e)
		have, want := float64(0), float64(e)
		for n := range layout.ActTerms {
			have += float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(weights[n*term+2*i:])) << 16))
		}
		if math.Abs(have-want) > 2*expTolerance*want {
			t.Fatalf("the terms of the weight of %g add up to %g, not %g", v, have, want)
		}
	}
	if math.Abs(float64(total)-sum) > 1e-6*sum {
		t.Errorf("weights sum up to %g, not %g", total, sum)
	}
	two := make([]byte, layout.TileTerms*term+canary)
	weighTwoAMX(&two[0], term, &scores[0], groups, 0)
	if !bytes.Equal(two[:layout.TileTerms*term], weights[:layout.TileTerms*term]) {
		t.Error("two terms of weights are not the first of three")
	}
	const rowBytes, step = 2*bf16Group*groups + 64, layout.PairTile + 64
	w := make([]byte, layout.MatrixRows*rowBytes)
	for i := range w {
		w[i] = byte(rng.Uint32())
	}
	got, want := make([]byte, groups*step+canary), make([]byte, groups*step+canary)
	fillPairsAMX(&got[0], step, &w[0], rowBytes, groups)
	fillPairsGeneric(want, step, w, rowBytes, groups)
	if !bytes.Equal(got, want) {
		t.Error("tiles of pairs differ from their definition")
	}
	const panel = 2*layout.PairTile + 64
	got, want = make([]byte, groups*panel), make([]byte, groups*panel)
	zipPairsAMX(&got[0], panel, &w[0], &w[rowBytes], groups)
	zipPairsGeneric(want, panel, w, w[rowBytes:], groups)
	if !bytes.Equal(got, want) {
		t.Error("pairs of two rows differ from their definition")
	}
}
