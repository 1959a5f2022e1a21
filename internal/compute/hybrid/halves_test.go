package hybrid

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestHalvesOfBF16: BF16 numbers in F16's range are exact in F16, and so is every F16 weight that was rounded to BF16,
// unless that rounded it beyond the largest F16.
func TestHalvesOfBF16(t *testing.T) {
	halves := halvesOfBF16()
	for i := range 1 << 16 {
		v := quant.F32FromF16(uint16(i))
		if v != v || math.IsInf(float64(v), 0) {
			continue
		}
		bits := quant.BF16FromF32(v)
		want := quant.F32FromBF16(bits)
		if got := quant.F32FromF16(halves[bits]); got != max(-65504, min(want, 65504)) {
			t.Fatalf("%g, which is %g in BF16, is sent as %g", v, want, got)
		}
	}
	if v := quant.F32FromF16(halves[0x7f80]); !math.IsInf(float64(v), 1) {
		t.Errorf("infinity is sent as %g", v)
	}
}
