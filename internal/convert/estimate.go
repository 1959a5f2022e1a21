package convert

import (
	"runtime"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Estimate holds the time and the memory that quantising will take.
type Estimate struct {
	Time   time.Duration
	Memory int64 // bytes, beside the pages of the files
}

// sampleElems is the number of elements of each pair of types that are timed for an estimate.
const sampleElems = 1 << 15

// Estimate times a few rows of each pair of types, and says what the whole will take if the machine goes on like that.
func (q *Quantization) Estimate(choices []Choice) (e Estimate) {
	threads := q.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	type pair struct{ from, to quant.Type }
	perElem := map[pair]float64{} // seconds
	var seconds float64
	for _, c := range choices {
		if c.Type == c.Tensor.Type {
			continue
		}
		p := pair{c.Tensor.Type, c.Type}
		if _, ok := perElem[p]; !ok {
			perElem[p] = q.timeRows(c)
		}
		seconds += perElem[p] * float64(c.Tensor.Elems())
	}
	e.Time = time.Duration(seconds / float64(threads) * float64(time.Second))
	e.Memory = memory(threads)
	return e
}

// timeRows returns the seconds that an element takes on one processor.
func (q *Quantization) timeRows(c Choice) float64 {
	cols := c.Tensor.Shape[0]
	rows := max(1, min(c.Tensor.Rows(), sampleElems/cols))
	var l lane
	t := &tensor{name: c.Tensor.Name, shape: c.Tensor.Shape, mapped: c.Tensor}
	if entry := c.importance; entry != nil && c.Type.Weighable() && len(entry.Sums) == cols*matrices(c.Tensor.Shape) {
		t.importance = entry.Mean()
	}
	begin := time.Now()
	for range 2 { // the first reads the file and makes tables
		begin = time.Now()
		if l.encode(t, c.Type, cols, 0, rows) != nil {
			return 0 // Quantize will say why
		}
	}
	return time.Since(begin).Seconds() / float64(rows*cols)
}
