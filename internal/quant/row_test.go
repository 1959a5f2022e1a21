package quant

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestVectorsAreTheirTwins: kernels of rows give the results of conversion element by element, and block by block.
func TestVectorsAreTheirTwins(t *testing.T) {
	rng := testenv.Rand(t)

	halves := make([]byte, 2<<16)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(halves[2*i:], uint16(i))
	}
	wide := make([]float32, 1<<16)
	decodeF16(wide, halves)
	for i, v := range wide {
		if want := F32FromF16(uint16(i)); math.Float32bits(v) != math.Float32bits(want) {
			t.Fatalf("binary16 %#04x is %g, alone %g", i, v, want)
		}
	}

	x := make([]float32, 64*QK+5)
	for round := range 100 {
		scale := math.Exp(20 * rng.NormFloat64() * float64(round%3))
		for i := range x {
			x[i] = float32(rng.NormFloat64() * scale)
			if i < len(x)-5 { // equal magnitudes, zeros of both signs, halves of a step, numbers beyond binary16's least and largest
				switch i / QK % 8 {
				case 0:
					x[i] = float32(math.Copysign(scale, float64(x[i])))
				case 1:
					x[i] = float32(math.Copysign(0, float64(x[i])))
				case 2:
					x[i] = float32(rng.IntN(255)-127) / 2
				case 3:
					x[i] = math.Float32frombits(rng.Uint32()) // anything
				}
			}
		}
		for _, typ := range []Type{F16, Q4_0, Q8_0} {
			n, e := len(x)/typ.BlockElems()*typ.BlockElems(), typ.entry()
			in := x[:n]
			if typ != F16 {
				in = finite(in)
			}
			got, want := make([]byte, typ.RowBytes(n)), make([]byte, typ.RowBytes(n))
			Encode(typ, got, in)
			for i := 0; i < n; i += e.blockElems {
				e.encode(want[typ.RowBytes(i):], in[i:][:e.blockElems])
			}
			if i := firstDifference(got, want); i >= 0 {
				block := i / e.blockBytes
				t.Fatalf("round %d: %s writes %x, alone %x, of %g", round, typ, got[block*e.blockBytes:][:e.blockBytes], want[block*e.blockBytes:][:e.blockBytes],
					in[block*e.blockElems:][:e.blockElems])
			}
		}
		for i := 0; i+QK <= len(x) && rowVectors(); i += QK {
			block := finite(x[i:][:QK])
			for _, most := range []float32{15, 31} {
				var got, want [QK]uint8
				d, least := spreadVectors(&got, block, most)
				if d2, least2 := spreadGeneric(&want, block, most); got != want || math.Float32bits(d) != math.Float32bits(d2) || math.Float32bits(least) != math.Float32bits(least2) {
					t.Fatalf("round %d: %g becomes %v, %g, %g, alone %v, %g, %g", round, block, got, d, least, want, d2, least2)
				}
			}
		}
		var want uint32
		for _, v := range x {
			want = max(want, math.Float32bits(v)&^(1<<31))
		}
		if got := TopMagnitude(x); got != want {
			t.Fatalf("round %d: the largest magnitude has bits %#x, one by one %#x", round, got, want)
		}
		var q, alone [QKK]uint8
		for _, most := range []float32{4, 8, 16, 32} {
			part, id := x[4*QK:][:QKK], float32(rng.NormFloat64()*float64(most)/scale/3)
			part = finite(part)
			n := roundScaleVectors(q[:], part, id, most)
			for i, v := range part[:n] {
				alone[i] = uint8(within(v*id, -most, most-1) + most)
			}
			if q != alone {
				t.Fatalf("round %d: rounded to %v, alone %v", round, q, alone)
			}
		}
	}
}

// finite returns x with what block types do not take set to zero.
func finite(x []float32) []float32 {
	out := slices.Clone(x)
	for i, v := range out {
		if !(abs(v) < 1e5) {
			out[i] = 0
		}
	}
	return out
}

// firstDifference returns the first place where two slices of equal length differ, or -1.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
