package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// AttendResiduals computes an AttendResiduals.
func (d *Device) AttendResiduals(o *compute.AttendResiduals) {
	w := elements(o.W)
	for t := range o.X.Rows {
		shares, sum, most := make([]float64, o.Count+1), 0.0, math.Inf(-1)
		of := func(j int) []float32 {
			if j == o.Count {
				return row(o.X, t)
			}
			return row(o.Stack, t)[j*o.X.Cols:][:o.X.Cols]
		}
		for j := range shares {
			square, score := 0.0, 0.0
			for i, e := range of(j) {
				square += float64(e) * float64(e)
				score += float64(e) * float64(w[i])
			}
			shares[j] = score / math.Sqrt(square/float64(o.X.Cols)+float64(o.Epsilon))
			most = max(most, shares[j])
		}
		for j, score := range shares {
			shares[j] = math.Exp(score - most)
			sum += shares[j]
		}
		for i := range o.X.Cols {
			out := 0.0
			for j, p := range shares {
				out += p / sum * float64(of(j)[i])
			}
			row(o.Out, t)[i] = float32(out)
		}
	}
}
