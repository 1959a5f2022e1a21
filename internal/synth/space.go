package synth

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
)

// space is where the residual stream lives: m̂ and k directions orthogonal to it and to the vector of ones, so that
// LayerNorm takes nothing away. Direction j is ±1/√g on the g coordinates e with e mod k = j, so that a row costs one
// addition an element instead of k.
type space struct {
	n int // n_embd
	k int // dimension of the subspace
	g int // coordinates of one direction, a multiple of 4
}

func newSpace(n int) space {
	g := 16 // k = n/16: an eighth of a trained model's usual predictor rank, twice
	for g > 4 && n/g < 32 {
		g /= 2
	}
	return space{n: n, k: n / g, g: g}
}

// signs of coordinate e in its direction and in m̂. Over four coordinates of one direction they, and their product, sum
// to zero.
func (s space) signs(e int) (direction, mean float32) {
	q := e / s.k
	return 1 - float32(q&2), 1 - float32(q&1)*2
}

// vector writes Σ c_j·direction_j + m·m̂. [n]
func (s space) vector(dst, c []float32, m float32) {
	a, b := float32(1/math.Sqrt(float64(s.g))), float32(float64(m)/math.Sqrt(float64(s.n)))
	for at := 0; at < s.n; at += s.k {
		ds, ms := s.signs(at)
		ds, ms = ds*a, ms*b
		for j, v := range c {
			dst[at+j] = float32(v*ds) + ms
		}
	}
}

// Energies of the residual stream, per coordinate.
const (
	meanEnergy     = 0.5  // energy of m̂, the same at every depth
	embedEnergy    = 0.5  // energy of an embedding in the subspace
	positionEnergy = 0.02 // energy of a learned position (opt)
	growth         = 0.5  // energy that all layers together add
	attentionShare = 1.0 / 3
)

// energy of the residual in the subspace before part (in layers) of the depth.
func (s Spec) energy(layers float64) float64 {
	e := embedEnergy + growth*layers/float64(s.Layers)
	if f, _ := lineage.Named(s.Arch); learned(f) {
		e += positionEnergy
	}
	return e
}

// learned reports whether the family's files hold a row for each position.
func learned(f lineage.Family) bool {
	t, ok := f.Outside("position_embd.weight")
	return ok && !t.Optional
}

// amplitudes are the amplitudes of an activation in the subspace (for a unit vector in it) and of m̂.
type amplitudes struct{ subspace, mean float64 }

// plain returns the amplitudes of a residual of energy e in the subspace.
func (sp space) plain(e float64) amplitudes {
	n := float64(sp.n)
	return amplitudes{math.Sqrt(n * e), math.Sqrt(n * meanEnergy)}
}

// normed returns the amplitudes after a norm of a residual of energy e in the subspace.
func (sp space) normed(e float64) amplitudes {
	n := float64(sp.n)
	return amplitudes{math.Sqrt(n * e / (e + meanEnergy)), math.Sqrt(n * meanEnergy / (e + meanEnergy))}
}
