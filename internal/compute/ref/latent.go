package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// AttendLatent makes keys and values of each head and position.
func (d *Device) AttendLatent(o *compute.AttendLatent) {
	own, shared, value := o.Sizes()
	l := o.Cache.Layers[o.Layer]
	rows := func(w *compute.Matrix, head, n int, c []float32) (out []float64) {
		for r := range n {
			out = append(out, dot(weights(w, head*n+r), c))
		}
		return out
	}
	for t := range o.Q.Rows {
		from, to := o.How.Span(int(d.p.Pos[t]), d.p.Last(d.p.Seq[t]))
		var places []int // positions
		for at := from; at < to; at++ {
			if d.sees(t, at, 0, o.How) {
				places = append(places, at)
			}
		}
		for h := range o.Heads {
			q := row(o.Q, t)[h*(own+shared):][:own+shared]
			scores, values, top := make([]float64, len(places)), make([][]float64, len(places)), math.Inf(-1)
			for i, at := range places {
				page, slot := d.slot(o.Cache, o.Layer, d.p.Seq[t], at)
				cached, _ := position(o.Cache, o.Layer, page, slot)
				x := head(cached, l.KeyType, 0, l.Key)
				for j, e := range rows(o.Keys, h, own, x[:l.Value]) {
					scores[i] += float64(q[j]) * e
				}
				for j, e := range x[l.Value:] {
					scores[i] += float64(q[own+j]) * float64(e)
				}
				scores[i] *= float64(o.How.Scale)
				values[i], top = rows(o.Values, h, value, x[:l.Value]), max(top, scores[i])
			}
			sum, acc := 0.0, make([]float64, value)
			for i, s := range scores {
				weight := math.Exp(s - top)
				sum += weight
				for j, e := range values[i] {
					acc[j] += weight * e
				}
			}
			for j, e := range acc {
				row(o.Out, t)[h*value+j] = float32(e / sum)
			}
		}
	}
}
