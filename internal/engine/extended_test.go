package engine_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// extensionTolerance is a share of the largest logit: floats are summed in another order, and keys are rotated twice.
const extensionTolerance = 1e-4

// extendedSpec is a llama in F32.
func extendedSpec() synth.Spec {
	return synth.Spec{Arch: "llama", Layers: 2, Embd: 128, FF: 96, Heads: 4, KVHeads: 2, Vocab: 512, Activation: "silu", Type: quant.F32, Seed: 7}
}

// extendedFile is a file of extendedSpec with attention that depends strongly on positions, so that the test sees a
// wrong one.
func extendedFile(t *testing.T) *gguf.File {
	f := synthtest.File(t, extendedSpec())
	for _, w := range f.Tensors {
		if !strings.HasSuffix(w.Name, "attn_q.weight") && !strings.HasSuffix(w.Name, "attn_k.weight") && !strings.HasSuffix(w.Name, "attn_output.weight") {
			continue
		}
		for i := 0; i < len(w.Data); i += 4 {
			x := math.Float32frombits(binary.LittleEndian.Uint32(w.Data[i:]))
			binary.LittleEndian.PutUint32(w.Data[i:], math.Float32bits(4*x))
		}
	}
	return f
}

// listener takes the likeliest token and keeps the logits.
type listener struct{ rows [][]float32 }

func (*listener) Accept(int32)                {}
func (*listener) Constrain(sample.Constraint) {}
func (*listener) Done() bool                  { return false }
func (*listener) Err() error                  { return nil }

func (l *listener) Sample(logits []float32) int32 {
	l.rows = append(l.rows, slices.Clone(logits))
	return int32(slices.Index(logits, slices.Max(logits)))
}

// TestExtended: an extended text's logits equal those of the definition, which rotates every key anew for every query.
// On a GPU they do, too. With keys in each type of cache they are close.
func TestExtended(t *testing.T) {
	testenv.Thorough(t)
	f := extendedFile(t)
	x := engine.Extension{Group: 3, Width: 12}
	prompt := make([]int32, 50)
	for i := range prompt {
		prompt[i] = int32((i*i*7 + 3*i + 1) % 512)
	}
	const most = 24
	options := func(keys compute.KVType) engine.Options {
		return engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 4}, Cache: engine.Cache{Extension: x, CacheTypes: compute.CacheTypes{Key: keys, Value: compute.KVF32}}}
	}
	generate := func(e *engine.Engine) ([]int32, [][]float32) {
		t.Helper()
		ids, sampler := slices.Clone(prompt), &listener{}
		if _, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: most, Sampler: sampler, IgnoreEOG: true}, func(tok engine.Token) bool {
			ids = append(ids, tok.ID)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return ids, sampler.rows
	}
	ids, rows := generate(openExtended(t, f, options(compute.KVF32)))
	want := extended{f, x, map[string][]float64{}}.logits(ids)
	for i, row := range rows {
		if d := distance(row, want[len(prompt)-1+i]); !(d < extensionTolerance) {
			t.Fatalf("the logits behind %d tokens differ by %g of the largest", len(prompt)+i, d)
		}
	}
	change := distance(rows[0], extended{f, engine.Extension{}, map[string][]float64{}}.logits(prompt)[len(prompt)-1])
	if change < 100*extensionTolerance {
		t.Errorf("positions change logits by %g of the largest only: this test proves nothing", change)
	}
	small := options(compute.KVF32)
	small.UBatch = 5
	near := func(what string, e *engine.Engine, most float64) {
		t.Helper()
		if _, got := generate(e); !(distance(got[0], rows[0]) < most) {
			t.Errorf("%s: logits differ by %g of the largest", what, distance(got[0], rows[0]))
		}
	}
	near("small steps", openExtended(t, f, small), extensionTolerance)
	for typ, share := range roundedShare() {
		near(typ.String(), openExtended(t, f, options(typ)), share*change)
	}
	for _, hot := range []int{96, 32} { // whole, and split
		near("a GPU", openGPU(t, f, options(compute.KVF32), gigabyte(share(2, hot))).Engine, extensionTolerance)
	}
}

// roundedShare returns how much keys of each type may change logits, as a share of what positions change.
func roundedShare() map[compute.KVType]float64 {
	return map[compute.KVType]float64{compute.KVF16: 0.01, compute.KVBF16: 0.1, compute.KVQ8_0: 0.1, compute.KVQ4_0: 0.7}
}

func openExtended(t *testing.T, f *gguf.File, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// distance returns the largest difference relative to the largest of want.
func distance(got, want []float32) float64 {
	most, largest := 0.0, 0.0
	for i, w := range want {
		most, largest = max(most, math.Abs(float64(got[i]-w))), max(largest, math.Abs(float64(w)))
	}
	return most / largest
}

// extended computes a llama in floats by the definition of self-extension; without x it extends nothing.
type extended struct {
	f    *gguf.File
	x    engine.Extension
	read map[string][]float64 // weights
}

// positions returns the positions of a query at token i and the key of token j ≤ i.
func (e extended) positions(i, j int) (query, key float64) {
	if e.x.Group < 2 {
		return float64(i), float64(j)
	}
	shared := i / e.x.Width * e.x.Width
	own := func(k int) float64 { return float64(shared/e.x.Group + k - shared) }
	if j < shared {
		return own(i), float64(j / e.x.Group)
	}
	return own(i), own(j)
}

// logits returns the logits after each token. [n][n_vocab]
func (e extended) logits(ids []int32) [][]float32 {
	s := extendedSpec()
	dim := s.Embd / s.Heads
	x := make([][]float64, len(ids))
	embd := e.weights("token_embd.weight")
	for i, id := range ids {
		for c := range s.Embd {
			x[i] = append(x[i], embd[int(id)*s.Embd+c])
		}
	}
	for l := range s.Layers {
		name := func(part string) string { return "blk." + string(rune('0'+l)) + "." + part + ".weight" }
		var q, k, v [][]float64
		for i := range x {
			in := e.norm(x[i], name("attn_norm"))
			q, k, v = append(q, e.times(name("attn_q"), in)), append(k, e.times(name("attn_k"), in)), append(v, e.times(name("attn_v"), in))
		}
		for i := range x {
			out := make([]float64, s.Embd)
			for h := range s.Heads {
				kv := h * s.KVHeads / s.Heads
				e.attend(out[h*dim:][:dim], i, q[i][h*dim:][:dim], func(j int) []float64 { return k[j][kv*dim:][:dim] }, func(j int) []float64 { return v[j][kv*dim:][:dim] })
			}
			add(x[i], e.times(name("attn_output"), out))
			in := e.norm(x[i], name("ffn_norm"))
			gate, up := e.times(name("ffn_gate"), in), e.times(name("ffn_up"), in)
			for n, g := range gate {
				up[n] *= g / (1 + math.Exp(-g))
			}
			add(x[i], e.times(name("ffn_down"), up))
		}
	}
	rows := make([][]float32, len(ids))
	for i := range x {
		for _, v := range e.times("output.weight", e.norm(x[i], "output_norm.weight")) {
			rows[i] = append(rows[i], float32(v))
		}
	}
	return rows
}

// attend computes a head's sum over the tokens up to i.
func (e extended) attend(out []float64, i int, q []float64, k, v func(j int) []float64) {
	sum := 0.0
	for j := range i + 1 {
		at, from := e.positions(i, j)
		weight := math.Exp(dot(turned(q, at), turned(k(j), from)) / math.Sqrt(float64(len(q))))
		sum += weight
		for c, x := range v(j) {
			out[c] += weight * x
		}
	}
	for c := range out {
		out[c] /= sum
	}
}

// turned rotates neighbouring pairs to a position.
func turned(x []float64, pos float64) []float64 {
	out := make([]float64, len(x))
	for c := 0; c < len(x); c += 2 {
		sin, cos := math.Sincos(pos * math.Pow(10000, -float64(c)/float64(len(x))))
		out[c], out[c+1] = x[c]*cos-x[c+1]*sin, x[c]*sin+x[c+1]*cos
	}
	return out
}

func (e extended) weights(name string) []float64 {
	if w, ok := e.read[name]; ok {
		return w
	}
	data := e.f.Tensor(name).Data
	w := make([]float64, len(data)/4)
	for i := range w {
		w[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	e.read[name] = w
	return w
}

func (e extended) times(name string, x []float64) (out []float64) {
	for w := e.weights(name); len(w) > 0; w = w[len(x):] {
		out = append(out, dot(w[:len(x)], x))
	}
	return out
}

func (e extended) norm(x []float64, name string) (out []float64) {
	const eps = 1e-5
	by := 1 / math.Sqrt(dot(x, x)/float64(len(x))+eps)
	for c, w := range e.weights(name) {
		out = append(out, x[c]*by*w)
	}
	return out
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func add(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}
