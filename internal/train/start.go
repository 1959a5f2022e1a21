package train

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
)

// A neuron is active if its gate row's product with the input is positive, so the best low-rank approximation of the
// gate matrix for the recorded inputs predicts well before any training. Its hidden units are shifted by a multiple of
// the constant unit, so that most of them pass through the ReLU unchanged; column 0 of fc2 takes the shifts back.

const (
	startRows       = 8192    // samples that the start looks at
	startFloats     = 1 << 25 // bounds their memory: 128 MiB
	startScores     = 2048    // of them for the gate's products
	startIterations = 3       // of the subspace
	unitIterations  = 16      // of conjugate gradients
	startShift      = 2       // standard deviations that a hidden unit is raised above zero by
	spareDeviation  = 1e-4    // of the largest: a hidden unit that varies less starts at random, without effect
	startSteepness  = 4       // logit of a product one standard deviation from zero
)

// basis holds what starts of any rank share.
type basis struct {
	x    []float32 // [n, n_embd] scaled inputs
	n    int
	unit []float32 // [n_embd] unit·x is nearly 1
	rows []float32 // [n, n_embd] gate rows over the deviation of their products, without the part along unit; nil without gate rows
	mean []float32 // [n] each row's part along unit, with its offset
}

// newBasis measures the inputs. It sets the layer's scale and basis.
func (l *layer) newBasis(gate func(row []float32, neuron int) (offset float32)) {
	samples := evenly(l.train, max(1, min(startRows, startFloats/l.embd)))
	b := &basis{n: len(samples), x: make([]float32, len(samples)*l.embd)}
	l.scale = ones(l.embd)
	l.load(b.x, samples)
	l.scaleInputs(b)
	b.unit = l.constantUnit(b)
	if gate != nil {
		l.standardRows(b, gate)
	}
	l.basis = b
}

// scaleInputs divides every input by its root mean square.
func (l *layer) scaleInputs(b *basis) {
	sums := make([]float64, l.embd)
	for i := range b.n {
		for j, v := range b.x[i*l.embd:][:l.embd] {
			sums[j] += float64(v) * float64(v)
		}
	}
	for j, s := range sums {
		l.scale[j] = 1
		if rms := math.Sqrt(s / float64(b.n)); rms > 1e-20 {
			l.scale[j] = float32(1 / rms)
		}
	}
	l.pool.Run(b.n, func(i, _ int) { l.vec.Mul(b.x[i*l.embd:][:l.embd], l.scale) })
}

// constantUnit minimises Σ(1 − u·x)² by a few steps of conjugate gradients; ending early avoids fitting noise.
func (l *layer) constantUnit(b *basis) []float32 {
	x := gemm.New(b.x, b.n, l.embd)
	u, r, p, q := make([]float32, l.embd), make([]float32, l.embd), make([]float32, l.embd), make([]float32, l.embd)
	xp := ones(b.n)
	l.mul.Mul(gemm.New(r, l.embd, 1), 1, x.T(), gemm.New(xp, b.n, 1), false)
	copy(p, r)
	rr := dot(r, r)
	first := rr
	for range unitIterations {
		if !(rr > 1e-10*first) {
			break
		}
		l.mul.Mul(gemm.New(xp, b.n, 1), 1, x, gemm.New(p, l.embd, 1), false)
		l.mul.Mul(gemm.New(q, l.embd, 1), 1, x.T(), gemm.New(xp, b.n, 1), false)
		step := rr / dot(p, q)
		if math.IsNaN(step) || math.IsInf(step, 0) {
			break
		}
		for i := range u {
			u[i] += float32(step) * p[i]
			r[i] -= float32(step) * q[i]
		}
		next := dot(r, r)
		for i := range p {
			p[i] = r[i] + float32(next/rr)*p[i]
		}
		rr = next
	}
	return u
}

// standardRows gets the gate's rows, subtracts their part along the constant unit, and divides by the deviation of the
// rest.
func (l *layer) standardRows(b *basis, gate func([]float32, int) float32) {
	b.rows, b.mean = make([]float32, l.n*l.embd), make([]float32, l.n)
	n := min(b.n, startScores)
	x := gemm.New(b.x, n, l.embd)
	unit := make([]float32, n)
	l.mul.Mul(gemm.New(unit, n, 1), 1, x, gemm.New(b.unit, l.embd, 1), false)
	square := dot(unit, unit)
	scores := make([]float32, n*l.n)
	l.pool.Run(l.n, func(i, _ int) {
		row := b.rows[i*l.embd:][:l.embd]
		b.mean[i] = gate(row, int(l.neurons[i]))
		for j := range row {
			row[j] /= l.scale[j]
		}
	})
	l.mul.Mul(gemm.New(scores, l.n, n), 1, gemm.New(b.rows, l.n, l.embd), x.T(), false)
	l.pool.Run(l.n, func(i, _ int) {
		s, row := scores[i*n:][:n], b.rows[i*l.embd:][:l.embd]
		along := 0.0
		if square > 0 {
			along = dot(s, unit) / square
		}
		l.vec.AddScaled(s, unit, float32(-along))
		deviation := math.Sqrt(dot(s, s) / float64(n))
		if deviation < 1e-20 {
			deviation = 1
		}
		l.vec.AddScaled(row, b.unit, float32(-along))
		l.vec.Scale(row, row, float32(1/deviation))
		b.mean[i] = float32((along + float64(b.mean[i])) / deviation)
	})
}

// start returns the predictor of the given rank before training.
func (l *layer) start(rank int) weights {
	b := l.basis
	w := weights{rank, make([]float32, rank*l.embd), make([]float32, l.n*rank)}
	copy(w.fc1, b.unit)
	rng := rand.New(rand.NewPCG(l.seed, streamStart))
	if b.rows == nil {
		l.randomStart(rng, &w)
		return w
	}
	units := rank - 1
	q := l.subspace(rng, b, units)
	fc1 := gemm.New(w.fc1[l.embd:], units, l.embd)
	l.mul.Mul(fc1, 1, gemm.New(q, l.n, units).T(), gemm.New(b.rows, l.n, l.embd), false)
	deviations := l.deviations(b, w.fc1[l.embd:], units)
	floor := spareDeviation * slices.Max(deviations)
	for k := range units {
		row := w.fc1[(k+1)*l.embd:][:l.embd]
		if !(deviations[k] > floor) { // the scores have fewer dimensions
			randomRow(rng, row)
			deviations[k] = 0
			continue
		}
		l.vec.Scale(row, row, 1/deviations[k])
		l.vec.AddScaled(row, b.unit, startShift)
	}
	l.pool.Run(l.n, func(i, _ int) {
		row := w.fc2[i*rank:][:rank]
		row[0] = b.mean[i]
		for k := range units {
			row[k+1] = q[i*units+k] * deviations[k]
			row[0] -= startShift * row[k+1]
		}
		l.vec.Scale(row, row, startSteepness)
	})
	return w
}

// randomStart is He and others' ("Delving Deep into Rectifiers", 2015), for inputs of mean square 1.
func (l *layer) randomStart(rng *rand.Rand, w *weights) {
	for k := 1; k < w.rank; k++ {
		randomRow(rng, w.fc1[k*l.embd:][:l.embd])
	}
	for i := range w.fc2 {
		if i%w.rank != 0 {
			w.fc2[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(w.rank)))
		}
	}
}

func randomRow(rng *rand.Rand, row []float32) {
	for i := range row {
		row[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(len(row))))
	}
}

// subspace returns an orthonormal basis [n, units] of nearly the first principal directions of rows·x, by subspace
// iteration (Halko, Martinsson and Tropp, "Finding Structure with Randomness", 2011).
func (l *layer) subspace(rng *rand.Rand, b *basis, units int) []float32 {
	q, t, s := make([]float32, l.n*units), make([]float32, l.embd*units), make([]float32, b.n*units)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	qm, tm, sm := gemm.New(q, l.n, units), gemm.New(t, l.embd, units), gemm.New(s, b.n, units)
	rows, x := gemm.New(b.rows, l.n, l.embd), gemm.New(b.x, b.n, l.embd)
	for range startIterations {
		l.mul.Mul(tm, 1, rows.T(), qm, false)
		l.mul.Mul(sm, 1, x, tm, false)
		l.orthonormalise(rng, sm)
		l.mul.Mul(tm, 1, x.T(), sm, false)
		l.mul.Mul(qm, 1, rows, tm, false)
		l.orthonormalise(rng, qm)
	}
	return q
}

// orthonormalise replaces the columns of m [n, k] by an orthonormal basis: m·R⁻¹ with RᵀR = mᵀm. Columns that depend on
// earlier ones become random ones; the second pass corrects float32's rounding in the first.
func (l *layer) orthonormalise(rng *rand.Rand, m gemm.Matrix) {
	k := m.Cols
	g, inverse, copied := make([]float32, k*k), make([]float32, k*k), make([]float32, len(m.Data))
	for range 2 {
		l.mul.Mul(gemm.New(g, k, k), 1, m.T(), m, false)
		dependent := inverseFactor(inverse, g, k)
		copy(copied, m.Data)
		l.mul.Mul(m, 1, gemm.New(copied, m.Rows, k), gemm.New(inverse, k, k), false)
		for _, j := range dependent {
			for i := range m.Rows {
				m.Data[i*k+j] = float32(rng.NormFloat64() / math.Sqrt(float64(m.Rows)))
			}
		}
	}
}

// dependence is the squared sine of the angle between a column and the earlier ones below which float32 cannot tell it
// from their span.
const dependence = 1e-5

// inverseFactor writes R⁻¹ of the Cholesky factorisation g = RᵀR, R upper triangular, g [k, k]. Columns of dst that
// depend on earlier ones are 0.
func inverseFactor(dst, g []float32, k int) (dependent []int) {
	scale := make([]float64, k) // to a unit diagonal
	for i := range k {
		if d := float64(g[i*k+i]); d > 0 {
			scale[i] = 1 / math.Sqrt(d)
		}
	}
	r, inverse := make([]float64, k*k), make([]float64, k*k) // lower triangles: Rᵀ and its inverse
	clear(dst)
	for i := range k {
		a := r[i*k:][:i+1]
		for j := range i + 1 {
			sum := float64(g[i*k+j]) * scale[i] * scale[j]
			for p, v := range r[j*k:][:j] {
				sum -= a[p] * v
			}
			switch d := r[j*k+j]; {
			case j == i:
				a[i] = sum
			case d != 0:
				a[j] = sum / d
			}
		}
		if !(a[i] > dependence) {
			clear(a)
			dependent = append(dependent, i)
			continue
		}
		a[i] = math.Sqrt(a[i])
		row := inverse[i*k:][:i+1]
		for p, v := range a[:i] {
			for j, e := range inverse[p*k:][:p+1] {
				row[j] -= v * e
			}
		}
		for j := range i {
			row[j] /= a[i]
		}
		row[i] = 1 / a[i]
		for j, v := range row { // row i of Rᵀ's inverse is column i of R's
			dst[j*k+i] = float32(v * scale[j])
		}
	}
	return dependent
}

// deviations returns the root mean squares of rows [units, n_embd] times the inputs.
func (l *layer) deviations(b *basis, rows []float32, units int) []float32 {
	n := min(b.n, startScores)
	s := make([]float32, units*n)
	l.mul.Mul(gemm.New(s, units, n), 1, gemm.New(rows, units, l.embd), gemm.New(b.x, n, l.embd).T(), false)
	out := make([]float32, units)
	for k := range out {
		v := s[k*n:][:n]
		out[k] = max(float32(math.Sqrt(dot(v, v)/float64(n))), 1e-12)
	}
	return out
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

func ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}
