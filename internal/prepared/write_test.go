package prepared

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// Sizes of the test models: n_embd is not a multiple of the band, so that the last one is short.
const (
	testEmbd, testFF, testLayers, testRank = 48, 64, 3, 32
)

// fixture is a model in the making: its tensors by name, and what Write makes of them.
type fixture struct {
	rng     *rand.Rand
	arch    string
	embd    int
	types   map[string]quant.Type
	shapes  map[string][]int
	values  map[string][]float32 // as they are stored, decoded
	sources []gguf.Source
}

func newFixture(t *testing.T, arch string, embd int) *fixture {
	t.Helper()
	return &fixture{
		rng: testenv.Rand(t), arch: arch, embd: embd,
		types: map[string]quant.Type{}, shapes: map[string][]int{}, values: map[string][]float32{},
	}
}

// largest is the greatest magnitude of a weight, on which depends by how much storing it again may change it.
const largest = 5

func (x *fixture) add(name string, typ quant.Type, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(max(-largest, min(largest, x.rng.NormFloat64())))
	}
	b := make([]byte, typ.RowBytes(n))
	quant.Encode(typ, b, v)
	quant.Decode(typ, v, b)
	x.types[name], x.shapes[name], x.values[name] = typ, shape, v
	x.sources = append(x.sources, gguf.Source{Name: name, Type: typ, Shape: shape, Write: func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}})
}

// layers adds feed-forward layers of the given types; biases are opt's.
func (x *fixture) layers(gate, up, down quant.Type) {
	x.add("token_embd.weight", quant.F16, x.embd, 40)
	for l := range testLayers {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
		x.add(name("attn_q.weight"), quant.F16, x.embd, x.embd)
		x.add(name("ffn_norm.weight"), quant.F32, x.embd)
		x.add(name("ffn_down.weight"), down, testFF, x.embd)
		if x.arch != "opt" {
			x.add(name("ffn_gate.weight"), gate, x.embd, testFF)
		} else {
			x.add(name("ffn_up.bias"), quant.F32, testFF)
			x.add(name("ffn_down.bias"), quant.F32, x.embd)
		}
		x.add(name("ffn_up.weight"), up, x.embd, testFF)
	}
}

// keys returns the model's.
func (x *fixture) keys() []gguf.KV {
	return []gguf.KV{
		{Key: "general.architecture", Value: x.arch},
		{Key: "powerinfer.activation", Value: "silu"}, // the plan's comes in its place
		{Key: "general.name", Value: "a model"},
		{Key: x.arch + ".block_count", Value: uint32(testLayers)},
		{Key: x.arch + ".embedding_length", Value: uint32(x.embd)},
		{Key: x.arch + ".feed_forward_length", Value: uint32(testFF)},
	}
}

func (x *fixture) save(t *testing.T) *gguf.File {
	t.Helper()
	return create(t, "GGUF", x.keys(), x.sources)
}

func create(t *testing.T, magic string, keys []gguf.KV, tensors []gguf.Source) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := gguf.Create(t.Context(), path, magic, keys, tensors, nil); err != nil {
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

// plan has random orders and predictors; the last layer runs exact.
func (x *fixture) plan(typ quant.Type) Plan {
	p := Plan{
		Info:          Info{Activation: "relu", Input: Normed, Calibration: Text{hash, 1000}},
		PredictorType: typ,
	}
	for l := range testLayers {
		order := make([]int32, testFF)
		for i, v := range x.rng.Perm(testFF) {
			order[i] = int32(v)
		}
		p.Order = append(p.Order, order)
		y := Layer{Frequency: make([]float32, testFF), Mode: Predict, Rank: (l + 1) * testRank, AlwaysOn: l}
		for i := range y.Frequency {
			y.Frequency[i] = 1 / float32(i+1)
		}
		if l == testLayers-1 {
			y.Mode, y.Rank, y.AlwaysOn = Exact, 0, 0
		}
		p.Info.Layers = append(p.Info.Layers, y)
		q := Predictor{Rank: y.Rank}
		if y.Mode == Predict {
			q.FC1 = x.random(y.Rank * x.embd)
			q.FC2 = x.random((testFF - y.AlwaysOn) * y.Rank)
		}
		p.Predictors = append(p.Predictors, q)
	}
	return p
}

func (x *fixture) random(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(x.rng.NormFloat64())
	}
	return v
}

// decoded returns a tensor's values; its type must be typ and its shape as given.
func decoded(t *testing.T, f *gguf.File, name string, typ quant.Type, shape ...int) []float32 {
	t.Helper()
	x := f.Tensor(name)
	if x == nil {
		t.Fatalf("no tensor %s", name)
	}
	if x.Type != typ || !slices.Equal(x.Shape, shape) {
		t.Fatalf("%s is %s %v, want %s %v", name, x.Type, x.Shape, typ, shape)
	}
	out := make([]float32, x.Elems())
	quant.Decode(x.Type, out, x.Data)
	return out
}

// Neuron i of the new file is neuron Order[i] of the old one in every tensor, bit for bit in float types.
func TestWriteMovesNeurons(t *testing.T) {
	// Largest difference that storing a weight again may make: half a step of the type, of Q4_0, which has no +8, a
	// whole one.
	steps := map[quant.Type]float32{quant.Q8_0: largest / 127.0 / 2 * 1.01, quant.Q4_0: largest / 8.0 * 1.01, quant.F16: largest / 2048.0}
	cases := []struct {
		arch           string
		embd           int
		gate, up, down quant.Type
		downT, fc      quant.Type
	}{
		{"llama", testEmbd, quant.F32, quant.F32, quant.F32, quant.F32, quant.F32},
		{"llama", testEmbd, quant.F16, quant.BF16, quant.F16, quant.F16, quant.F16},
		{"llama", testEmbd, quant.F16, quant.F16, quant.BF16, quant.BF16, quant.BF16},
		{"llama", testEmbd, quant.F16, quant.F16, quant.Q8_0, quant.F16, quant.F16},
		{"llama", 64, quant.Q4_0, quant.Q8_0, quant.Q8_0, quant.Q8_0, quant.Q8_0},
		{"llama", 64, quant.Q4_0, quant.Q4_0, quant.Q4_0, quant.Q4_0, quant.Q4_0},
		{"opt", testEmbd, quant.F16, quant.F16, quant.F16, quant.F16, quant.F16},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s %d %s %s %s", c.arch, c.embd, c.gate, c.up, c.down), func(t *testing.T) {
			x := newFixture(t, c.arch, c.embd)
			x.layers(c.gate, c.up, c.down)
			p := x.plan(c.fc)
			path := filepath.Join(t.TempDir(), "p.gguf")
			var told int64
			if err := Write(t.Context(), path, x.save(t), p, func(done, _ int64) { told = done }); err != nil {
				t.Fatal(err)
			}
			f := open(t, path)
			info, ok, err := Read(f)
			if err != nil || !ok || info.Layers[1].Rank != 2*testRank || f.Magic != "GGUF" {
				t.Fatalf("%v %v %+v", ok, err, info)
			}
			if v, _, _ := f.String("general.name"); v != "a model" {
				t.Errorf("general.name is %q", v)
			}
			var size int64
			for _, tensor := range f.Tensors {
				size += int64(len(tensor.Data))
			}
			if told != size {
				t.Errorf("progress ended at %d of %d bytes", told, size)
			}
			if !slices.Equal(decoded(t, f, "token_embd.weight", quant.F16, c.embd, 40), x.values["token_embd.weight"]) {
				t.Error("the embedding changed")
			}
			for l := range testLayers {
				tol := float32(0)
				if c.down.BlockElems() > 1 {
					tol = steps[c.downT]
				}
				x.expectLayer(t, f, p, l, c.downT, tol)
			}
		})
	}
}

// expectLayer compares layer l of f with the fixture's, neuron by neuron.
func (x *fixture) expectLayer(t *testing.T, f *gguf.File, p Plan, l int, downT quant.Type, tol float32) {
	t.Helper()
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
	for _, s := range []string{"ffn_gate.weight", "ffn_up.weight", "ffn_up.bias"} {
		old, ok := x.values[name(s)]
		if !ok {
			continue
		}
		got := decoded(t, f, name(s), x.types[name(s)], x.shapes[name(s)]...)
		n := len(old) / testFF
		for i, from := range p.Order[l] {
			if !slices.Equal(got[i*n:][:n], old[int(from)*n:][:n]) {
				t.Errorf("%s: neuron %d is not the old %d", name(s), i, from)
				break
			}
		}
	}
	old, got := x.values[name("ffn_down.weight")], decoded(t, f, name("ffn_down_t.weight"), downT, x.embd, testFF)
	for i, from := range p.Order[l] {
		for e := range x.embd {
			if d := got[i*x.embd+e] - old[e*testFF+int(from)]; d > tol || d < -tol {
				t.Fatalf("%s: neuron %d element %d: %g, old neuron %d has %g", name("ffn_down_t"), i, e, got[i*x.embd+e], from, old[e*testFF+int(from)])
			}
		}
	}
	if f.Tensor(name("ffn_down.weight")) != nil || f.Tensor(name("ffn_down.bias")) != nil {
		t.Error("the down projection by output is still there")
	}
	if old, ok := x.values[name("ffn_down.bias")]; ok && !slices.Equal(decoded(t, f, name("ffn_down_t.bias"), quant.F32, x.embd), old) {
		t.Error("the bias changed")
	}
	x.expectPredictor(t, f, p, l)
}

func (x *fixture) expectPredictor(t *testing.T, f *gguf.File, p Plan, l int) {
	t.Helper()
	fc1, fc2 := fmt.Sprintf("blk.%d.fc1.weight", l), fmt.Sprintf("blk.%d.fc2.weight", l)
	q, y := p.Predictors[l], p.Info.Layers[l]
	if y.Mode == Exact {
		if f.Tensor(fc1) != nil || f.Tensor(fc2) != nil {
			t.Errorf("layer %d runs exact and has a predictor", l)
		}
		return
	}
	for _, c := range []struct {
		name  string
		cols  int
		value []float32
	}{{fc1, x.embd, q.FC1}, {fc2, q.Rank, q.FC2}} {
		want := slices.Clone(c.value)
		b := make([]byte, p.PredictorType.RowBytes(len(want)))
		quant.Encode(p.PredictorType, b, want)
		quant.Decode(p.PredictorType, want, b)
		if !slices.Equal(decoded(t, f, c.name, p.PredictorType, c.cols, len(want)/c.cols), want) {
			t.Errorf("%s is not the plan's", c.name)
		}
	}
}

// A prepared file can be prepared again, without an order or with another.
func TestWriteAgain(t *testing.T) {
	x := newFixture(t, "llama", testEmbd)
	x.layers(quant.F16, quant.F16, quant.F16)
	p := x.plan(quant.F16)
	dir := t.TempDir()
	first, same, back := filepath.Join(dir, "1.gguf"), filepath.Join(dir, "2.gguf"), filepath.Join(dir, "3.gguf")
	if err := Write(t.Context(), first, x.save(t), p, nil); err != nil {
		t.Fatal(err)
	}
	order := p.Order
	p.Order = nil
	if err := Write(t.Context(), same, open(t, first), p, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(bytesOf(t, first), bytesOf(t, same)) {
		t.Error("written again as it was, the file changed")
	}
	p.Order = order.Inverse()
	if err := Write(t.Context(), back, open(t, first), p, nil); err != nil {
		t.Fatal(err)
	}
	p.Order = neuron.Order{identity(testFF), identity(testFF), identity(testFF)}
	for l := range testLayers {
		x.expectLayer(t, open(t, back), p, l, quant.F16, 0)
	}
}

func bytesOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Plans and models that do not fit each other are one line, and no file appears.
func TestHostilePlans(t *testing.T) {
	nan := float32(math.NaN())
	cases := map[string]struct {
		damage func(x *fixture, p *Plan)
		want   string
	}{
		"other depth":           {func(_ *fixture, p *Plan) { p.Info.Layers = p.Info.Layers[1:] }, "keys of 2 layers for a model of 3"},
		"bad keys":              {func(_ *fixture, p *Plan) { p.Info.Input = "" }, `"" is neither residual nor normed`},
		"order of two layers":   {func(_ *fixture, p *Plan) { p.Order = p.Order[:2] }, "an order of 2 layers for a model of 3"},
		"short order":           {func(_ *fixture, p *Plan) { p.Order[1] = p.Order[1][1:] }, "layer 1: an order of 63 neurons for a layer of 64"},
		"no permutation":        {func(_ *fixture, p *Plan) { p.Order[2][5] = p.Order[2][6] }, "layer 2: the order names neuron"},
		"order beyond layer":    {func(_ *fixture, p *Plan) { p.Order[0][0] = testFF }, "names neuron 64 of 64"},
		"negative order":        {func(_ *fixture, p *Plan) { p.Order[0][0] = -1 }, "names neuron -1 of 64"},
		"too few predictors":    {func(_ *fixture, p *Plan) { p.Predictors = nil }, "0 predictors for 3 layers"},
		"predictor in exact":    {func(_ *fixture, p *Plan) { p.Predictors[2] = p.Predictors[0] }, "layer 2: a predictor for a layer that runs exact"},
		"no predictor":          {func(_ *fixture, p *Plan) { p.Predictors[0] = Predictor{} }, "layer 0: a predictor of rank 0 where the keys say 32"},
		"other rank":            {func(_ *fixture, p *Plan) { p.Predictors[0].Rank = 64 }, "a predictor of rank 64 where the keys say 32"},
		"short fc1":             {func(_ *fixture, p *Plan) { p.Predictors[0].FC1 = p.Predictors[0].FC1[1:] }, "a predictor of 1535 and 2048 weights"},
		"fc2 of all neurons":    {func(x *fixture, p *Plan) { p.Predictors[1].FC2 = x.random(testFF * 64) }, "64, width 48 and 63 predicted neurons"},
		"predictor not finite":  {func(_ *fixture, p *Plan) { p.Predictors[1].FC2[7] = nan }, "layer 1: predictor: a weight of NaN"},
		"predictor beyond F16":  {func(_ *fixture, p *Plan) { p.Predictors[1].FC1[7] = 1e5 }, "a weight of 100000 cannot be stored as F16"},
		"predictor type":        {func(_ *fixture, p *Plan) { p.PredictorType = quant.Q4_K }, "predictors of type Q4_K are not written"},
		"width and type":        {func(_ *fixture, p *Plan) { p.PredictorType = quant.Q8_0 }, "need a width that is a multiple of 32, not 48"},
		"no up":                 {func(x *fixture, _ *Plan) { x.rename("blk.1.ffn_up.weight", "blk.1.ffn_up_exps.weight") }, `"blk.1.ffn_up.weight" is missing; only dense`},
		"no down":               {func(x *fixture, _ *Plan) { x.rename("blk.1.ffn_down.weight", "x") }, `"blk.1.ffn_down.weight" is missing`},
		"two downs":             {func(x *fixture, _ *Plan) { x.add("blk.1.ffn_down_t.weight", quant.F16, testEmbd, testFF) }, "exclude each other"},
		"misshapen gate":        {func(x *fixture, _ *Plan) { x.reshape("blk.1.ffn_gate.weight", testFF, testEmbd) }, `"blk.1.ffn_gate.weight" has shape [64 48], not [48 64]`},
		"misshapen down":        {func(x *fixture, _ *Plan) { x.reshape("blk.1.ffn_down.weight", testEmbd, testFF) }, `"blk.1.ffn_down.weight" has shape [48 64], not [64 48]`},
		"misshapen bias":        {func(x *fixture, _ *Plan) { x.add("blk.1.ffn_up.bias", quant.F32, testFF-1) }, `"blk.1.ffn_up.bias" has shape [63], not [64]`},
		"quantised bias":        {func(x *fixture, _ *Plan) { x.add("blk.1.ffn_up.bias", quant.Q8_0, testFF) }, "a vector of type Q8_0"},
		"down is not finite":    {func(x *fixture, _ *Plan) { x.poison("blk.1.ffn_down.weight") }, `tensor "blk.1.ffn_down_t.weight": a weight of NaN cannot be stored`},
		"width beyond reason":   {func(x *fixture, _ *Plan) { x.embd = 1 << 40 }, "is outside 1…"},
		"activation of nothing": {func(_ *fixture, p *Plan) { p.Info.Activation = "silu" }, `"silu" leaves no neuron at zero`},
	}
	for name, c := range cases {
		x := newFixture(t, "llama", testEmbd)
		x.layers(quant.F16, quant.F16, quant.F16)
		p := x.plan(quant.F16)
		c.damage(x, &p)
		path := filepath.Join(t.TempDir(), "p.gguf")
		err := Write(t.Context(), path, x.save(t), p, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file was written", name)
		}
	}
}

func (x *fixture) source(name string) *gguf.Source {
	return &x.sources[slices.IndexFunc(x.sources, func(s gguf.Source) bool { return s.Name == name })]
}

func (x *fixture) rename(name, to string) { x.source(name).Name = to }

func (x *fixture) reshape(name string, shape ...int) { x.source(name).Shape = shape }

// poison makes a tensor of F16 all NaN.
func (x *fixture) poison(name string) {
	n := 2 * len(x.values[name])
	x.source(name).Write = func(w io.Writer) error {
		_, err := w.Write([]byte(strings.Repeat("\xff", n)))
		return err
	}
}

func TestSetInfo(t *testing.T) {
	x := newFixture(t, "llama", testEmbd)
	x.layers(quant.F16, quant.F16, quant.F16)
	p := x.plan(quant.F16)
	dir := t.TempDir()
	path, direct := filepath.Join(dir, "p.gguf"), filepath.Join(dir, "direct.gguf")
	if err := Write(t.Context(), path, x.save(t), p, nil); err != nil {
		t.Fatal(err)
	}
	p.Info.HeldOut = Text{hash, 77}
	p.Info.Quality = &Quality{0.003, 9, 9.01}
	for l := range p.Info.Layers {
		p.Info.Layers[l].Recall = 0.99
	}
	if err := Write(t.Context(), direct, x.save(t), p, nil); err != nil {
		t.Fatal(err)
	}
	const mode = 0o640
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	if err := SetInfo(t.Context(), path, p.Info, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(bytesOf(t, path), bytesOf(t, direct)) {
		t.Error("keys set afterwards make another file than keys written with it")
	}
	if s, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && s.Mode() != mode {
		t.Errorf("the file's mode is %v, %v; it was %v", s.Mode(), err, os.FileMode(mode))
	}
	before := bytesOf(t, path)
	for name, damage := range map[string]func(*Info){
		"the new keys do not describe": func(i *Info) { i.Layers[0].Rank = 96 },
		"keys of 2 layers":             func(i *Info) { i.Layers = i.Layers[:2] },
		"is not a divergence":          func(i *Info) { i.Quality = &Quality{-1, 9, 9} },
	} {
		i := p.Info
		i.Layers = slices.Clone(i.Layers)
		damage(&i)
		if err := SetInfo(t.Context(), path, i, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	plain := x.save(t)
	if err := SetInfo(t.Context(), plain.Path, p.Info, nil); err == nil || !strings.Contains(err.Error(), "is not a prepared file") {
		t.Errorf("a plain file: %v", err)
	}
	if !slices.Equal(bytesOf(t, path), before) {
		t.Error("a refused change changed the file")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("left behind: %q", left)
	}
}
