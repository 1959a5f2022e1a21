package cpu

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestParts: the parts of a row's open neurons follow one another and hold each once. Those of groups hold all of a
// group's or none, so that a group has one scale.
func TestParts(t *testing.T) {
	random := testenv.Rand(t)
	for range 200 {
		n := kernel.GroupNeurons * (1 + random.IntN(40))
		share := random.Float64()
		f := sparseFFN{n: n, open: newSet(1, n)}
		list := f.open.room(0)
		for i := range n {
			if random.Float64() < share {
				list = append(list, int32(i))
			}
		}
		f.open.count[0] = len(list)
		for _, of := range []layout{neurons, groups} {
			f.w.Down = &compute.Matrix{Mem: &matrix{layout: of}}
			var joined []int32
			for i := range f.parts(0) {
				part := f.part(0, i)
				if before := len(joined) - 1; of == groups && before >= 0 && len(part) > 0 && joined[before]/kernel.GroupNeurons == part[0]/kernel.GroupNeurons {
					t.Fatalf("neurons %d and %d of a group are in two parts", joined[before], part[0])
				}
				joined = append(joined, part...)
			}
			if !slices.Equal(joined, f.open.token(0)) {
				t.Fatalf("%d parts hold %v of %v", f.parts(0), joined, f.open.token(0))
			}
		}
	}
}
