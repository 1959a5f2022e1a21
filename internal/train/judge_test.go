package train

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Judge agrees with the definition, worked out in float64: decisions by logits near zero may differ.
func TestJudge(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 3)
	const embd, ff, rank = 48, 200, 32
	s := newSynthetic(t, rng, p, embd, ff, 8, 0.1).samples(rng, 700)
	for _, always := range []int{0, 7} {
		var neurons []int32
		for _, n := range rand.New(rand.NewPCG(1, 1)).Perm(ff)[always:] {
			neurons = append(neurons, int32(n))
		}
		pred := &Predictor{Rank: rank, FC1: normals(rng, rank*embd, 1), FC2: normals(rng, len(neurons)*rank, 1)}
		got, err := Judge(s, pred, neurons, p)
		if err != nil {
			t.Fatal(err)
		}
		want := judgeFresh(pred, s, neurons)
		// The definition counts the neurons to be predicted; those always on are predicted too, and right where active.
		n, on := float64(s.Len()*len(neurons)), float64(s.Len()*always)
		active := float64(len(s.Active))
		rest := want.ActiveShare * n
		hits := want.Recall*rest + active - rest
		predicted := want.PredictedShare*n + on
		if math.Abs(got.Recall-hits/active) > 1e-3 || math.Abs(got.Precision-hits/predicted) > 1e-3 ||
			math.Abs(got.PredictedShare-predicted/(n+on)) > 1e-3 || math.Abs(got.ActiveShare-active/(n+on)) > 1e-12 ||
			math.Abs(1-got.Accuracy-(predicted+active-2*hits)/(n+on)) > 1e-3 || got.Samples != s.Len() {
			t.Errorf("%d always on: %+v; the definition gives %+v of the others", always, got, want)
		}
		if always == 0 && math.Abs(got.MassRecall-want.MassRecall) > 1e-3 {
			t.Errorf("recall of mass %g, the definition gives %g", got.MassRecall, want.MassRecall)
		}
		if always > 0 && got.MassRecall <= want.MassRecall {
			t.Errorf("recall of mass %g is no better than %g of the others", got.MassRecall, want.MassRecall)
		}
	}
	if _, err := Judge(s, &Predictor{Rank: rank}, []int32{0}, p); err == nil {
		t.Error("a predictor without weights is judged")
	}
}

// A gate's offset is known to the start: without it, neurons that need it begin far off.
func TestStartKnowsOffsets(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 2)
	const embd, ff, offset = 64, 128, -1.5
	x := normals(rng, 2000*embd, 1)
	gate := normals(rng, ff*embd, 1/float32(math.Sqrt(embd)))
	s := &Samples{Embd: embd, FF: ff, Start: []int64{0}}
	for i := range 2000 {
		row := x[i*embd:][:embd]
		row[0] = 4 // what inputs have in common
		for _, v := range row {
			s.X = append(s.X, quant.F16FromF32(v))
		}
		for j := range ff {
			if z := dot(row[1:], gate[j*embd+1:][:embd-1]) + offset; z > 0 {
				s.Active, s.Mass = append(s.Active, uint16(j)), append(s.Mass, quant.BF16FromF32(float32(z)))
			}
		}
		s.Start, s.Document = append(s.Start, int64(len(s.Active))), append(s.Document, int32(i/50))
	}
	wrong := map[float32]float64{}
	for _, told := range []float32{0, offset} {
		o := Options{Pool: p, Gate: func(row []float32, neuron int) float32 {
			copy(row, gate[neuron*embd:])
			row[0] = 0
			return told
		}}
		if err := o.complete(s); err != nil {
			t.Fatal(err)
		}
		l, err := newLayer(s, &o)
		if err != nil {
			t.Fatal(err)
		}
		w := l.start(embd)
		for j := range w.fc1 { // Judge's inputs are not scaled
			w.fc1[j] *= l.scale[j%embd]
		}
		q, err := Judge(s, &Predictor{Rank: w.rank, FC1: w.fc1, FC2: w.fc2}, o.Neurons, p)
		if err != nil {
			t.Fatal(err)
		}
		wrong[told] = 1 - q.Accuracy
	}
	if wrong[offset] > 0.05 || wrong[offset] > wrong[0]/3 {
		t.Errorf("%.3f of decisions are wrong with the offset, %.3f without", wrong[offset], wrong[0])
	}
}

// Inputs with nothing in common leave nothing to stand for a bias, which is said as what it is.
func TestNothingInCommon(t *testing.T) {
	rng := newRand(t)
	s := &Samples{Embd: 64, FF: 64, Start: []int64{0}}
	for i := range 512 {
		for range s.Embd {
			s.X = append(s.X, quant.F16FromF32(float32(rng.NormFloat64())))
		}
		for j := range s.FF {
			if rng.IntN(10) == 0 {
				s.Active, s.Mass = append(s.Active, uint16(j)), append(s.Mass, quant.BF16FromF32(1))
			}
		}
		s.Start, s.Document = append(s.Start, int64(len(s.Active))), append(s.Document, int32(i/16))
	}
	p := newPool(t, 2)
	if _, q, err := Train(t.Context(), s, Options{Pool: p, Rank: 32, Epochs: 2}); err != nil && !errors.Is(err, ErrDiverged) {
		t.Errorf("%+v, %v", q, err)
	}
}
