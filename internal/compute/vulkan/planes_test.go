package vulkan

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPlanes: rows that the processor gives by planes are byte by byte the rows that are packed from a file's rows.
// Only types with planes as regions are taken in this way.
func TestPlanes(t *testing.T) {
	testenv.Thorough(t)
	host, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	rng := rand.New(rand.NewPCG(7, 1))
	given := 0
	for _, typ := range quant.Types() {
		if !typ.Quantised() {
			continue
		}
		for _, cols := range []int{1024, 288} {
			if cols%typ.BlockElems() != 0 {
				continue
			}
			const rows = 3
			x, src := make([]float32, rows*cols), compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: make([]byte, rows*typ.RowBytes(cols))}
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			quant.Encode(typ, src.Data, x)
			w, err := host.Matrix(src, compute.Rows)
			if err != nil {
				t.Fatal(err)
			}
			regions := rowRegions(typ, ceil(cols, unitElems(typ)))
			f := fillers{{src: src}}
			if !host.HasPlanes(w) {
				if f.FillPlanes(0, func(int, [][]byte) {}) {
					t.Errorf("%s: the GPU takes planes, and the processor gives none", typ)
				}
				continue
			}
			given++
			for row := range rows {
				planes := make([][]byte, len(regions))
				for k, r := range regions {
					planes[k] = make([]byte, r.size)
				}
				host.Planes(w, row, planes)
				for k, r := range regions {
					want := make([]byte, r.size)
					r.pack(want, src.Data[row*typ.RowBytes(cols):][:typ.RowBytes(cols)])
					if !bytes.Equal(planes[k], want) {
						t.Errorf("%s of %d elements: row %d differs in region %d", typ, cols, row, k)
					}
				}
			}
		}
	}
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		for _, rows := range []int{512, 288} { // outputs
			const neurons = 96
			x, src := make([]float32, rows*neurons), compute.Source{Name: "down", Type: typ, Rows: rows, Cols: neurons, Data: make([]byte, rows*typ.RowBytes(neurons))}
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
			quant.Encode(typ, src.Data, x)
			w, err := host.Matrix(src, compute.Columns)
			if err != nil {
				t.Fatal(err)
			}
			_, _, regions, pack, err := laidOut(src, compute.Columns)
			if err != nil {
				t.Fatal(err)
			}
			for group := range neurons / quant.QK {
				planes := make([][]byte, len(regions))
				for k, r := range regions {
					planes[k] = make([]byte, r.size)
				}
				host.Planes(w, group, planes)
				for k, r := range regions {
					want := make([]byte, r.size)
					pack(src, r, want, group)
					if !bytes.Equal(planes[k], want) {
						t.Errorf("%s of %d outputs: group %d differs in region %d", typ, rows, group, k)
					}
				}
			}
		}
	}
	if given == 0 {
		t.Error("the processor gives no planes")
	}
}
