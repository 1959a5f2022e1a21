package convert

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
)

// change changes rows of a tensor in place. It is used by several goroutines at a time.
type change interface {
	// apply changes x, rows of rowLen elements that begin with row from.
	apply(x []float32, rowLen, from int)
}

// measured is a change that depends on all elements of the tensor.
type measured interface {
	change
	// measure is called before the first apply. each gives see all elements, whole rows at a time.
	measure(rowLen int, each func(see func(x []float32)) error) error
}

// plus adds itself to every element.
type plus float32

func (p plus) apply(x []float32, _, _ int) {
	for i := range x {
		x[i] += float32(p)
	}
}

// exponential makes every element e to exponential·exp(e).
type exponential float32

func (c exponential) apply(x []float32, _, _ int) {
	for i, e := range x {
		x[i] = float32(c) * float32(math.Exp(float64(e)))
	}
}

// times multiplies each row by a vector.
type times []float32

func (t times) apply(x []float32, rowLen, _ int) {
	for i := range x {
		x[i] *= t[i%rowLen]
	}
}

// matrixTimes multiplies each matrix of rows rows by its factor.
type matrixTimes struct {
	factors []float32
	rows    int
}

func (t matrixTimes) apply(x []float32, rowLen, from int) {
	for i := range x {
		x[i] *= t.factors[(from+i/rowLen)/t.rows]
	}
}

// rowsTimes multiplies rows by their factors. Rows without a factor stay. A vector is one row.
type rowsTimes []lineage.Multiplied

func (t rowsTimes) apply(x []float32, rowLen, from int) {
	for i := range x {
		x[i] *= float32(t.of(from + i/rowLen))
	}
}

// of returns the factor of row r.
func (t rowsTimes) of(r int) float64 {
	for _, m := range t {
		if m.Rows == 0 || r < m.Rows {
			return m.By
		}
		r -= m.Rows
	}
	return 1
}

// reordered reorders the elements of each row: it returns the place in the source of an element.
type reordered func(int) int

func (source reordered) apply(x []float32, rowLen, _ int) {
	stored := make([]float32, rowLen)
	for row := range slices.Chunk(x, rowLen) {
		copy(stored, row)
		for i := range row {
			row[i] = stored[source(i)]
		}
	}
}

// unitEpsilon is the least length by which rows are divided, as in torch's normalize.
const unitEpsilon = 1e-12

// unitRows divides rows by their lengths.
type unitRows struct{}

func (unitRows) apply(x []float32, rowLen, _ int) {
	for row := range slices.Chunk(x, rowLen) {
		var square float64
		for _, v := range row {
			square += float64(v) * float64(v)
		}
		for i := range row {
			row[i] = float32(float64(row[i]) / max(math.Sqrt(square), unitEpsilon))
		}
	}
}

// columnEpsilon is added to columns' lengths, as in the published code.
const columnEpsilon = 1e-7

// unitColumns divides columns by their lengths.
type unitColumns struct{ lengths []float64 }

func (c *unitColumns) measure(rowLen int, each func(see func([]float32)) error) error {
	square := make([]float64, rowLen)
	err := each(func(x []float32) {
		for i, v := range x {
			square[i%rowLen] += float64(v) * float64(v)
		}
	})
	for i, v := range square {
		square[i] = math.Sqrt(v) + columnEpsilon
	}
	c.lengths = square
	return err
}

func (c *unitColumns) apply(x []float32, rowLen, _ int) {
	for i, v := range x {
		x[i] = float32(float64(v) / c.lengths[i%rowLen])
	}
}

// leastMean is the least mean magnitude of a matrix of three values, as in the published code.
const leastMean = 1e-5

// ternary makes each element −1, 0 or 1, whichever is nearest, times the mean magnitude of all.
type ternary struct{ mean float64 }

func (c *ternary) measure(_ int, each func(see func([]float32)) error) error {
	n, sum := 0, 0.0
	err := each(func(x []float32) {
		n += len(x)
		for _, v := range x {
			sum += math.Abs(float64(v))
		}
	})
	c.mean = max(leastMean, sum/float64(n))
	return err
}

func (c *ternary) apply(x []float32, _, _ int) {
	for i, v := range x {
		x[i] = float32(max(-1, min(1, math.RoundToEven(float64(v)/c.mean))) * c.mean)
	}
}
