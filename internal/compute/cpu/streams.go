package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// temper scales queries by their position.
func (d *Device) temper(x compute.Tensor, how compute.Temperature) {
	d.rows.run(rowwiseArgs{verb: temperRows, x: floats(x), cols: x.Cols, how: how}, x.Rows)
}

// gaussianTopK keeps what exceeds the mean by more than the given number of standard deviations.
func (d *Device) gaussianTopK(x compute.Tensor, deviations float32) {
	d.rows.run(rowwiseArgs{verb: topKRows, x: floats(x), cols: x.Cols, factor: deviations}, x.Rows)
}

// match scales x's rows to the size of like's.
func (d *Device) match(x, like compute.Tensor, floor float32) {
	d.rows.run(rowwiseArgs{verb: matchRows, dst: floats(x), x: floats(like), cols: x.Cols, eps: floor}, x.Rows)
}

// slice copies columns.
func (d *Device) slice(dst, x compute.Tensor, from int) {
	for i := range x.Rows {
		copy(row(dst, i), row(x, i)[from:][:dst.Cols])
	}
}

// scaleColumns multiplies every row by w.
func (d *Device) scaleColumns(dst, x compute.Tensor, w *compute.Vector) {
	d.rows.run(rowwiseArgs{verb: multiplyRows, dst: floats(dst), x: floats(x), w: vector(w), cols: x.Cols}, x.Rows)
}

// shift adds b to every row.
func (d *Device) shift(x compute.Tensor, b *compute.Vector) {
	d.rows.run(rowwiseArgs{verb: shiftRows, dst: floats(x), b: vector(b), cols: x.Cols}, x.Rows)
}

// altUpPredict mixes the streams.
func (d *Device) altUpPredict(x compute.Streams, m compute.Tensor, w *compute.Vector) {
	d.rows.run(rowwiseArgs{verb: predictRows, w: vector(w), cols: x[0].Cols, streams: x, values: m}, m.Rows)
}

// altUpCorrect adds y's difference from the active stream.
func (d *Device) altUpCorrect(x compute.Streams, y, m compute.Tensor, w *compute.Vector, active int) {
	d.rows.run(rowwiseArgs{verb: correctRows, x: floats(y), w: vector(w), cols: y.Cols, streams: x, values: m, active: active}, m.Rows)
}

func scaled(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// aboveCut computes GaussianTopK of a row.
func aboveCut(x []float32, deviations float32) {
	sum, square := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	cut := mean + float64(deviations)*math.Sqrt(square/float64(len(x)))
	for i, v := range x {
		x[i] = float32(max(0, float64(v)-cut))
	}
}

// matched scales x to the size of like.
func matched(x, like []float32, floor float32) {
	own, wanted := 0.0, 0.0
	for i, v := range x {
		own += float64(v) * float64(v)
		wanted += float64(like[i]) * float64(like[i])
	}
	n := float64(len(x))
	scaled(x, float32(math.Sqrt(wanted/n/max(own/n, float64(floor)))))
}

// predicted computes AltUpPredict of token t.
func predicted(x *compute.Streams, t int, m, w []float32) {
	const n = compute.AltUpStreams
	var c [n][n]float32
	var rows [n][]float32
	for i := range c {
		rows[i] = row(x[i], t)
		for j := range c[i] {
			for k, v := range m {
				c[i][j] += v * w[(n*i+j)*n+k]
			}
		}
	}
	for col := range rows[0] {
		a, b, e, f := rows[0][col], rows[1][col], rows[2][col], rows[3][col]
		for i := range rows {
			rows[i][col] += c[i][0]*a + c[i][1]*b + c[i][2]*e + c[i][3]*f
		}
	}
}

// corrected computes AltUpCorrect of token t.
func corrected(x *compute.Streams, t int, y, m, w []float32, active int) {
	const n = compute.AltUpStreams
	var c [n]float32
	var rows [n][]float32
	for i := range c {
		rows[i], c[i] = row(x[i], t), 1
		for k, v := range m {
			c[i] += v * w[n*i+k]
		}
	}
	for col, v := range y {
		innovation := v - rows[active][col]
		for i := range rows {
			rows[i][col] += c[i] * innovation
		}
	}
}
