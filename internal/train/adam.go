package train

import "math"

// adam is AdamW's state for one matrix (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019).
type adam struct {
	m, v []float32 // first and second moments
	rate float32   // of learning, before the schedule
}

const (
	beta1   = 0.9
	beta2   = 0.99
	epsilon = 1e-8
	decay   = 0.01 // of weights, relative to the rate of learning

	relativeRate = 0.02 // rate of learning over the weights' root mean square at the start
)

func newAdam(w []float32, trained []float32) adam {
	return adam{m: make([]float32, len(w)), v: make([]float32, len(w)), rate: relativeRate * rms(trained)}
}

func rms(w []float32) float32 { return float32(math.Sqrt(dot(w, w) / float64(max(1, len(w))))) }

// chunkParams is the number of parameters that a worker updates at once.
const chunkParams = 1 << 14

// update takes step (counted from 1) with gradients g, from parameter first on.
func (l *layer) update(a *adam, w, g []float32, first, step int, schedule float32) {
	c1 := float32(1 / (1 - math.Pow(beta1, float64(step))))
	c2 := float32(1 / (1 - math.Pow(beta2, float64(step))))
	rate := a.rate * schedule
	l.pool.Run((len(w)-first+chunkParams-1)/chunkParams, func(chunk, _ int) {
		from := first + chunk*chunkParams
		to := min(from+chunkParams, len(w))
		w, g, m, v := w[from:to], g[from:to], a.m[from:to], a.v[from:to]
		for i, d := range g {
			mi := beta1*m[i] + (1-beta1)*d
			vi := beta2*v[i] + (1-beta2)*d*d
			m[i], v[i] = mi, vi
			w[i] -= rate * (mi*c1/(float32(math.Sqrt(float64(vi*c2)))+epsilon) + decay*w[i])
		}
	})
}

// schedule returns the rate at a point of the epochs: it warms up over half an epoch, then follows a cosine down to a
// hundredth.
func schedule(epoch float64, epochs int) float32 {
	const warm, floor = 0.5, 0.01
	if epoch < warm {
		return float32((epoch + 0.1) / (warm + 0.1))
	}
	done := (epoch - warm) / (float64(epochs) - warm)
	return float32(floor + (1-floor)*(1+math.Cos(math.Pi*done))/2)
}
