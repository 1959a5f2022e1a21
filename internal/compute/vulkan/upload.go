package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// room is device memory for matrices that the host sends anew whenever they are needed, and host memory that they pass through.
type room struct{ local, staged view }

// Room allocates room for matrices of size bytes together, for Bring.
func (d *Device) Room(size int64) (any, error) {
	var r room
	var err error
	if r.local, err = d.alloc(size); err == nil {
		r.staged, err = d.mem.alloc(staged, size)
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Bring makes into, a Room, hold the matrices that sources, without their data, and uses describe. fill is called by the host of an
// earlier Beside with the data of one of them. What runs beside may bring one room's while it computes with another's; a later turn of
// the host comes when they are there.
func (r *recorder) Bring(into any, sources []compute.Source, uses []compute.Use) (matrices []*compute.Matrix, fill func(i int, data []byte)) {
	to := into.(*room)
	fills := make([]func(data []byte), len(sources))
	at := int64(0)
	for i, src := range sources {
		r.d.quantised = r.d.quantised || quantised(src.Type)
		m, rows, regions, pack, err := laidOut(src, uses[i])
		p, end := placed(regions, rows)
		if err == nil && at+end > to.local.size {
			err = fmt.Errorf("tensor %q: %s of rows are sent, and there is room for %s", src.Name, mebibytes(at+end), mebibytes(to.local.size))
		}
		if err == nil && end > r.d.maxBinding {
			err = fmt.Errorf("tensor %q: %s of rows are sent, and the GPU can bind %s at once", src.Name, mebibytes(end), mebibytes(r.d.maxBinding))
		}
		matrix := &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: m}
		matrices = append(matrices, matrix)
		if err != nil {
			r.fail(err)
			continue
		}
		p.memory = to.local.slice(at, end)
		m.parts = []part{p}
		staged := to.staged.slice(at, end)
		fills[i] = func(data []byte) {
			src := src
			src.Data = data
			for k, region := range regions {
				pack(src, region, staged.slice(p.regions[k], int64(rows/region.rows*region.size)).host(), 0)
			}
		}
		at = align(at+end, r.d.gpu.alignment())
	}
	if r.err == nil {
		r.about(sources[0].Name + sent)
		r.copy(to.local.slice(0, min(at, to.local.size)), to.staged.slice(0, min(at, to.staged.size)))
		r.late = r.late || r.beside
	}
	return matrices, func(i int, data []byte) { fills[i](data) }
}
