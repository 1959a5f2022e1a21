package prepared_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

const forwardEmbd, forwardFF, forwardLayers, forwardRank = 64, 128, 3, 32

// A prepared model gives the logits of the model that it was made from: with every neuron by dense products, without
// the exact zeros, with predictors that choose every neuron, and in the original's form.
func TestForwardPass(t *testing.T) {
	for _, arch := range []string{"llama", "bamboo", "falcon", "opt"} {
		// Differences as a share of the largest logit: sums in another order; halves, which the original's form makes
		// of floats (and some kernels of activations, with 8 bits of mantissa).
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

// TestAdaptedForwardPass: an adapter of feed-forward layers gives the logits of the merged model, by neuron in every
// mode, and its neurons follow the order of a prepared file.
func TestAdaptedForwardPass(t *testing.T) {
	const tolerance = 1e-4 // as a share of the largest logit: sums in another order
	for _, arch := range []string{"llama", "opt"} {
		spec := synth.Spec{
			Arch: arch, Layers: forwardLayers, Embd: forwardEmbd, FF: forwardFF, Heads: 4, Context: 2048, Type: quant.F32, Activation: "relu", Sparsity: 0.7, Seed: 6,
		}
		dir := t.TempDir()
		plain, mine := filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "prepared.gguf")
		if err := synth.Write(t.Context(), plain, spec, nil); err != nil {
			t.Fatal(err)
		}
		src := open(t, plain)
		if err := prepared.Write(t.Context(), mine, src, allNeurons(t, arch), nil); err != nil {
			t.Fatal(err)
		}
		if err := prepared.SetInfo(t.Context(), mine, allNeurons(t, arch).Info, nil); err != nil { // which says nothing of an order
			t.Fatal(err)
		}
		merged := synthtest.File(t, spec)
		one, two := merge(t, merged, 1, 5), merge(t, merged, 2, 33)
		want := adaptedLogits(t, merged, ref.New(), model.Off)
		if d := difference(adaptedLogits(t, src, ref.New(), model.Off), want); d < 100*tolerance {
			t.Fatalf("%s: the adapters change logits by %.2g only", arch, d)
		}
		file := open(t, mine)
		for _, c := range []struct {
			f     *gguf.File
			modes []model.SparseMode
		}{{src, []model.SparseMode{model.Off, model.Exact, model.Auto}}, {file, []model.SparseMode{model.Off, model.Exact, model.Predict, model.Auto}}} {
			for _, mode := range c.modes {
				dev, err := cpu.New(cpu.Options{Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				for name, on := range map[string]compute.Device{"the scalar device": ref.New(), "the processor": dev} {
					if d := difference(adaptedLogits(t, c.f, on, mode, one, two), want); !(d <= tolerance) {
						t.Errorf("%s: %s, mode %s, on %s: logits differ by %.2g of the largest", arch, filepath.Base(c.f.Path), mode, name, d)
					}
				}
				if c.f != file || mode == model.Off {
					continue
				}
				var got [2][][]float32
				for i := range got {
					dev, err := cpu.New(cpu.Options{Threads: 2, UnitCache: 250 << 10})
					if err != nil {
						t.Fatal(err)
					}
					got[i] = logitsWith(t, c.f, dev, model.Options{Neurons: model.Neurons{Sparse: mode}, Adapters: []model.Adapter{one, two}, OnDisk: i == 1})
				}
				if difference(got[1], got[0]) != 0 {
					t.Errorf("%s: mode %s: other bytes with neurons on disk", arch, mode)
				}
			}
		}
		old, _, err := prepared.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		if !old.Ordered() {
			t.Errorf("%s: the prepared file does not say the order of its neurons", arch)
		}
	}
}

// merge makes a random adapter of the given rank for f's feed-forward layers, and adds what it changes, 0.7 times, to
// f's weights.
func merge(t *testing.T, f *gguf.File, seed uint64, rank int) model.Adapter {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	var tensors []gguf.Source
	add := func(name string, cols, rows int) []float32 {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64()) / float32(math.Sqrt(float64(cols)))
		}
		tensors = append(tensors, gguf.Source{Name: name, Type: quant.F32, Shape: []int{cols, rows}, Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, x) }})
		return x
	}
	for l := range forwardLayers {
		for _, name := range []string{"gate", "up", "down"} {
			w := f.Tensor(fmt.Sprintf("blk.%d.ffn_%s.weight", l, name))
			if w == nil {
				continue
			}
			cols := w.Shape[0]
			a, b := add(w.Name+".lora_a", cols, rank), add(w.Name+".lora_b", rank, w.Rows())
			for r := range w.Rows() {
				for c := range cols {
					sum := 0.0
					for k := range rank {
						sum += float64(b[r*rank+k]) * float64(a[k*cols+c])
					}
					at := w.Data[4*(r*cols+c):]
					binary.LittleEndian.PutUint32(at, math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(at))+float32(0.7*2*sum)))
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	keys := []gguf.KV{
		{Key: "general.type", Value: "adapter"},
		{Key: "general.architecture", Value: archOf(t, f)},
		{Key: "adapter.type", Value: "lora"},
		{Key: "adapter.lora.alpha", Value: float32(2 * rank)},
	}
	if err := gguf.Create(t.Context(), path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return model.Adapter{File: open(t, path), Scale: 0.7}
}

func archOf(t *testing.T, f *gguf.File) string {
	name, _, err := f.String("general.architecture")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// keeper is a device that records the expected uses of units.
type keeper struct {
	*cpu.Device
	priors [][]float64
}

func (k *keeper) Bundle(prior []float64, parts ...*compute.Matrix) error {
	k.priors = append(k.priors, prior)
	return k.Device.Bundle(prior, parts...)
}

// TestExpectedUse: neurons on disk are expected to be used as often as when the model was prepared, in their order in
// RAM, and always if they are computed for every token.
func TestExpectedUse(t *testing.T) {
	dir := t.TempDir()
	plain, mine := filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "prepared.gguf")
	err := synth.Write(t.Context(), plain, synth.Spec{
		Arch: "llama", Layers: forwardLayers, Embd: forwardEmbd, FF: forwardFF, Heads: 4, Context: 2048, Type: quant.F16, Activation: "relu", Sparsity: 0.7, Seed: 6,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := allNeurons(t, "llama")
	var order [][]int32
	for l, y := range p.Info.Layers {
		for i := range y.Frequency {
			y.Frequency[i] = float32(forwardFF-i) / (2 * forwardFF)
		}
		same := make([]int32, forwardFF)
		for i := range same {
			same[i] = int32(i)
		}
		if l == 2 {
			slices.Reverse(same)
		}
		order = append(order, same)
	}
	if err := prepared.Write(t.Context(), mine, open(t, plain), p, nil); err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 1, UnitCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{Device: dev}
	logitsWith(t, open(t, mine), k, model.Options{Neurons: model.Neurons{Sparse: model.Predict}, Order: order, OnDisk: true})
	for l, want := range [][3]float64{{0.5, 0.5 - 20.0/256, 1.0 / 256}, {1, 1, 1.0 / 256}, {1.0 / 256, 21.0 / 256, 0.5}} {
		if prior := k.priors[l]; len(prior) != forwardFF || [3]float64{prior[0], prior[20], prior[forwardFF-1]} != want {
			t.Errorf("layer %d: uses %v are expected, want %v at the first, the 20th and the last", l, prior, want)
		}
	}
}

// allNeurons returns a plan with random orders. Layer 0's predictor is all zeros, layer 1's too after neurons that are
// always on, and layer 2 has none.
func allNeurons(t *testing.T, arch string) prepared.Plan {
	rng := testenv.Rand(t)
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
func logits(t *testing.T, f *gguf.File, mode model.SparseMode) [][]float32 {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	return adaptedLogits(t, f, dev, mode)
}

// adaptedLogits is logits with adapters, on a device that it closes.
func adaptedLogits(t *testing.T, f *gguf.File, dev compute.Device, mode model.SparseMode, adapters ...model.Adapter) (out [][]float32) {
	t.Helper()
	return logitsWith(t, f, dev, model.Options{Neurons: model.Neurons{Sparse: mode}, Adapters: adapters})
}

func logitsWith(t *testing.T, f *gguf.File, dev compute.Device, o model.Options) (out [][]float32) {
	t.Helper()
	defer dev.Close()
	p := compute.Params{Tokens: []int32{1, 300, 7, 45, 260, 9, 410}, Pages: [][]int32{{0}}}
	n := len(p.Tokens)
	p.Seq = make([]int32, n)
	for i := range int32(n) {
		p.Pos, p.Out = append(p.Pos, i), append(p.Out, i)
	}
	o.Batch, o.Outputs, o.Cache = n, n, compute.CacheSpec{Pages: 1}
	m, err := model.Load(t.Context(), f, dev, o)
	if err != nil {
		t.Fatal(fmt.Errorf("%s, mode %s: %w", f.Path, o.Sparse, err))
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
