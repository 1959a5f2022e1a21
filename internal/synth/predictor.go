package synth

import (
	"fmt"
	"math"
)

// predictor lists fc1 [rank, n_embd] and fc2 [n_ff, rank]. They are made from the weights that decide, not trained. fc1
// reads m̂ and the directions of the subspace, with both signs, so that the rectifier loses nothing. fc2 combines these
// to the row of the deciding matrix. The residual before the norm differs from the normed one by a positive factor,
// which does not change a logit's sign. In dReLU layers it predicts the gate, which is positive wherever the neuron is
// active.
func (m *model) predictor(layer int, e float64, sign string, n *neurons) {
	seen := min(m.space.k, (m.Rank-1)/2) // directions that the rank has room for
	size := float32(1 / math.Sqrt(float64(m.Embd)))
	m.matrix(fmt.Sprintf("blk.%d.fc1.weight", layer), m.Rank, m.Embd, func(i int, row, c []float32) {
		clear(c)
		mean := float32(0)
		switch j := (i - 1) / 2; {
		case i == 0:
			mean = size
		case j < seen:
			c[j] = size - float32((i-1)%2*2)*size
		}
		m.space.vector(row, c, mean)
	})
	coefs := m.stream(sign).sub(1)
	mean, coef := float32(1/math.Sqrt(meanEnergy)), float32(1/math.Sqrt(e))
	m.matrix(fmt.Sprintf("blk.%d.fc2.weight", layer), m.FF, m.Rank, func(i int, row, _ []float32) {
		clear(row)
		row[0] = float32(n.offset(i) * mean)
		own := coefs.sub(i)
		for j := range seen {
			v := float32(own.normal(j) * coef)
			row[1+2*j], row[2+2*j] = v, -v
		}
	})
}
