package vulkan

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestDecoded: decode.comp makes halves of a matrix of any type and layout, in the order of its rows in memory.
func TestDecoded(t *testing.T) {
	d, messages := software(t, Options{})
	defer messages.check(t)
	defer d.Close()
	const rows = 70
	rng := rand.New(rand.NewPCG(3, 0))
	for _, typ := range quant.Computed() {
		if !typ.Quantised() || typ == quant.NVFP4Scaled {
			continue
		}
		cols := ceil(96, typ.BlockElems()) * typ.BlockElems()
		src, values := encoded(rng, typ, rows, cols), make([]float32, rows*cols)
		for r := range rows {
			size := typ.RowBytes(cols)
			quant.Decode(typ, values[r*cols:][:cols], src.Data[r*size:][:size])
		}
		for _, use := range []compute.Use{compute.Dense, compute.Columns} {
			w, err := d.Matrix(src, use)
			if err != nil {
				t.Fatal(err)
			}
			m := mem(w)
			turned := m.layout != plain // by column
			pitch := m.units * quant.QK
			lines := rows
			if turned {
				lines = cols
			}
			seen, err := d.mem.Alloc(driver.ToHost, int64(2*lines*pitch))
			if err == nil {
				err = d.once(func(r *recorder) {
					r.copy(seen, r.decoded(variant{decoded: true}, m, &m.parts[0], typ).Slice(0, seen.Size))
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range values {
				at := i/cols*pitch + i%cols
				if turned {
					at = i%cols*pitch + i/cols
				}
				have := quant.F32FromF16(binary.LittleEndian.Uint16(seen.Host()[2*at:]))
				if e := math.Abs(float64(have - want)); !(e <= math.Abs(float64(want))/(1<<10)+1e-7) {
					t.Fatalf("%s, use %v: row %d, column %d is %g, want %g", typ, use, i/cols, i%cols, have, want)
				}
			}
			d.reset()
		}
	}
}
