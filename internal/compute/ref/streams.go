package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Temper scales queries by their position.
func (d *Device) Temper(o *compute.Temper) {
	for t := range o.X.Rows {
		for i, v := range row(o.X, t) {
			row(o.X, t)[i] = float32(float64(v) * o.How.Factor(int(d.p.Pos[t])))
		}
	}
}

// GaussianTopK subtracts the mean plus this many standard deviations, and clips values below zero.
func (d *Device) GaussianTopK(o *compute.GaussianTopK) {
	for t := range o.X.Rows {
		n, mean, variance := float64(o.X.Cols), 0.0, 0.0
		for _, v := range row(o.X, t) {
			mean += float64(v) / n
		}
		for _, v := range row(o.X, t) {
			variance += (float64(v) - mean) * (float64(v) - mean) / n
		}
		cut := mean + float64(o.Deviations)*math.Sqrt(variance)
		for i, v := range row(o.X, t) {
			row(o.X, t)[i] = float32(max(0, float64(v)-cut))
		}
	}
}

// Match gives x's rows the size of like's.
func (d *Device) Match(o *compute.Match) {
	square := func(row []float32) (mean float64) {
		for _, v := range row {
			mean += float64(v) * float64(v) / float64(len(row))
		}
		return mean
	}
	for t := range o.X.Rows {
		by := math.Sqrt(square(row(o.Like, t)) / max(square(row(o.X, t)), float64(o.Floor)))
		for i, v := range row(o.X, t) {
			row(o.X, t)[i] = float32(float64(v) * by)
		}
	}
}

// Slice copies columns.
func (d *Device) Slice(o *compute.Slice) {
	for t := range o.X.Rows {
		copy(row(o.Dst, t), row(o.X, t)[o.From:][:o.Dst.Cols])
	}
}

// Multiply multiplies every row by w.
func (d *Device) Multiply(o *compute.Multiply) {
	for t := range o.X.Rows {
		for i, v := range row(o.X, t) {
			row(o.Dst, t)[i] = v * elements(o.W)[i]
		}
	}
}

// Shift adds b to every row.
func (d *Device) Shift(o *compute.Shift) {
	for t := range o.X.Rows {
		for i := range row(o.X, t) {
			row(o.X, t)[i] += elements(o.B)[i]
		}
	}
}

// AltUpPredict mixes the streams.
func (d *Device) AltUpPredict(o *compute.AltUpPredict) {
	const n = compute.AltUpStreams
	for t := range o.M.Rows {
		var c [n][n]float64
		for i := range c {
			for j := range c[i] {
				c[i][j] = dot(elements(o.W)[(n*i+j)*n:][:n], row(o.M, t))
			}
		}
		for col := range o.X[0].Cols {
			var old [n]float64
			for j := range old {
				old[j] = float64(row(o.X[j], t)[col])
			}
			for i := range old {
				y := old[i]
				for j := range old {
					y += c[i][j] * old[j]
				}
				row(o.X[i], t)[col] = float32(y)
			}
		}
	}
}

// AltUpCorrect adds what y differs by from the active stream.
func (d *Device) AltUpCorrect(o *compute.AltUpCorrect) {
	const n = compute.AltUpStreams
	for t := range o.M.Rows {
		for col, v := range row(o.Y, t) {
			innovation := float64(v) - float64(row(o.X[o.Active], t)[col])
			for i := range o.X {
				c := 1 + dot(elements(o.W)[n*i:][:n], row(o.M, t))
				row(o.X[i], t)[col] = float32(float64(row(o.X[i], t)[col]) + c*innovation)
			}
		}
	}
}
