package prepare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestSamplingIsEven: sampling takes exactly the wanted number, and gaps differ by at most one.
func TestSamplingIsEven(t *testing.T) {
	for _, c := range []struct{ want, total int }{{0, 10}, {1, 10}, {3, 10}, {10, 10}, {999, 1000}, {4096, 131072}, {7, 1000003}} {
		s := sampling{want: c.want, total: c.total}
		n, last, least, most := 0, -1, math.MaxInt, 0
		for i := range c.total {
			if s.next() {
				if n > 0 {
					least, most = min(least, i-last), max(most, i-last)
				}
				n, last = n+1, i
			}
		}
		if n != c.want || n > 1 && most-least > 1 {
			t.Errorf("%d of %d: %d with gaps from %d to %d", c.want, c.total, n, least, most)
		}
	}
}

// fakeStep returns a layer's step of given inputs and activations.
func fakeStep(inputs, activations [][]float32) model.FFNStep {
	return model.FFNStep{
		Params: &compute.Params{Tokens: make([]int32, len(inputs))},
		Normed: func(i int) []float32 { return inputs[i] }, Activations: func(i int) []float32 { return activations[i] },
	}
}

// TestProfilerCounts compares counts, masses and traces of two layers with direct computation, for one thread and for
// several.
func TestProfilerCounts(t *testing.T) {
	const embd, ff, tokens = 32, 3000, 37
	seed := testenv.Seed(t)
	for _, threads := range []int{1, 4} {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := &profiler{threads: threads}
		for range 2 {
			norms := make([]float32, ff)
			for i := range norms {
				norms[i] = rng.Float32()
			}
			p.norms, p.counts, p.sums = append(p.norms, norms), append(p.counts, make([]uint32, ff)), append(p.sums, make([]float64, ff))
		}
		w := &work{dir: t.TempDir()}
		var err error
		if p.traces, err = openTraces(w, 2, [roles][]int64{}); err != nil {
			t.Fatal(err)
		}
		p.traces.left = [roles]int64{1 << 30, 1 << 30}
		p.sampled = []int{0, 5, 36}
		p.tokens = tokens
		counts, mass := make([]uint32, ff), make([]float64, ff)
		var inputs, acts [][]float32
		for i := range tokens {
			p.documents = append(p.documents, int32(i/10))
			x, a := make([]float32, embd), make([]float32, ff)
			for j := range x {
				x[j] = float32(rng.NormFloat64())
			}
			for j := range a {
				if rng.IntN(5) == 0 {
					a[j] = float32(rng.NormFloat64())
					counts[j]++
					mass[j] += math.Abs(float64(a[j])) * float64(p.norms[1][j])
				}
			}
			inputs, acts = append(inputs, x), append(acts, a)
		}
		p.FeedForward(1, fakeStep(inputs, acts))
		s, err := p.stats()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Layers[1], counts) || s.Layers[0][0] != 0 {
			t.Fatalf("the counts are wrong")
		}
		for j := range mass {
			if math.Abs(float64(s.Mass[1][j])-mass[j]) > 1e-6*mass[j] {
				t.Fatalf("neuron %d has mass %g, want %g", j, s.Mass[1][j], mass[j])
			}
		}
		checkTrace(t, w, p, inputs, acts)
	}
}

// checkTrace reads the trace of layer 1 back.
func checkTrace(t *testing.T, w *work, p *profiler, inputs, acts [][]float32) {
	t.Helper()
	if err := p.traces.close(); err != nil {
		t.Fatal(err)
	}
	s, err := readTrace(w, calibrating, 1, len(inputs[0]), len(acts[0]))
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != len(p.sampled) || len(s.Start) != s.Len()+1 {
		t.Fatalf("%d samples of %d", s.Len(), len(p.sampled))
	}
	for i, token := range p.sampled {
		if s.Document[i] != p.documents[token] {
			t.Fatalf("sample %d is of document %d", i, s.Document[i])
		}
		for j, x := range inputs[token] {
			if s.X[i*s.Embd+j] != quant.F16FromF32(x) {
				t.Fatalf("sample %d, input %d", i, j)
			}
		}
		at := s.Start[i]
		for j, a := range acts[token] {
			if a == 0 {
				continue
			}
			mass := quant.BF16FromF32(float32(math.Abs(float64(a))) * p.norms[1][j])
			if int(s.Active[at]) != j || s.Mass[at] != mass {
				t.Fatalf("sample %d: neuron %d of mass %x, want %d, %x", i, s.Active[at], s.Mass[at], j, mass)
			}
			at++
		}
		if at != s.Start[i+1] {
			t.Fatalf("sample %d has neurons that are not active", i)
		}
	}
	if other, err := readTrace(w, holdingOut, 1, s.Embd, s.FF); err != nil || other.Len() != 0 {
		t.Errorf("the other text's trace has %d samples, %v", other.Len(), err)
	}
	if _, err := readTrace(w, calibrating, 1, s.Embd+1, s.FF); err == nil {
		t.Error("a trace of another width is read")
	}
}

// A trace stops growing before its bound, at a record's end.
func TestTraceBudget(t *testing.T) {
	w := &work{dir: t.TempDir()}
	tr, err := openTraces(w, 1, [roles][]int64{})
	if err != nil {
		t.Fatal(err)
	}
	x, a, norms := make([]float32, 4), []float32{0, 1, -2}, []float32{1, 1, 1}
	size := recordBytes(4, 2)
	tr.left[calibrating] = 3*size + 1
	for range 5 {
		if err := tr.append(calibrating, 0, appendRecord(nil, 7, x, a, norms)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.close(); err != nil {
		t.Fatal(err)
	}
	s, err := readTrace(w, calibrating, 0, 4, 3)
	if err != nil || s.Len() != 3 || tr.size[calibrating][0] != 3*size {
		t.Fatalf("%d records in %d bytes, %v", s.Len(), tr.size[calibrating][0], err)
	}
}

// Magnitudes at and around one hundredth of the largest.
func TestNearZero(t *testing.T) {
	var z nearZero
	z.FeedForward(0, fakeStep([][]float32{nil, nil}, [][]float32{{100, -0.99, 1, 0}, {-2, 0.02, 0.0199, 0.5}}))
	if z.near != 3 || z.all != 8 {
		t.Errorf("%g of %g are near zero, want 3 of 8", z.near, z.all)
	}
}

// TestRecurrentSequences: a step has a state for each of its sequences.
func TestRecurrentSequences(t *testing.T) {
	f := openSmall(t, synth.Spec{Arch: "qwen35", Type: quant.F32, Layers: 3, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5})
	r, err := newRunner(t.Context(), f, &Options{Threads: 2, Activation: "silu"}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := r.begin()
	for s := range maxSequences {
		r.add(s, 0, []int32{int32(s + 5), 9})
	}
	p.Out = append(p.Out, int32(len(p.Tokens)-1))
	if err := r.Forward(p); err != nil {
		t.Fatal(err)
	}
	together, err := r.Logits(0)
	if err != nil {
		t.Fatal(err)
	}
	together = slices.Clone(together)
	p = r.begin()
	r.add(0, 0, []int32{maxSequences + 4, 9})
	p.Out = append(p.Out, 1)
	if err := r.Forward(p); err != nil {
		t.Fatal(err)
	}
	if alone, err := r.Logits(0); err != nil || !slices.Equal(alone, together) {
		t.Errorf("the last sequence's logits differ alone (%v)", err)
	}
}
