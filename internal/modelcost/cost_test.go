package modelcost

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// Two neurons, of rows of 10 (gate), 20 (up) and 40 bytes (down), active for 90 % and 30 % of the tokens.
func TestUnitsByHand(t *testing.T) {
	gated := neurons{gate: 10, up: 20, down: 40, frequency: []float32{0.9, 0.3}, precision: 0.6}
	ungated := gated
	ungated.gate = 0
	always := gated
	always.alwaysOn, always.precision = 1, 0.9
	for name, c := range map[string]struct {
		n    neurons
		mode model.SparseMode
		want placement.Units
	}{
		"off":              {gated, model.Off, placement.Units{Size: 70, Always: 70, Sometimes: []float64{0, 0}}},
		"exact":            {gated, model.Exact, placement.Units{Size: 70, Always: 10, Sometimes: []float64{54, 18}}},
		"exact, ungated":   {ungated, model.Exact, placement.Units{Size: 60, Always: 20, Sometimes: []float64{36, 12}}},
		"predict":          {gated, model.Predict, placement.Units{Size: 70, Sometimes: []float64{10 + 54, 5 + 18}}},
		"predict, ungated": {ungated, model.Predict, placement.Units{Size: 60, Sometimes: []float64{20 + 36, 10 + 12}}},
		"always on":        {always, model.Predict, placement.Units{Size: 70, Sometimes: []float64{10 + 54, 10.0/3 + 18}}},
	} {
		u := c.n.units(c.mode)
		same := u.Size == c.want.Size && u.Always == c.want.Always && slices.EqualFunc(u.Sometimes, c.want.Sometimes, near)
		if !same {
			t.Errorf("%s: %+v, want %+v", name, u, c.want)
		}
	}
}

// near allows for frequencies that are float32.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-5 }

func law() Options { return Options{Law: UsualLaw()} }

func of(t *testing.T, f *gguf.File, o Options) Cost {
	t.Helper()
	b, err := Of(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// weights returns the bytes of all tensors, without predictors in a mode that does not use them.
func weights(f *gguf.File, mode model.SparseMode) (n int64) {
	for _, x := range f.Tensors {
		if mode == model.Predict || !strings.HasSuffix(x.Name, ".fc1.weight") && !strings.HasSuffix(x.Name, ".fc2.weight") {
			n += int64(len(x.Data))
		}
	}
	return n
}

// checkBytes checks that b counts all of the file once, and that the KV cache is 2 bytes times 2 times its elements.
func checkBytes(t *testing.T, b *Cost, f *gguf.File, kvElements int) {
	t.Helper()
	pages := (b.Context + 63) / 64 * 64
	if got, want := b.Model.Bytes()+b.Rest, weights(f, b.Mode)+int64(4*kvElements*pages*b.Layers); got != want {
		t.Errorf("%s: %d bytes, want %d", f.Path, got, want)
	}
}

func TestDemo(t *testing.T) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	o := law()
	o.Sparse, o.Context = model.Off, 65
	b := of(t, f, o)
	checkBytes(t, &b, f, c.KVHeads*c.HeadDim)
	if b.Mode != model.Off || b.Active != 1 || b.Model.Layers[0].Units.Always != b.Model.Layers[0].Units.Size || len(b.Assumed) != 0 {
		t.Errorf("%+v", b)
	}
	head := f.Tensor("output.weight")
	if head == nil {
		head = f.Tensor("token_embd.weight")
	}
	if b.Model.Head != int64(len(head.Data))+int64(len(f.Tensor("output_norm.weight").Data)) {
		t.Errorf("a head of %d bytes", b.Model.Head)
	}
	o.Sparse, o.Context = model.Auto, 0
	if b := of(t, f, o); b.Context != c.Context || b.Mode == model.Off || b.Active > 0.6 {
		t.Errorf("%d tokens, mode %s, %g active", b.Context, b.Mode, b.Active)
	}
}

func synthetic(t *testing.T, s synth.Spec) *gguf.File {
	t.Helper()
	s.Layers, s.Embd, s.FF, s.Heads, s.KVHeads = 2, 64, 256, 4, 2
	if s.Arch == "opt" {
		s.KVHeads = 4
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
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

// Every family, plain and with the original's predictors: the bytes are the file's, and the law is said to be assumed.
func TestFamilies(t *testing.T) {
	for _, s := range []synth.Spec{
		{Arch: "llama", Type: quant.F16},
		{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"},
		{Arch: "bamboo", Type: quant.F16},
		{Arch: "falcon", Type: quant.F16, Activation: "relu"},
		{Arch: "opt", Type: quant.Q8_0},
		{Arch: "opt", Type: quant.F16, Magic: "PWRI"},
		{Arch: "qwen3", Type: quant.F16},
	} {
		f := synthetic(t, s)
		b := of(t, f, law())
		kv := 2 * 16
		if s.Arch == "opt" {
			kv = 4 * 16
		}
		checkBytes(t, &b, f, kv)
		want := model.Exact
		if s.Magic == "PWRI" {
			want = model.Predict
		}
		predictor := b.Model.Layers[1].Predictor
		if b.Mode != want || (predictor > 0) != (s.Magic == "PWRI") || len(b.Assumed) == 0 || !strings.HasPrefix(b.Assumed[0], "The file holds no frequencies") {
			t.Errorf("%s: mode %s, predictors of %d bytes, %q", s.Arch, b.Mode, predictor, b.Assumed)
		}
		if got := b.Active; math.Abs(got-0.1) > 0.001 {
			t.Errorf("%s: %g active", s.Arch, got)
		}
		if b.RowBytes != s.Type.RowBytes(64) || b.Type != s.Type.String() {
			t.Errorf("%s: rows of %d bytes of %s", s.Arch, b.RowBytes, b.Type)
		}
	}
}

// TestExperts: a layer's experts are its units. All are in memory, and a token reads those that it uses.
func TestExperts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	s := synth.Spec{Arch: "qwen2moe", Layers: 2, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Type: quant.F16, Experts: 8, Used: 3, Activation: "silu"}
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	b := of(t, f, law())
	checkBytes(t, &b, f, 2*16)
	const expert = 3 * 96 * 64 * 2
	u := b.Model.Layers[1].Units
	read := 0.0
	for _, n := range u.Sometimes {
		read += n
	}
	if u.Size != expert || len(u.Sometimes) != 8 || u.Always != 0 || math.Abs(read-3*expert) > 1 {
		t.Errorf("%d units of %d bytes, of which a token reads %g and always %d; want 8 of %d, of which it reads 3", len(u.Sometimes), u.Size, read, u.Always, expert)
	}
	if dense := b.Model.Dense().Layers[1].Units; !slices.Equal(dense.Sometimes, u.Sometimes) {
		t.Errorf("without sparsity a token reads %v of the experts, and with it %v", dense.Sometimes, u.Sometimes)
	}
}

// TestExpertsOnly: nothing is assumed about the neurons of a model that has only experts, whatever its activation:
// experts are priced whole.
func TestExpertsOnly(t *testing.T) {
	s := synth.Spec{Arch: "llama", Layers: 2, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Type: quant.F16, Experts: 8, Used: 2, Activation: "relu"}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	b := of(t, open(t, path), law())
	if b.Mode != model.Exact || b.ExpertsUsed != 2 || b.Active != 1 || !b.Model.Layers[0].Experts {
		t.Errorf("mode %s, %d experts used, %g of the neurons active, experts: %t", b.Mode, b.ExpertsUsed, b.Active, b.Model.Layers[0].Experts)
	}
	if len(b.Assumed) != 1 || !strings.Contains(b.Assumed[0], "experts") {
		t.Errorf("assumed: %q", b.Assumed)
	}
}

// A prepared file's own frequencies, modes, always-on neurons and precision are planned with; predictors of layers that
// do not use them are not there.
func TestPrepared(t *testing.T) {
	src := synthetic(t, synth.Spec{Arch: "llama", Type: quant.F16})
	text := prepared.Text{SHA256: strings.Repeat("0", 64), Tokens: 1000}
	info := prepared.Info{Activation: "relu", Input: prepared.Normed, Calibration: text, HeldOut: text, Quality: &prepared.Quality{PerplexityDense: 2, PerplexityPredict: 2}}
	frequency := make([]float32, 256)
	for i := range frequency {
		frequency[i] = 0.5 / float32(i/32+1)
	}
	layer := prepared.Layer{Frequency: frequency, Mode: prepared.Predict, Rank: 32, AlwaysOn: 16, Recall: 1, Found: 1, Precision: 0.75, Accuracy: 1}
	exact := prepared.Layer{Frequency: frequency, Mode: prepared.Exact, Recall: 1, Found: 1, Precision: 1, Accuracy: 1}
	info.Layers = []prepared.Layer{layer, exact}
	p := prepared.Plan{Info: info, PredictorType: quant.F16, Predictors: []prepared.Predictor{{Rank: 32, FC1: make([]float32, 32*64), FC2: make([]float32, 240*32)}, {}}}
	path := filepath.Join(t.TempDir(), "prepared.gguf")
	if err := prepared.Write(t.Context(), path, src, p, nil); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	b := of(t, f, law())
	checkBytes(t, &b, f, 2*16)
	const row = 2 * 64
	first, second := b.Model.Layers[0], b.Model.Layers[1]
	if b.Mode != model.Predict || len(b.Assumed) != 0 || first.Predictor != 2*(32*64+240*32) || second.Predictor != 0 {
		t.Errorf("mode %s, %q, predictors of %d and %d bytes", b.Mode, b.Assumed, first.Predictor, second.Predictor)
	}
	if u := first.Units; u.Always != 0 || !near(u.Sometimes[0], row*(1+0.5*2)) || !near(u.Sometimes[20], row*(0.5/0.75+0.5*2)) {
		t.Errorf("predicted: %d, %g, %g", u.Always, u.Sometimes[0], u.Sometimes[20])
	}
	if u := second.Units; u.Always != row || !near(u.Sometimes[40], row*0.25*2) {
		t.Errorf("exact: %d, %g", u.Always, u.Sometimes[40])
	}
	// Exact on demand leaves the predictor in the file.
	o := law()
	o.Sparse = model.Exact
	if b := of(t, f, o); b.Model.Layers[0].Predictor != 0 || b.Model.Layers[0].Units.Always != row {
		t.Errorf("%+v", b.Model.Layers[0])
	}
}

// TestStats: plans use a profile's counts if the file has none, hottest first.
func TestStats(t *testing.T) {
	f := synthetic(t, synth.Spec{Arch: "llama", Type: quant.F16})
	s := neuron.New(2, 256)
	s.Tokens = 100
	s.Layers[0][7], s.Layers[0][9] = 40, 80
	o := law()
	o.Stats = s
	b := of(t, f, o)
	if u := b.Model.Layers[0].Units.Sometimes; !near(u[0], 0.8*256) || !near(u[1], 0.4*256) || u[2] != 0 || len(b.Assumed) != 0 {
		t.Errorf("%v, %q", u[:3], b.Assumed)
	}
	for want, other := range map[string]*neuron.Stats{"statistics of 3 layers do not belong to": neuron.New(3, 256), "layer 0: 255 frequencies for 256 neurons": neuron.New(2, 255)} {
		o.Stats = other
		if _, err := Of(f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Published parameter counts of the shapes' models, in billions; embeddings and head included.
func TestShapes(t *testing.T) {
	for name, want := range map[string]float64{
		"llama-7b": 6.74, "llama-13b": 13.02, "llama-65b": 65.29, "llama-70b": 68.98, "bamboo-7b": 7.24, "falcon-40b": 41.8,
		"opt-13b": 12.85, "opt-30b": 29.97, "opt-66b": 65.7, "opt-175b": 174.6,
	} {
		s, err := Describe(name + ",mode=off,type=f16")
		if err != nil {
			t.Fatal(err)
		}
		b := s.Cost(0, 0)
		if got := float64(b.Model.Bytes()+b.Rest) / 2e9; math.Abs(got/want-1) > 0.005 {
			t.Errorf("%s has %.2f billion weights, want %.2f", name, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	s, err := Describe("llama-7b, type=Q4_0,layers=3,active=0.2,mode=exact,share80=0.5,precision=0.9")
	if err != nil {
		t.Fatal(err)
	}
	b := s.Cost(100, 0)
	u := b.Model.Layers[2].Units
	if len(b.Model.Layers) != 3 || b.Mode != model.Exact || u.Size != 3*2304 || u.Always != 2304 || math.Abs(b.Active-0.2) > 1e-3 || b.Model.Layers[0].Predictor != 0 {
		t.Errorf("%+v", b)
	}
	if b.Model.Layers[0].KV != 4*4096*128 || b.Model.Check() != nil {
		t.Errorf("%d bytes of keys and values", b.Model.Layers[0].KV)
	}
	s, _ = Describe("opt-30b")
	b = s.Cost(64, 0)
	y := b.Model.Layers[0]
	if share := float64(y.Predictor) / float64(y.Bytes()-y.KV-y.Predictor); math.Abs(share-paperPredictor) > 1e-6 || b.Rest != 0 {
		t.Errorf("predictors of %g of the weights, %d bytes in RAM", share, b.Rest)
	}
	for want, text := range map[string]string{
		"none of llama-7b, ":               "x",
		"is not KEY=VALUE":                 "llama-7b,type",
		"mode=auto":                        "llama-7b,mode=auto",
		"do not divide each other":         "llama-7b,heads=33",
		"precision=0 in":                   "llama-7b,precision=0",
		"NaN of the neurons active":        "llama-7b,active=nan",
		"made by 0 of them":                "llama-7b,share80=0",
		"layers=99999 in the description ": "llama-7b,layers=99999",
	} {
		if _, err := Describe(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
