package prepared_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

const forwardEmbd, forwardFF, forwardLayers, forwardRank = 64, 128, 3, 32

// A prepared model gives the logits of the model that it was made from: with every neuron by dense products, without
// the exact zeros, with predictors that choose every neuron, and in the original's form.
func TestForwardPass(t *testing.T) {
	for _, arch := range []string{"llama", "bamboo", "falcon", "opt"} {
		// Differences as a share of the largest logit: sums in another order; halves, which the original's form makes of
		// floats (and some kernels of activations, with 8 bits of mantissa).
		const order, halves = 1e-4, 2e-2
		dir := t.TempDir()
		dense, mine, theirs := filepath.Join(dir, "dense.gguf"), filepath.Join(dir, "prepared.gguf"), filepath.Join(dir, "original.gguf")
		err := synth.Write(t.Context(), dense, synth.Spec{
			Arch: arch, Layers: forwardLayers, Embd: forwardEmbd, FF: forwardFF, Heads: 4, Context: 2048,
			Type: quant.F32, Activation: map[bool]string{true: "drelu", false: "relu"}[arch == "bamboo"], Sparsity: 0.7, Seed: 5,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		src := open(t, dense)
		if err := prepared.Write(t.Context(), mine, src, allNeurons(t, arch), nil); err != nil {
			t.Fatal(err)
		}
		file := open(t, mine)
		if err := prepared.WriteOriginal(t.Context(), theirs, file, nil); err != nil {
			t.Fatal(err)
		}
		want := logits(t, src, model.Off)
		for mode, f := range map[model.SparseMode]*gguf.File{model.Off: file, model.Exact: file, model.Predict: file} {
			if d := difference(logits(t, f, mode), want); !(d <= order) {
				t.Errorf("%s: mode %s: logits differ by %.2g of the largest", arch, mode, d)
			}
		}
		if d := difference(logits(t, open(t, theirs), model.Predict), want); !(d <= halves) {
			t.Errorf("%s: the original's form: logits differ by %.2g of the largest", arch, d)
		}
	}
}

// allNeurons returns a plan with random orders. Layer 0's predictor is of zeros, layer 1's too behind neurons that are always on, and
// layer 2 has none.
func allNeurons(t *testing.T, arch string) prepared.Plan {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	p := prepared.Plan{PredictorType: quant.F16, Info: prepared.Info{
		Activation: "relu", Input: prepared.Residual, Calibration: prepared.Text{SHA256: strings.Repeat("0", 64), Tokens: 1},
	}}
	if arch == "bamboo" {
		p.Info.Activation = "drelu"
	}
	for l := range forwardLayers {
		order := make([]int32, forwardFF)
		for i, v := range rng.Perm(forwardFF) {
			order[i] = int32(v)
		}
		y := prepared.Layer{Frequency: make([]float32, forwardFF), Mode: prepared.Predict, Rank: forwardRank, AlwaysOn: 40 * l}
		q := prepared.Predictor{Rank: forwardRank, FC1: make([]float32, forwardRank*forwardEmbd), FC2: make([]float32, (forwardFF-40*l)*forwardRank)}
		if l == 2 {
			y.Mode, y.Rank, y.AlwaysOn = prepared.Exact, 0, 0
			q = prepared.Predictor{}
		}
		p.Order = append(p.Order, order)
		p.Info.Layers = append(p.Info.Layers, y)
		p.Predictors = append(p.Predictors, q)
	}
	return p
}

func open(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// logits of a few tokens, one row each.
func logits(t *testing.T, f *gguf.File, mode model.SparseMode) (out [][]float32) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	p := compute.Params{Tokens: []int32{1, 300, 7, 45, 260, 9, 410}, Pages: [][]int32{{0}}}
	n := len(p.Tokens)
	p.Seq = make([]int32, n)
	for i := range int32(n) {
		p.Pos, p.Out = append(p.Pos, i), append(p.Out, i)
	}
	m, err := model.Load(t.Context(), f, dev, model.Options{Batch: n, Outputs: n, Sparse: mode, Cache: compute.CacheSpec{Pages: 1}})
	if err != nil {
		t.Fatal(fmt.Errorf("%s, mode %s: %w", f.Path, mode, err))
	}
	if err := m.Forward(&p); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		row, err := m.Logits(i)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, slices.Clone(row))
	}
	return out
}

// difference returns the largest, as a share of the largest logit.
func difference(x, y [][]float32) float64 {
	worst, largest := 0.0, 0.0
	for i := range y {
		for j := range y[i] {
			worst = max(worst, math.Abs(float64(x[i][j])-float64(y[i][j])))
			largest = max(largest, math.Abs(float64(y[i][j])))
		}
	}
	return worst / largest
}
