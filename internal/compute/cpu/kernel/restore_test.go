package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestRestore: what was packed comes back byte for byte, rows and groups of columns.
func TestRestore(t *testing.T) {
	const seed = 23
	rng := rand.New(rand.NewPCG(seed, 0))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for _, typ := range quant.Computed() {
		for _, cols := range []int{32, 224, 256, 288, 1024, 4544} {
			if cols%typ.BlockElems() != 0 {
				continue
			}
			file := randomFile(rng, typ, 1, cols)
			packed, got := make([]byte, RowBytes(typ, cols)), make([]byte, len(file))
			PackRow(typ, packed, file, cols)
			RestoreRow(typ, got, packed, 0, cols)
			if !bytes.Equal(got, file) {
				t.Errorf("seed %d: a row of %d %s came back otherwise", seed, cols, typ)
			}
			if from := cols / 2 / typ.BlockElems() * typ.BlockElems(); from > 0 {
				n := min(512, cols-from) / typ.BlockElems() * typ.BlockElems()
				RestoreRow(typ, got[:typ.RowBytes(n)], packed, from, n)
				if !bytes.Equal(got[:typ.RowBytes(n)], file[typ.RowBytes(from):][:typ.RowBytes(n)]) {
					t.Errorf("seed %d: a part of a row of %d %s came back otherwise", seed, cols, typ)
				}
			}
		}
		if !typ.Traits().Columns {
			continue
		}
		for _, rows := range []int{32, 256, 300, 544} {
			const columns = 3 * GroupNeurons
			rowBytes := typ.RowBytes(columns)
			file := random(rows * rowBytes)
			got := make([]byte, len(file))
			for g := range columns / GroupNeurons {
				group := make([]byte, GroupBytes(typ, rows))
				for s := range Super(rows) {
					PackGroup(typ, group, file, rows, rowBytes, g, s)
				}
				for s := range Super(rows) {
					RestoreGroup(typ, got, group, rows, rowBytes, g, s)
				}
			}
			if !bytes.Equal(got, file) {
				t.Errorf("seed %d: columns of %d %s came back otherwise", seed, rows, typ)
			}
		}
	}
}
