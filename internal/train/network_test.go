package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// newTestLayer returns a layer on a few synthetic samples.
func newTestLayer(t *testing.T, embd, ff, n int) (*layer, *Options) {
	t.Helper()
	rng := newRand(t)
	o := &Options{Pool: newPool(t, 2)}
	syn := newSynthetic(t, rng, o.Pool, embd, ff, 8, 0.2)
	o.Gate = syn.gateRow
	s := syn.samples(rng, n)
	if err := o.complete(s); err != nil {
		t.Fatal(err)
	}
	l, err := newLayer(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return l, o
}

// loss returns the definition of what gradients differentiates, in float64, of weights in float64.
func loss(l *layer, rank int, fc1, fc2 []float64, samples []int32, positive float64) float64 {
	total := 0.0
	for _, s := range samples {
		hidden := make([]float64, rank)
		for k := range hidden {
			for j, h := range l.s.x(int(s)) {
				hidden[k] += fc1[k*l.embd+j] * float64(l.scale[j]*quant.F32FromF16(h))
			}
			hidden[k] = max(hidden[k], 0)
		}
		mass := map[uint16]float64{}
		for j, a := range l.s.active(int(s)) {
			mass[a] = float64(quant.F32FromBF16(l.s.mass(int(s))[j]))
		}
		for i, n := range l.neurons {
			z := 0.0
			for k, h := range hidden {
				z += fc2[i*rank+k] * h
			}
			if m, active := mass[uint16(n)]; active {
				w := math.Min(math.Max(m/float64(l.meanMass), minMassWeight), maxMassWeight)
				total += positive * w * math.Log1p(math.Exp(-z))
			} else {
				total += math.Log1p(math.Exp(z))
			}
		}
	}
	return total / float64(len(samples))
}

// gradientTolerance is relative to the largest gradient: sums in float32, and an exponential within 2 ulp.
const gradientTolerance = 1e-4

func TestGradientsAgainstFiniteDifferences(t *testing.T) {
	l, _ := newTestLayer(t, 16, 24, 200)
	const rank, positive = 32, 3
	w := l.start(rank)
	samples := l.train[:50]
	b := l.newBatch(len(samples), rank)
	l.gradients(&w, b, samples, positive)
	wide := func(v []float32) []float64 {
		out := make([]float64, len(v))
		for i, e := range v {
			out[i] = float64(e)
		}
		return out
	}
	fc1, fc2 := wide(w.fc1), wide(w.fc2)
	check := func(name string, p []float64, grad []float32) {
		largest := 0.0
		for _, g := range grad {
			largest = max(largest, math.Abs(float64(g)))
		}
		for i := range p {
			const h = 1e-6 // small enough that few ReLUs change sides
			was := p[i]
			p[i] = was + h
			up := loss(l, rank, fc1, fc2, samples, positive)
			p[i] = was - h
			down := loss(l, rank, fc1, fc2, samples, positive)
			p[i] = was
			if want := (up - down) / (2 * h); math.Abs(want-float64(grad[i])) > gradientTolerance*largest {
				t.Fatalf("%s, weight %d: gradient %g, differences give %g (largest %g)", name, i, grad[i], want, largest)
			}
		}
	}
	check("fc1", fc1, b.grad1)
	check("fc2", fc2, b.grad2)
}

func TestUpdateIsAdamW(t *testing.T) {
	l, _ := newTestLayer(t, 16, 24, 200)
	w, grads := []float32{9, 1, -2}, [][]float32{{5, 0.5, -3}, {5, -1, 2}}
	a := adam{make([]float32, 3), make([]float32, 3), 0.1}
	want := []float64{9, 1, -2}
	m, v := make([]float64, 3), make([]float64, 3)
	for step, g := range grads {
		l.update(&a, w, g, 1, step+1, 0.5)
		for i := 1; i < 3; i++ { // algorithm 2 of the paper, line by line
			d := float64(g[i])
			m[i] = beta1*m[i] + (1-beta1)*d
			v[i] = beta2*v[i] + (1-beta2)*d*d
			mHat, vHat := m[i]/(1-math.Pow(beta1, float64(step+1))), v[i]/(1-math.Pow(beta2, float64(step+1)))
			want[i] -= 0.5 * 0.1 * (mHat/(math.Sqrt(vHat)+epsilon) + decay*want[i])
		}
	}
	for i := range w {
		if math.Abs(float64(w[i])-want[i]) > 1e-6*math.Abs(want[i]) {
			t.Fatalf("weights %v, want %v", w, want)
		}
	}
}

func TestQualityOfKnownSets(t *testing.T) {
	l, _ := newTestLayer(t, 16, 4, 200)
	// Two samples, four neurons; margins below, active ones marked with their masses.
	e := &evaluation{
		samples: []int32{0, 1},
		logits:  []float32{3, 1, -1, -2 /**/, 2, -4, 0.5, -3},
		active:  [][]int32{{0, 2}, {0, 1}},
		margins: [][]float32{{3, -1}, {2, -4}},
		mass:    [][]float32{{5, 1}, {3, 1}},
		total:   10, pairs: 4, tally: make([]tally, 2),
	}
	for _, c := range []struct {
		s    float32
		want Quality
	}{
		// Predicted at 0: (0,0) (0,1) (1,0) (1,2); hits 2 of 4 with masses 5 and 3; wrong: two predicted, two missed.
		{0, Quality{0.8, 0.5, 0.5, 0.5, 0.5, 0.5, 2}},
		// At -1 also (0,2): a hit of mass 1.
		{-1, Quality{0.9, 0.75, 0.6, 0.625, 0.625, 0.5, 2}},
		{-4, Quality{1, 1, 0.5, 0.5, 1, 0.5, 2}},
		{9, Quality{0, 0, 1, 0.5, 0, 0.5, 2}},
	} {
		if got := l.quality(e, c.s); got != c.want {
			t.Errorf("at %g: %+v, want %+v", c.s, got, c.want)
		}
	}
	for target, want := range map[float64]float32{0.5: 3, 0.51: 2, 0.8: 2, 0.81: -1, 0.9: -1, 0.95: -4, 1: -4} {
		if got := l.shift(e, target); got != want {
			t.Errorf("a target of %g needs a shift of %g, not %g", target, want, got)
		}
	}
}

func TestKeysAreOrdered(t *testing.T) {
	floats := []float32{-math.MaxFloat32, -1.5, -1, -1e-40, 0, 1e-40, 0.1, 1, math.MaxFloat32}
	for i, f := range floats {
		if unkey(key(f)) != f {
			t.Errorf("%g became %g", f, unkey(key(f)))
		}
		if i > 0 && key(floats[i-1]) >= key(f) {
			t.Errorf("%g and %g are out of order", floats[i-1], f)
		}
	}
}

func TestDocumentsAreNotSplit(t *testing.T) {
	l, _ := newTestLayer(t, 16, 24, 1000) // 20 documents of 50
	side := map[int32]bool{}
	for _, s := range l.train {
		side[l.s.Document[s]] = true
	}
	for _, s := range l.held {
		if side[l.s.Document[s]] {
			t.Fatalf("document %d is on both sides", l.s.Document[s])
		}
	}
	if len(l.held) != 100 || len(l.train) != 900 {
		t.Fatalf("%d and %d samples, want a tenth held out", len(l.train), len(l.held))
	}
}

func TestStart(t *testing.T) {
	l, o := newTestLayer(t, 32, 100, 2000)
	// The constant unit is near 1 on samples it was not fitted to.
	x := make([]float32, len(l.held)*l.embd)
	l.load(x, l.held)
	for i := range l.held {
		if u := dot(x[i*l.embd:][:l.embd], l.basis.unit); math.Abs(u-1) > 0.5 {
			t.Fatalf("the constant unit is %g", u)
		}
	}
	// Columns of the subspace are orthonormal, to float32's rounding of sums of 100.
	q := l.subspace(newRand(t), l.basis, 7)
	g := make([]float32, 49)
	l.mul.Mul(gemm.New(g, 7, 7), 1, gemm.New(q, 100, 7).T(), gemm.New(q, 100, 7), false)
	for i, v := range g {
		want := float32(0)
		if i%8 == 0 {
			want = 1
		}
		if math.Abs(float64(v-want)) > 1e-5 {
			t.Fatalf("QᵀQ is %v", g)
		}
	}
	// The start of a rank above the inputs' 9 dimensions predicts well before any training.
	r := &run{layer: l, o: o}
	if err := func() error { r.begin(32, 0); return r.epochs(context.Background(), l.train, l.held, false) }(); err != nil {
		t.Fatal(err)
	}
	if r.bestQuality.Accuracy < 0.95 {
		t.Fatalf("untrained: %+v", r.bestQuality)
	}
}

func TestExportKeepsDecisions(t *testing.T) {
	l, o := newTestLayer(t, 32, 100, 2000)
	r := &run{layer: l, o: o}
	r.begin(32, 1)
	if err := r.epochs(context.Background(), l.train, l.held, false); err != nil {
		t.Fatal(err)
	}
	p, q := r.export(o)
	want := judgeFresh(p, heldOut(l), l.neurons)
	// The same numbers by the definition in float64: a logit within rounding of 0 may fall either way.
	for _, d := range []float64{q.MassRecall - want.MassRecall, q.Accuracy - want.Accuracy, q.PredictedShare - want.PredictedShare} {
		if math.Abs(d) > 1e-3 {
			t.Fatalf("measured %+v, by the definition %+v", q, want)
		}
	}
}

// heldOut returns the samples that judge.
func heldOut(l *layer) *Samples {
	s := &Samples{Embd: l.embd, FF: l.s.FF, Start: []int64{0}}
	for _, i := range l.held {
		s.X = append(s.X, l.s.x(int(i))...)
		s.Active = append(s.Active, l.s.active(int(i))...)
		s.Mass = append(s.Mass, l.s.mass(int(i))...)
		s.Start = append(s.Start, int64(len(s.Active)))
		s.Document = append(s.Document, 0)
	}
	return s
}

func TestEvenly(t *testing.T) {
	if got := evenly([]int32{0, 1, 2, 3, 4, 5, 6}, 3); !slices.Equal(got, []int32{0, 2, 4}) {
		t.Fatal(got)
	}
}

// BenchmarkStep is one step on a layer of a 7B model at rank 512.
func BenchmarkStep(b *testing.B) {
	const embd, ff, rank, rows = 4096, 11008, 512, 512
	rng := newRand(b)
	p := newPool(b, 4)
	s := &Samples{Embd: embd, FF: ff, Start: []int64{0}}
	for i := range 2 * rows {
		for j := 0; j < embd; j++ {
			s.X = append(s.X, quant.F16FromF32(rng.Float32()))
		}
		for j := i % 10; j < ff; j += 10 {
			s.Active, s.Mass = append(s.Active, uint16(j)), append(s.Mass, quant.BF16FromF32(1))
		}
		s.Start, s.Document = append(s.Start, int64(len(s.Active))), append(s.Document, int32(i/rows))
	}
	o := Options{Pool: p}
	if err := o.complete(s); err != nil {
		b.Fatal(err)
	}
	l, err := newLayer(s, &o)
	if err != nil {
		b.Fatal(err)
	}
	r := &run{layer: l, o: &o}
	r.begin(rank, 1)
	r.b = l.newBatch(rows, rank)
	for b.Loop() {
		r.Epoch, r.Step = 0, 0
		if err := r.epoch(context.Background(), l.train[:rows]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(operations(rows, embd, ff, rank, 1)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}

// operations returns how many floating-point operations training takes, trials apart.
func operations(samples, embd, neurons, rank, epochs int) float64 {
	return 2 * float64(samples) * float64(epochs) * float64(rank) * float64(2*embd+3*neurons)
}
