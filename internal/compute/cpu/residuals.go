package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// AttendResiduals mixes every row of a residual with its checkpoints.
func (d *Device) AttendResiduals(o *compute.AttendResiduals) {
	if !o.Fits() {
		panic("cpu: AttendResiduals of shapes that do not fit: " + o.W.Name)
	}
	d.rows.run(o, o.X.Rows, (o.Count+1)*o.X.Cols)
}

// residual computes row t of o.
func (d *Device) residual(o *compute.AttendResiduals, t int) {
	var scores [compute.MostCheckpoints + 1]float32
	x, stack, out, w := row(o.X, t), row(o.Stack, t), row(o.Out, t), vector(o.W)
	n, shares := len(x), scores[:o.Count+1]
	for j := range o.Count {
		shares[j] = score(stack[j*n:][:n], w, o.Epsilon)
	}
	shares[o.Count] = score(x, w, o.Epsilon)
	most, sum := d.k.Vector.Max(shares), 0.0
	for j, s := range shares {
		e := math.Exp(float64(s) - float64(most))
		shares[j], sum = float32(e), sum+e
	}
	d.k.Vector.Scale(out, x, float32(float64(shares[o.Count])/sum))
	for j, s := range shares[:o.Count] {
		d.k.AddScaled(out, stack[j*n:][:n], float32(float64(s)/sum))
	}
}

// score returns the product of w and x, which is brought to a mean square of 1 before.
func score(x, w []float32, epsilon float32) float32 {
	var squares, products [4]float64
	w = w[:len(x)]
	for i, e := range x {
		squares[i&3] += float64(e) * float64(e)
		products[i&3] += float64(e) * float64(w[i])
	}
	square := squares[0] + squares[1] + squares[2] + squares[3]
	return float32((products[0] + products[1] + products[2] + products[3]) / math.Sqrt(square/float64(len(x))+float64(epsilon)))
}
