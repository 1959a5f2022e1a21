package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// newRand returns the same numbers each time: what training reaches depends on the layer that is drawn, and no bound
// worth holding holds for all layers. With this seed, recall, precision and accuracy keep a distance from their bounds
// that rounding on other processors does not use up.
func newRand(testing.TB) *rand.Rand { return rand.New(rand.NewPCG(7, 0)) }

func newPool(t testing.TB, threads int) *pool.Pool {
	p := pool.New(threads)
	t.Cleanup(p.Close)
	return p
}

// synthetic is a layer with sets that can be predicted at low rank: inputs are a shared direction plus a subspace, with
// a little noise outside, and gate rows point against the shared direction, so that few products are positive.
type synthetic struct {
	embd, ff, dims int
	shared         []float32 // [embd]
	basis          []float32 // [dims, embd]
	gate           []float32 // [ff, embd]
	up             []float32 // [ff, embd]
	mul            *gemm.Multiplier
}

func newSynthetic(t testing.TB, rng *rand.Rand, p *pool.Pool, embd, ff, dims int, active float64) *synthetic {
	mul, err := gemm.NewMultiplier(p, "")
	if err != nil {
		t.Fatal(err)
	}
	l := &synthetic{embd: embd, ff: ff, dims: dims, shared: normals(rng, embd, 1), basis: normals(rng, dims*embd, 1), mul: mul}
	l.gate, l.up = make([]float32, ff*embd), normals(rng, ff*embd, 1/float32(embd))
	inSubspace := normals(rng, ff*dims, 1)
	mul.Mul(gemm.New(l.gate, ff, embd), 1/float32(dims*embd), gemm.New(inSubspace, ff, dims), gemm.New(l.basis, dims, embd), false)
	// A row's product with an input has a deviation of about 1/dims; offsets make frequencies spread around active.
	for i := range ff {
		offset := (normalQuantile(1-active) + 0.7*rng.NormFloat64()) / float64(dims)
		for j, s := range l.shared {
			l.gate[i*embd+j] -= float32(offset) * s / float32(embd)
		}
	}
	return l
}

// normalQuantile returns the standard normal distribution's.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

func normals(rng *rand.Rand, n int, scale float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = scale * float32(rng.NormFloat64())
	}
	return v
}

// samples draws documents of 50 samples.
func (l *synthetic) samples(rng *rand.Rand, n int) *Samples {
	s := &Samples{Embd: l.embd, FF: l.ff, Start: []int64{0}}
	const step = 500
	gate, up := make([]float32, step*l.ff), make([]float32, step*l.ff)
	for at := 0; at < n; at += step {
		rows := min(step, n-at)
		x := normals(rng, rows*l.embd, 0.05)
		in := normals(rng, rows*l.dims, 1/float32(math.Sqrt(float64(l.dims))))
		l.mul.Mul(gemm.New(x, rows, l.embd), 1, gemm.New(in, rows, l.dims), gemm.New(l.basis, l.dims, l.embd), true)
		for i := range rows {
			for j, v := range l.shared {
				x[i*l.embd+j] += v
			}
		}
		for i, v := range x {
			h := quant.F16FromF32(v)
			s.X = append(s.X, h)
			x[i] = quant.F32FromF16(h)
		}
		l.mul.Mul(gemm.New(gate, rows, l.ff), 1, gemm.New(x, rows, l.embd), gemm.New(l.gate, l.ff, l.embd).T(), false)
		l.mul.Mul(gemm.New(up, rows, l.ff), 1, gemm.New(x, rows, l.embd), gemm.New(l.up, l.ff, l.embd).T(), false)
		for i := range rows {
			for j := range l.ff {
				if g := gate[i*l.ff+j]; g > 0 {
					s.Active = append(s.Active, uint16(j))
					s.Mass = append(s.Mass, quant.BF16FromF32(float32(math.Abs(float64(g*up[i*l.ff+j])))))
				}
			}
			s.Start = append(s.Start, int64(len(s.Active)))
			s.Document = append(s.Document, int32((at+i)/50))
		}
	}
	return s
}

func (l *synthetic) gateRow(row []float32, neuron int) float32 {
	copy(row, l.gate[neuron*l.embd:])
	return 0
}

// judgeFresh applies a predictor by its definition, in float64, to samples that training never saw.
func judgeFresh(p *Predictor, s *Samples, neurons []int32) Quality {
	var q Quality
	hits, predicted, active, wrong, mass, hitMass := 0, 0, 0, 0, 0.0, 0.0
	for i := range s.Len() {
		hidden := make([]float64, p.Rank)
		for k := range hidden {
			for j, h := range s.x(i) {
				hidden[k] += float64(p.FC1[k*s.Embd+j]) * float64(quant.F32FromF16(h))
			}
			hidden[k] = max(hidden[k], 0)
		}
		masses := map[int32]float64{}
		for j, a := range s.active(i) {
			masses[int32(a)] = float64(quant.F32FromBF16(s.mass(i)[j]))
		}
		for row, n := range neurons {
			z := 0.0
			for k, h := range hidden {
				z += float64(p.FC2[row*p.Rank+k]) * h
			}
			m, is := masses[n]
			mass += m
			switch {
			case is && z >= 0:
				hits, predicted, active = hits+1, predicted+1, active+1
				hitMass += m
			case is:
				active, wrong = active+1, wrong+1
			case z >= 0:
				predicted, wrong = predicted+1, wrong+1
			}
		}
	}
	all := float64(s.Len() * len(neurons))
	q.MassRecall, q.Recall, q.Precision = hitMass/mass, float64(hits)/float64(active), float64(hits)/float64(predicted)
	q.Accuracy, q.PredictedShare, q.ActiveShare, q.Samples = 1-float64(wrong)/all, float64(predicted)/all, float64(active)/all, s.Len()
	return q
}
