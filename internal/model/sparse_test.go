package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// loadMode loads f with kernels that compute floats exactly.
func loadMode(t *testing.T, f *gguf.File, o model.Options) *model.Model {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2, Floats: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	o.Batch, o.Outputs, o.Cache = 32, 32, compute.CacheSpec{Pages: 8}
	m, err := model.Load(t.Context(), f, dev, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// apart returns the largest difference of a logit, as a share of the largest logit.
func apart(a, b [][]float32) float64 {
	worst, largest := 0.0, 0.0
	for i := range a {
		for j := range a[i] {
			worst = max(worst, math.Abs(float64(a[i][j]-b[i][j])))
			largest = max(largest, math.Abs(float64(b[i][j])))
		}
	}
	return worst / largest
}

// Tolerances of logits between two ways to compute the same.
const (
	reordered = 1e-4 // the same sums in another order, in float32, keys and values rounded to halves
	rounded   = 3e-2 // also activations, or coefficients of neurons, rounded to eight bits in blocks
)

var sparseTokens = []int32{1, 40, 300, 17, 99, 261, 5, 500, 33, 78, 431, 12, 350, 7, 222, 80, 3, 41, 301, 18}

// TestExactIsDense: skipping zero neurons changes only the order of sums, token by token and as a prompt.
func TestExactIsDense(t *testing.T) {
	type dense struct {
		spec  synth.Spec
		limit float64
	}
	for _, c := range testenv.Few(t, 4, []dense{
		{synth.Spec{Arch: "llama", Type: quant.F32}, reordered},
		{synth.Spec{Arch: "llama", Type: quant.F16, Activation: "fatrelu"}, reordered},
		{synth.Spec{Arch: "bamboo", Type: quant.F16}, reordered},
		{synth.Spec{Arch: "falcon", Type: quant.F16}, reordered},
		{synth.Spec{Arch: "opt", Type: quant.F32}, reordered},
		{synth.Spec{Arch: "arcee", Type: quant.F32}, reordered},
		{synth.Spec{Arch: "phi3", Type: quant.F16}, reordered},
		{synth.Spec{Arch: "gemma3n", Type: quant.F32}, reordered},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, rounded},
		{synth.Spec{Arch: "qwen3", Type: quant.Q8_0}, rounded},
		{synth.Spec{Arch: "smallthinker", Type: quant.F32}, reordered},
		{synth.Spec{Arch: "llama", Type: quant.F16, Experts: 4, Used: 2, Activation: "drelu"}, reordered},
		{synth.Spec{Arch: "glm4moe", Type: quant.F32, Activation: "relu"}, reordered},
	}) {
		t.Run(fmt.Sprintf("%s %s %s", c.spec.Arch, c.spec.Type, c.spec.Activation), func(t *testing.T) {
			t.Parallel()
			layers, activation := 2, ""
			if c.spec.Arch == "gemma3n" {
				layers, activation = 4, "gelu" // the last layers read keys and values of others; zeros come from the cut
			}
			f := synthtest.Sparse(t, c.spec, layers)
			want := evaluate(t, loadMode(t, f, model.Options{Neurons: model.Neurons{Sparse: model.Off, Activation: activation}}), sparseTokens, 20)
			m := loadMode(t, f, model.Options{Neurons: model.Neurons{Sparse: model.Exact, Activation: activation}})
			for _, steps := range [][]int{{20}, {7, 1}} {
				if d := apart(evaluate(t, m, sparseTokens, steps...), want); !(d <= c.limit) {
					t.Errorf("in steps of %d: a logit differs by %.2g of the largest, more than %g", steps, d, c.limit)
				}
			}
			for l, u := range m.Neurons() {
				if u.Mode != model.Exact || u.Tokens != 2*int64(len(sparseTokens)) || u.Active == 0 || u.Active > u.Tokens*int64(u.Neurons)/4 {
					t.Errorf("layer %d: %+v of a model that is nine tenths zero", l, u)
				}
			}
		})
	}
}

// TestOrder: reordering neurons does not change the model.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		{synth.Spec{Arch: "llama", Type: quant.F32}, model.Off},
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Exact},
		{synth.Spec{Arch: "opt", Type: quant.F32}, model.Exact},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact}, // keeps its order, for columns share scales
		{synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.spec.Arch, c.spec.Type, c.mode), func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, 2)
			limit := reordered
			if c.spec.Type == quant.Q4_0 {
				limit = rounded
			}
			want := evaluate(t, loadMode(t, f, model.Options{Neurons: model.Neurons{Sparse: c.mode}}), sparseTokens, 12, 1)
			var orders [][]int32
			for range 2 {
				var order []int32
				for _, n := range random.Perm(1024) {
					order = append(order, int32(n))
				}
				orders = append(orders, order)
			}
			got := evaluate(t, loadMode(t, f, model.Options{Neurons: model.Neurons{Sparse: c.mode}, Order: orders}), sparseTokens, 12, 1)
			if d := apart(got, want); !(d <= limit) {
				t.Errorf("a logit differs by %.2g of the largest, more than %g", d, limit)
			}
		})
	}
}

// TestAuto: the file decides the mode, and impossible modes are refused.
func TestAuto(t *testing.T) {
	for _, c := range []struct {
		spec  synth.Spec
		asked model.SparseMode
		want  model.SparseMode
		err   string
	}{
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Auto, model.Exact, ""},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Auto, model.Predict, ""},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Exact, model.Exact, ""},
		{synth.Spec{Arch: "llama", Type: quant.F16}, model.Predict, 0, "powerinfer prepare"},
		{synth.Spec{Arch: "bitnet", Type: quant.F16}, model.Auto, model.Off, ""},
		{synth.Spec{Arch: "bitnet", Type: quant.F16}, model.Exact, 0, "bitnet needs all of them"},
	} {
		f := synthtest.Sparse(t, c.spec, 2)
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(t.Context(), f, dev, model.Options{Neurons: model.Neurons{Sparse: c.asked}, Batch: 1, Outputs: 1, Cache: compute.CacheSpec{Pages: 1}})
		switch {
		case c.err == "" && (err != nil || m.Sparse != c.want):
			t.Errorf("%s %s asked for %s: %v, %v", c.spec.Arch, c.spec.Magic, c.asked, m, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s %s asked for %s: %v", c.spec.Arch, c.spec.Magic, c.asked, err)
		}
		if c.asked == model.Auto && c.want == model.Exact { // the same file with a smooth activation has nothing to skip
			if m, err = model.Load(t.Context(), f, dev, model.Options{Neurons: model.Neurons{Activation: "silu"}, Batch: 1, Outputs: 1, Cache: compute.CacheSpec{Pages: 1}}); err != nil || m.Sparse != model.Off {
				t.Errorf("silu: %v, %v", m, err)
			}
			if _, err = model.Load(t.Context(), f, dev, model.Options{Neurons: model.Neurons{Activation: "silu", Sparse: model.Exact}}); err == nil || !strings.Contains(err.Error(), "silu leaves none") {
				t.Errorf("silu in exact: %v", err)
			}
		}
		dev.Close()
	}
}

// observer keeps what it is shown of one layer.
type observer struct {
	layer                         int
	normed, residual, activations [][]float32
}

func (o *observer) FeedForward(layer int, s model.FFNStep) {
	if layer != o.layer {
		return
	}
	for i := range s.Params.Tokens {
		o.normed = append(o.normed, append([]float32(nil), s.Normed(i)...))
		o.residual = append(o.residual, append([]float32(nil), s.Residual(i)...))
		o.activations = append(o.activations, append([]float32(nil), s.Activations(i)...))
	}
}

// TestObserver: an observer sees the layer's definition, computed from the file.
func TestObserver(t *testing.T) {
	f := synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.F32}, 2)
	o := &observer{layer: 1}
	m := loadMode(t, f, model.Options{Neurons: model.Neurons{Sparse: model.Exact}, Observer: o})
	logits := evaluate(t, m, sparseTokens, 16, 1)
	plain := evaluate(t, loadMode(t, f, model.Options{Neurons: model.Neurons{Sparse: model.Off}}), sparseTokens, 16, 1)
	if d := apart(logits, plain); d != 0 {
		t.Errorf("observing changes a logit by %g of the largest", d)
	}
	weights := func(name string) []float32 {
		tensor := f.Tensor(name)
		out := make([]float32, tensor.Rows()*tensor.Shape[0])
		quant.Decode(tensor.Type, out, tensor.Data)
		return out
	}
	norm, gate, up := weights("blk.1.ffn_norm.weight"), weights("blk.1.ffn_gate.weight"), weights("blk.1.ffn_up.weight")
	if len(o.normed) != len(sparseTokens) {
		t.Fatalf("%d tokens seen of %d", len(o.normed), len(sparseTokens))
	}
	dot := func(w, x []float32) float64 {
		sum := 0.0
		for i := range x {
			sum += float64(w[i]) * float64(x[i])
		}
		return sum
	}
	for i, x := range o.residual {
		scale := 1 / math.Sqrt(dot(x, x)/256+float64(m.Eps))
		for j, v := range x {
			if want := float64(v) * scale * float64(norm[j]); math.Abs(want-float64(o.normed[i][j])) > 1e-5*math.Max(1, math.Abs(want)) {
				t.Fatalf("token %d: normed input %d is %g, want %g", i, j, o.normed[i][j], want)
			}
		}
		for n, a := range o.activations[i] {
			want := max(0, dot(gate[n*256:][:256], o.normed[i])) * dot(up[n*256:][:256], o.normed[i])
			if math.Abs(want-float64(a)) > 1e-4*math.Max(1, math.Abs(want)) {
				t.Fatalf("token %d: neuron %d is %g, want %g", i, n, a, want)
			}
		}
	}
}
