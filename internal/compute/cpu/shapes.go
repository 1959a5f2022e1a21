package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Shape is a type of weights, how their rows are read, and how many elements a row has.
type Shape struct {
	Type  quant.Type
	Order kernel.Order
	Cols  int
}

// Scattered reports whether rows are chosen by index.
func (s Shape) Scattered() bool { return s.Order == kernel.Scattered }

// Mapped reports whether rows have the file's layout.
func (s Shape) Mapped() bool { return s.Order == kernel.Mapped }

// shapeCols returns row lengths, in elements, that models of one to seventy billion weights have. One kernel serves
// scattered rows of all lengths: it is measured with the length of a model of seven billion.
func shapeCols(o kernel.Order) []int {
	if o == kernel.Scattered {
		return []int{4096}
	}
	return []int{2048, 4096, 8192, 14336, 28672}
}

// Shapes lists the shapes for which this machine has several kernels: for each type and order one for every class of
// row lengths.
func Shapes() []Shape {
	k := kernel.Variants()[0]
	var list []Shape
	for o := range kernel.Order(kernel.Orders) {
		for _, t := range quant.Types() {
			if len(k.Ways(t, o)) < 2 {
				continue
			}
			var seen [kernel.Classes]bool
			for _, cols := range shapeCols(o) {
				if c := k.ClassOf(t, o, cols); !seen[c] {
					seen[c] = true
					list = append(list, Shape{t, o, cols})
				}
			}
		}
	}
	return list
}

// TuneCaches is the size of TuneOn's memory as a multiple of the caches.
const TuneCaches = 4

// TuneOn chooses the kernel of a shape as Tune does, on weights in memory, with all bytes zero. memory is TuneCaches
// times what caches hold, if the machine has that much. TuneOn begins to read at byte from, and returns where it ended,
// so that the next shape does not begin with data that is still in the caches.
func (d *Device) TuneOn(s Shape, memory []byte, from int) (end int) {
	m := &matrix{rowBytes: kernel.RowBytes(s.Type, s.Cols), packed: true, k: d.k}
	switch s.Order {
	case kernel.Scattered:
		m.layout = neurons
	case kernel.Mapped:
		m.rowBytes, m.packed = s.Type.RowBytes(s.Cols), false
	}
	rows := len(memory) / m.rowBytes
	m.data = memory[:rows*m.rowBytes]
	var u tuner
	u.add(&compute.Matrix{Name: "kernels", Type: s.Type, Rows: rows, Cols: s.Cols, Mem: m})
	shape := u.shapes[0]
	shape.row = from / m.rowBytes
	if shape.row+2*d.decode.Threads()*tuneStride*tunePiece/m.rowBytes > rows {
		shape.row = 0
	}
	if s.Scattered() {
		d.displace(shape, len(memory)/TuneCaches)
	}
	d.tuneWays(shape, d.k.Ways(s.Type, s.Order))
	return shape.row * m.rowBytes
}

// displace reads about bytes bytes of a shape's scattered rows, so that caches hold no rows of the shape before. Each
// turn reads one of tuneStride rows of all the memory. Large caches hold the data of several turns, which is spread
// over the memory, and rows of another length hit some of it. With many threads a turn ends after a few measurements,
// or only one. The shape's own rows differ from turn to turn until all were read.
func (d *Device) displace(s *tuneShape, bytes int) {
	each := min(2*d.decode.Threads()*tunePiece, s.bytes/tuneStride)
	for ; bytes > 0; bytes -= each {
		d.timedScattered(s)
	}
}
