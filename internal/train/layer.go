package train

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// layer holds what all trainings on the same samples share.
type layer struct {
	s       *Samples
	pool    *pool.Pool
	mul     *gemm.Multiplier
	vec     kernel.Vector
	seed    uint64
	embd, n int     // inputs, neurons to be predicted
	neurons []int32 // [n]
	row     []int32 // [n_ff] a neuron's place in neurons, or -1

	train, held []int32 // samples
	active      float64 // share of active neurons in train
	bits        float64 // entropy of a sample's set, were neurons independent
	meanMass    float32 // of active neurons in train

	scale []float32 // [n_embd] inputs are multiplied by
	basis *basis
}

func newLayer(s *Samples, o *Options) (*layer, error) {
	mul, err := gemm.NewMultiplier(o.Pool, "")
	if err != nil {
		return nil, err
	}
	k, err := kernel.New("")
	if err != nil {
		return nil, err
	}
	l := &layer{s: s, pool: o.Pool, mul: mul, vec: k.Vector, seed: o.Seed, embd: s.Embd, n: len(o.Neurons), neurons: o.Neurons}
	if l.train, l.held, err = s.split(o.HeldOut, o.Seed); err != nil {
		return nil, err
	}
	l.row = make([]int32, s.FF)
	for i := range l.row {
		l.row[i] = -1
	}
	for i, n := range l.neurons {
		l.row[n] = int32(i)
	}
	l.count()
	if l.active == 0 {
		return nil, fmt.Errorf("%w: there is nothing to learn", ErrInactive)
	}
	l.newBasis(o.Gate)
	return l, nil
}

// count takes the training samples' statistics.
func (l *layer) count() {
	counts := make([]int, l.n)
	pairs, mass := 0, 0.0
	for _, s := range l.train {
		m := l.s.mass(int(s))
		for j, a := range l.s.active(int(s)) {
			if row := l.row[a]; row >= 0 {
				counts[row]++
				pairs++
				mass += float64(quant.F32FromBF16(m[j]))
			}
		}
	}
	l.meanMass = 1
	if mass > 0 {
		l.meanMass = float32(mass / float64(pairs))
	}
	l.active = float64(pairs) / (float64(len(l.train)) * float64(l.n))
	for _, c := range counts {
		l.bits += entropy(float64(c) / float64(len(l.train)))
	}
}
