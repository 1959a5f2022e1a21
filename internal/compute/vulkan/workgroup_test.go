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
	d := lent(t)
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
			turned := m.layout != plain         // by column
			for _, from := range []int{0, 32} { // outputs
				var halves []byte
				var quads int
				err = d.once(func(r *recorder) {
					var v driver.View
					v, quads = r.decoded(m, &m.parts[0], typ, from, rows-from, turned)
					seen, err := d.mem.Alloc(driver.ToHost, v.Size)
					r.fail(err)
					r.copy(seen, v)
					halves = seen.Host()
				})
				if err != nil {
					t.Fatal(err)
				}
				for i := range (rows - from) * cols {
					row, col := i/cols, i%cols
					want, at := values[(from+row)*cols+col], row*8*quads+col
					if turned {
						at = col*8*quads + row
					}
					have := quant.F32FromF16(binary.LittleEndian.Uint16(halves[2*at:]))
					if e := math.Abs(float64(have - want)); !(e <= math.Abs(float64(want))/(1<<10)+1e-7) {
						t.Fatalf("%s, use %v: row %d, column %d is %g, want %g", typ, use, from+row, col, have, want)
					}
				}
			}
			d.reset()
		}
	}
}

// TestDecodedRows: rows are decoded in whole tiles, about as many each time, within the memory that there is for them.
func TestDecodedRows(t *testing.T) {
	d := Counter(Info{})
	v := variant{by: Groups, rows: 128}
	for _, c := range []struct{ decoded, rows, columns, want int }{
		{0, 4096, 4096, 4096},
		{0, 11008, 4096, 3712}, // 86 tiles in three groups, with room for 32 of them
		{0, 4096, 11008, 1408},
		{0, 70, 48, 128},
		{1, 264, 320, 128},
		{1, 128, 100000, 128},
	} {
		d.long.decoded = c.decoded
		if got := d.decodedRows(v, c.rows, c.columns); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
