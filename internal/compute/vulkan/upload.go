package vulkan

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// room is device memory for matrices that the host sends whenever they are needed, and host memory that they pass
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

// StreamedBytes returns the bytes of a row of that many elements, padded to whole blocks.
func (d *Device) StreamedBytes(t quant.Type, elements int) int64 { return RowBytes(t, elements) }

// RowBytes returns the bytes of GPU memory for a row of that many elements of type t, padded to whole blocks. Types
// with grids take more memory there than in a file.
func RowBytes(t quant.Type, elements int) (bytes int64) {
	whole := max(quant.QK, t.BlockElems())
	for _, r := range rowRegions(t, ceil(elements, whole)*whole/unitElems(t)) {
		bytes += int64(r.size)
	}
	return bytes
}

// Feed makes the host call fill once nothing reads the host memory of a room, which StreamBuffer returned, any more. It
// submits what was recorded so far and does not wait for it.
func (r *recorder) Feed(into any, fill func(p *compute.Params) error) {
	u := r.roomUse(into.(*room).local)
	r.ahead(fill, u.read, u.copied)
	r.begin()
}

// UploadWeights makes into, which StreamBuffer returned, hold the matrices that weights describe. The host of an
// earlier Overlap or Feed fills in their data. The queue for copies may bring one buffer's matrices while the device
// computes with another's; a later turn of the host comes once they have arrived.
func (r *recorder) UploadWeights(into any, weights []compute.Sent) ([]*compute.Matrix, compute.Filler) {
	to := into.(*room)
	fills := make(fillers, len(weights))
	matrices := make([]*compute.Matrix, len(weights))
	at := int64(0)
	for i, w := range weights {
		src := w.Source
		r.d.quantised = r.d.quantised || src.Type.Quantised()
		m, rows, regions, pack, err := laidOut(src, w.Use)
		p, end := placed(regions, rows)
		p.first, m.some = w.First, src.Rows < w.Of
		if err == nil && at+end > to.local.Size {
			err = fmt.Errorf("tensor %q: %s of rows are sent, and there is room for %s", src.Name, driver.Mebibytes(at+end), driver.Mebibytes(to.local.Size))
		}
		if err == nil && end > r.d.maxBinding {
			err = fmt.Errorf("tensor %q: %s of rows are sent, and the GPU can bind %s at once", src.Name, driver.Mebibytes(end), driver.Mebibytes(r.d.maxBinding))
		}
		matrices[i] = &compute.Matrix{Name: src.Name, Type: src.Type, Rows: max(src.Rows, w.Of), Cols: src.Cols, Mem: m}
		if err != nil {
			r.fail(err)
			continue
		}
		p.memory = to.local.Slice(at, end)
		m.parts = []part{p}
		fills[i] = filler{src, p, regions, pack, to.staged.Slice(at, end)}
		at = driver.Align(at+end, r.d.gpu.Alignment())
	}
	if r.err == nil {
		if size := min(at, to.local.Size); !r.copyBeside(to, size) {
			r.about(weights[0].Name + sent)
			r.copy(to.local.Slice(0, size), to.staged.Slice(0, size))
			r.roomUse(to.local).read = r.seg.commands + 1
			r.late = r.late || r.overlap
		}
	}
	return matrices, fills
}

// filler fills the memory that a matrix passes through.
type filler struct {
	src     compute.Source
	part    part
	regions []region
	pack    func(src compute.Source, r region, dst []byte, first int)
	staged  driver.View
}

type fillers []filler

// memory returns the host memory of a region.
func (f *filler) memory(region int) []byte {
	r := f.regions[region]
	return f.staged.Slice(f.part.regions[region], int64(f.part.rows/r.rows*r.size)).Host()
}

// Fill implements compute.Filler.
func (all fillers) Fill(i int, data []byte) {
	f := &all[i]
	src := f.src
	src.Data = data
	for k, region := range f.regions {
		f.pack(src, region, f.memory(k), 0)
	}
}

// FillRows implements compute.Filler, for matrices with an item for each row in every region.
func (all fillers) FillRows(i int, row func(row int, scratch []byte) []byte) {
	f := &all[i]
	size := f.src.Type.RowBytes(f.src.Cols)
	f.eachRow(func(n int, planes [][]byte, scratch []byte) {
		file := row(n, scratch[:size])
		for k, r := range f.regions {
			r.pack(planes[k], file)
		}
	})
}

// FillPlanes implements compute.Filler. The regions of these types are planes.
func (all fillers) FillPlanes(i int, write func(row int, planes [][]byte)) bool {
	f := &all[i]
	switch f.src.Type {
	case quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K:
		f.eachRow(func(n int, planes [][]byte, _ []byte) { write(n, planes) })
		return true
	}
	return false
}

// eachRow calls do for each row, or group of rows, on all cores, with memory for its items in the regions and scratch
// for a row of a file. The memory belongs to the core, holds some rows and is copied at once: the CPU combines writes
// that follow one another, but not if it reads much between them.
func (f *filler) eachRow(do func(row int, items [][]byte, scratch []byte)) {
	memory := make([][]byte, len(f.regions))
	bytes := 0 // bytes of a row
	for k, r := range f.regions {
		memory[k] = f.memory(k)
		bytes += r.size
	}
	n, workers := f.part.rows/f.regions[0].rows, runtime.GOMAXPROCS(0)
	size := max(1, n/(turns*workers)) // rows that a core takes at a time
	block := min(size, max(1, blockBytesSent/bytes))
	var taken atomic.Int64
	inParallel(min(n, workers), func(int, int) {
		scratch, items, own := make([]byte, f.src.Type.RowBytes(f.src.Cols)), make([][]byte, len(f.regions)), make([][]byte, len(f.regions))
		for k, r := range f.regions {
			own[k] = make([]byte, block*r.size)
		}
		for {
			end := int(taken.Add(int64(size)))
			from := end - size
			if from >= n {
				return
			}
			for end = min(end, n); from < end; from += block {
				some := min(block, end-from)
				for i := range some {
					for k, r := range f.regions {
						items[k] = own[k][i*r.size:][:r.size]
					}
					do(from+i, items, scratch)
				}
				for k, r := range f.regions {
					copy(memory[k][from*r.size:], own[k][:some*r.size])
				}
			}
		}
	})
}

const (
	// turns is how many times a core takes rows, about: one that is late keeps the others waiting for less.
	turns = 4
	// blockBytesSent are the bytes of the rows that a core packs before it copies them. They fit in its nearest cache.
	blockBytesSent = 16 << 10
)
