package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// room is device memory for matrices that the host sends anew whenever they are needed, and host memory that they pass
// through.
type room struct{ local, staged driver.View }

// StreamBuffer allocates room for matrices of size bytes together, for UploadWeights.
func (d *Device) StreamBuffer(size int64) (any, error) {
	var r room
	var err error
	if r.local, err = d.alloc(size); err == nil {
		r.staged, err = d.mem.Alloc(driver.Staged, size)
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// StreamedBytes returns what a row of so many elements takes, padded to whole blocks.
func (d *Device) StreamedBytes(t quant.Type, elements int) int64 { return RowBytes(t, elements) }

// RowBytes returns the bytes of GPU memory for a row of so many elements of type t, padded to whole blocks. Types on
// grids take more there than in a file.
func RowBytes(t quant.Type, elements int) (bytes int64) {
	whole := max(quant.QK, t.BlockElems())
	for _, r := range rowRegions(t, ceil(elements, whole)*whole/unitElems(t)) {
		bytes += int64(r.size)
	}
	return bytes
}

// UploadWeights makes into, which StreamBuffer returned, hold the matrices that sources, without their data, and uses
// describe. The host of an earlier Overlap calls fill with the data of one of them. What runs beside may bring one
// buffer's matrices while it computes with another's; a later turn of the host comes when they are there.
func (r *recorder) UploadWeights(into any, sources []compute.Source, uses []compute.Use) (matrices []*compute.Matrix, fill func(i int, data []byte)) {
	to := into.(*room)
	fills := make([]func(data []byte), len(sources))
	at := int64(0)
	for i, src := range sources {
		r.d.quantised = r.d.quantised || src.Type.Quantised()
		m, rows, regions, pack, err := laidOut(src, uses[i])
		p, end := placed(regions, rows)
		if err == nil && at+end > to.local.Size {
			err = fmt.Errorf("tensor %q: %s of rows are sent, and there is room for %s", src.Name, driver.Mebibytes(at+end), driver.Mebibytes(to.local.Size))
		}
		if err == nil && end > r.d.maxBinding {
			err = fmt.Errorf("tensor %q: %s of rows are sent, and the GPU can bind %s at once", src.Name, driver.Mebibytes(end), driver.Mebibytes(r.d.maxBinding))
		}
		matrix := &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: m}
		matrices = append(matrices, matrix)
		if err != nil {
			r.fail(err)
			continue
		}
		p.memory = to.local.Slice(at, end)
		m.parts = []part{p}
		staged := to.staged.Slice(at, end)
		fills[i] = func(data []byte) {
			src := src
			src.Data = data
			for k, region := range regions {
				pack(src, region, staged.Slice(p.regions[k], int64(rows/region.rows*region.size)).Host(), 0)
			}
		}
		at = driver.Align(at+end, r.d.gpu.Alignment())
	}
	if r.err == nil {
		if size := min(at, to.local.Size); !r.copyBeside(to, size) {
			r.about(sources[0].Name + sent)
			r.copy(to.local.Slice(0, size), to.staged.Slice(0, size))
			r.late = r.late || r.overlap
		}
	}
	return matrices, func(i int, data []byte) { fills[i](data) }
}
