package convert

import (
	"runtime"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Estimate holds the time and the memory that quantising will take.
type Estimate struct {
	Time   time.Duration
	Memory int64 // bytes, without the pages of the files

	steps []step
}

// step is a tensor in the order of writing.
type step struct {
	bytes int64 // that are written
	time  time.Duration
}

// copyRate is the approximate rate of writing unchanged tensors, in bytes a second.
const copyRate = 1e9

// Done returns the part of Time for the first bytes bytes of tensors.
func (e *Estimate) Done(bytes int64) time.Duration {
	var spent time.Duration
	for _, s := range e.steps {
		if bytes < s.bytes {
			return spent + time.Duration(float64(s.time)*float64(bytes)/float64(s.bytes))
		}
		bytes -= s.bytes
		spent += s.time
	}
	return spent
}

// sampleElems is the number of elements of each pair of types that are timed for an estimate.
const sampleElems = 1 << 15

// Estimate times a few rows of each pair of types, and returns the time that the whole will take at this speed.
func (q *Quantization) Estimate(choices []Choice) (e Estimate) {
	threads := q.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	type pair struct{ from, to quant.Type }
	perElem := map[pair]float64{} // seconds
	if q.KeepSplit {
		choices = slices.Clone(choices)
		slices.SortStableFunc(choices, func(a, b Choice) int { return a.Tensor.PartNo - b.Tensor.PartNo })
	}
	for _, c := range choices {
		seconds := float64(c.Bytes()) / copyRate
		if c.Type != c.Tensor.Type {
			p := pair{c.Tensor.Type, c.Type}
			if _, ok := perElem[p]; !ok {
				perElem[p] = q.timeRows(c)
			}
			seconds += perElem[p] * float64(c.Tensor.Elems()) / float64(threads)
		}
		s := step{c.Bytes(), time.Duration(seconds * float64(time.Second))}
		e.steps = append(e.steps, s)
		e.Time += s.time
	}
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
			return 0 // Quantize will report the error
		}
	}
	return time.Since(begin).Seconds() / float64(rows*cols)
}
