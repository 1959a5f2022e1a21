package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// Rows of a length that is no multiple of a superblock are filled up with nothing, and keep their elements.
func TestPackedRowKeepsElements(t *testing.T) {
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, typ := range quant.Types() {
		for _, cols := range []int{32, 224, 256, 288, 1024, 4544} {
			if cols%typ.BlockElems() != 0 {
				continue
			}
			raw := make([]byte, typ.RowBytes(cols))
			x, want, got := make([]float32, cols), make([]float32, cols), make([]float32, cols)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			quant.Imitate(typ, raw, x)
			quant.Decode(typ, want, raw)
			n := RowBytes(typ, cols)
			packed := make([]byte, n+2*canary)
			for i := range packed {
				packed[i] = 0xa5
			}
			PackRow(typ, packed[canary:][:n], raw, cols)
			for i := range canary {
				if packed[i] != 0xa5 || packed[len(packed)-1-i] != 0xa5 {
					t.Fatalf("%s %d: packed outside the row", typ, cols)
				}
			}
			UnpackRow(typ, got, packed[canary:][:n])
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("seed %d: %s %d: element %d is %g packed, %g in the file", seed, typ, cols, i, got[i], want[i])
				}
			}
		}
	}
}

// BenchmarkPackRow repacks a row that is in the cache; B/s are bytes of the file.
func BenchmarkPackRow(b *testing.B) {
	const cols = 4096
	for _, typ := range append(quantised(), quant.F16) {
		b.Run(fmt.Sprint(typ), func(b *testing.B) {
			src, dst := make([]byte, typ.RowBytes(cols)), make([]byte, RowBytes(typ, cols))
			b.SetBytes(int64(len(src)))
			k := Variants()[0]
			for b.Loop() {
				k.PackRow(typ, dst, src, cols)
			}
		})
	}
}

// TestPackedEights: what packs whole words writes the bytes that packParts does.
func TestPackedEights(t *testing.T) {
	rng := testenv.Rand(t)
	for _, typ := range quant.Types() {
		if !typ.Parted() || !quicker(typ) {
			continue
		}
		n := layout.Of(typ).Bytes
		for range 100 {
			file := randomFile(rng, typ, 1, quant.QKK)
			got, want := make([]byte, n), make([]byte, n)
			packSuper(typ, got, file)
			packParts(typ, want, file)
			if at := firstDifference(got, want); at >= 0 {
				t.Fatalf("%s: byte %d is %d, defined as %d", typ, at, got[at], want[at])
			}
		}
	}
}
