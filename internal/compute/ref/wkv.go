package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// WKV computes a WKV. The state is rounded to float32 after each position.
func (d *Device) WKV(o *compute.WKV) {
	size := o.Dim * o.Dim
	d.eachRun(o.Cache, o.Layer, func(r compute.Run, state []float32) {
		all := state[o.At:][:o.Size()]
		if r.Fresh {
			clear(all)
		}
		for t := r.From; t < r.To; t++ {
			for h := range o.Heads {
				wkvHead(o, t, h, all[h*size:][:size])
			}
		}
	})
}

// wkvHead computes head h of token t. state [dim, dim]
func wkvHead(o *compute.WKV, t, h int, state []float32) {
	n, first := o.Dim, h*o.Dim
	of := func(x []float32) []float32 { return x[first:][:n] }
	r, k, v := of(row(o.R, t)), of(row(o.K, t)), of(row(o.V, t))
	keyNorm, keyRate, bonus := of(elements(o.KeyNorm)), of(elements(o.KeyRate)), of(elements(o.Bonus))
	decay, rate, unit, key := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	square, own := 0.0, 0.0
	for j := range n {
		decay[j] = math.Exp(-math.Exp(-0.5) * logistic(float64(of(row(o.W, t))[j])))
		rate[j] = logistic(float64(of(row(o.A, t))[j]))
		unit[j] = float64(k[j]) * float64(keyNorm[j])
		key[j] = float64(k[j]) * (1 + (rate[j]-1)*float64(keyRate[j]))
		square += unit[j] * unit[j]
		own += float64(r[j]) * key[j] * float64(bonus[j])
	}
	length := max(math.Sqrt(square), 1e-12)
	y, mean, variance := make([]float64, n), 0.0, 0.0
	for i := range n {
		row, known := state[i*n:][:n], 0.0
		for j, s := range row {
			known += float64(s) * unit[j] / length
		}
		for j := range row {
			row[j] = float32(float64(row[j])*decay[j] - known*unit[j]/length*rate[j] + float64(v[i])*key[j])
			y[i] += float64(row[j]) * float64(r[j])
		}
		mean += y[i] / float64(n)
	}
	for _, e := range y {
		variance += (e - mean) * (e - mean) / float64(n)
	}
	weight, bias := of(elements(o.Scale)), of(elements(o.Scale)[o.Heads*n:])
	for i, e := range y {
		e = (e - mean) / math.Sqrt(variance+float64(o.Epsilon))
		of(row(o.Out, t))[i] = float32(e*float64(weight[i]) + float64(bias[i]) + float64(v[i])*own)
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
