package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// temper scales queries by their position.
func (d *Device) temper(x compute.Tensor, how compute.Temperature) {
	for t := range x.Rows {
		for i, v := range row(x, t) {
			row(x, t)[i] = float32(float64(v) * how.Factor(int(d.p.Pos[t])))
		}
	}
}

// gaussianTopK subtracts the mean plus this many standard deviations, and clips values below zero.
func (d *Device) gaussianTopK(x compute.Tensor, deviations float32) {
	for t := range x.Rows {
		n, mean, variance := float64(x.Cols), 0.0, 0.0
		for _, v := range row(x, t) {
			mean += float64(v) / n
		}
		for _, v := range row(x, t) {
			variance += (float64(v) - mean) * (float64(v) - mean) / n
		}
		cut := mean + float64(deviations)*math.Sqrt(variance)
		for i, v := range row(x, t) {
			row(x, t)[i] = float32(max(0, float64(v)-cut))
		}
	}
}

// match gives x's rows the size of like's.
func (d *Device) match(x, like compute.Tensor, floor float32) {
	square := func(row []float32) (mean float64) {
		for _, v := range row {
			mean += float64(v) * float64(v) / float64(len(row))
		}
		return mean
	}
	for t := range x.Rows {
		by := math.Sqrt(square(row(like, t)) / max(square(row(x, t)), float64(floor)))
		for i, v := range row(x, t) {
			row(x, t)[i] = float32(float64(v) * by)
		}
	}
}

// slice copies columns.
func (d *Device) slice(dst, x compute.Tensor, from int) {
	for t := range x.Rows {
		copy(row(dst, t), row(x, t)[from:][:dst.Cols])
	}
}

// scaleColumns multiplies every row by w.
func (d *Device) scaleColumns(dst, x compute.Tensor, w *compute.Vector) {
	for t := range x.Rows {
		for i, v := range row(x, t) {
			row(dst, t)[i] = v * elements(w)[i]
		}
	}
}

// shift adds b to every row.
func (d *Device) shift(x compute.Tensor, b *compute.Vector) {
	for t := range x.Rows {
		for i := range row(x, t) {
			row(x, t)[i] += elements(b)[i]
		}
	}
}

// altUpPredict mixes the streams.
func (d *Device) altUpPredict(x compute.Streams, m compute.Tensor, w *compute.Vector) {
	const n = compute.AltUpStreams
	for t := range m.Rows {
		var c [n][n]float64
		for i := range c {
			for j := range c[i] {
				c[i][j] = dot(elements(w)[(n*i+j)*n:][:n], row(m, t))
			}
		}
		for col := range x[0].Cols {
			var old [n]float64
			for j := range old {
				old[j] = float64(row(x[j], t)[col])
			}
			for i := range old {
				y := old[i]
				for j := range old {
					y += c[i][j] * old[j]
				}
				row(x[i], t)[col] = float32(y)
			}
		}
	}
}

// altUpCorrect adds what y differs by from the active stream.
func (d *Device) altUpCorrect(x compute.Streams, y, m compute.Tensor, w *compute.Vector, active int) {
	const n = compute.AltUpStreams
	for t := range m.Rows {
		for col, v := range row(y, t) {
			innovation := float64(v) - float64(row(x[active], t)[col])
			for i := range x {
				c := 1 + dot(elements(w)[n*i:][:n], row(m, t))
				row(x[i], t)[col] = float32(float64(row(x[i], t)[col]) + c*innovation)
			}
		}
	}
}
