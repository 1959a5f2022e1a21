package engine_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// adapterTolerance is of logarithms of probabilities: floats are summed in another order, and keys and values are
// rounded to F16.
const adapterTolerance = 2e-2

// adaptedSpec is a small model in F32 with feed-forward layers without zeros.
func adaptedSpec() synth.Spec {
	return synth.Spec{Arch: "llama", Layers: 2, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Vocab: 512, Activation: "silu", Type: quant.F32, Seed: 7}
}

// lora is a random adapter and the changes that it makes to matrices.
type lora struct {
	path    string
	changes map[string][]float32 // changes of tensors, at the scale 1
}

// newLora makes an adapter of the given rank and alpha for f's tensors of these names.
func newLora(t *testing.T, f *gguf.File, seed uint64, rank int, alpha float32, names ...string) lora {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	l := lora{filepath.Join(t.TempDir(), fmt.Sprintf("adapter-%d.gguf", seed)), map[string][]float32{}}
	var tensors []gguf.Source
	add := func(name string, cols, rows int) []float32 {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64()) / float32(math.Sqrt(float64(cols)))
		}
		tensors = append(tensors, gguf.Source{Name: name, Type: quant.F32, Shape: []int{cols, rows}, Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, x) }})
		return x
	}
	for _, name := range names {
		w := f.Tensor(name)
		cols, rows := w.Shape[0], w.Rows()
		a, b := add(name+".lora_a", cols, rank), add(name+".lora_b", rank, rows)
		change := make([]float32, rows*cols)
		for r := range rows {
			for c := range cols {
				sum := 0.0
				for k := range rank {
					sum += float64(b[r*rank+k]) * float64(a[k*cols+c])
				}
				change[r*cols+c] = float32(sum * float64(alpha) / float64(rank))
			}
		}
		l.changes[name] = change
	}
	keys := []gguf.KV{{Key: "general.type", Value: "adapter"}, {Key: "general.architecture", Value: "llama"}, {Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: alpha}}
	if err := gguf.Create(t.Context(), l.path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l lora) adapter(t *testing.T, scale float32) model.Adapter {
	t.Helper()
	f, err := gguf.Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return model.Adapter{File: f, Scale: scale}
}

// merge adds scale times l's changes to the weights of f, an F32 file.
func (l lora) merge(f *gguf.File, scale float32) {
	for name, change := range l.changes {
		data := f.Tensor(name).Data
		for i, c := range change {
			w := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(w+scale*c))
		}
	}
}

// everyMatrix names tensors of all kinds that adapters can change.
func everyMatrix() []string {
	list := []string{"output.weight"}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
		list = append(list, "blk.0."+name+".weight", "blk.1."+name+".weight")
	}
	return list
}

func adapterPrompt() []int32 { return []int32{1, 17, 300, 42, 5, 99, 256, 401, 7, 8, 200} }

func openAdapted(t *testing.T, f *gguf.File, adapters ...model.Adapter) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, Sequences: 4}, Adapters: adapters})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func sameSurprises(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > adapterTolerance {
			t.Fatalf("%s: token %d has the logarithm %g, in the merged model %g", what, i, got[i], want[i])
		}
	}
}

// TestAdapter: a model with adapters equals the model into which they are merged, on the CPU and on a GPU, whole and
// split. The scales can change while the model is open.
func TestAdapter(t *testing.T) {
	base := synthtest.File(t, adaptedSpec())
	one := newLora(t, base, 1, 5, 8, everyMatrix()...)
	two := newLora(t, base, 2, 40, 20, "blk.0.attn_q.weight", "blk.1.ffn_down.weight")
	merged := func(a, b float32) []float64 {
		f := synthtest.File(t, adaptedSpec())
		one.merge(f, a)
		two.merge(f, b)
		return surprises(t, openAdapted(t, f), adapterPrompt())
	}
	plain, want := merged(0, 0), merged(1, -0.5)
	distance := 0.0
	for i := range plain {
		distance = max(distance, math.Abs(plain[i]-want[i]))
	}
	if distance < 10*adapterTolerance {
		t.Fatalf("the adapters change nothing: %g", distance)
	}
	e := openAdapted(t, base, one.adapter(t, 1), two.adapter(t, -0.5))
	sameSurprises(t, "on the processor", surprises(t, e, adapterPrompt()), want)
	if err := e.SetScales([]float32{0, 0}); err != nil {
		t.Fatal(err)
	}
	if got := surprises(t, e, adapterPrompt()); !slices.Equal(got, plain) {
		t.Error("with the scales 0 the model is not the plain one")
	}
	if err := e.SetScales([]float32{2, 1}); err != nil {
		t.Fatal(err)
	}
	sameSurprises(t, "with other scales", surprises(t, e, adapterPrompt()), merged(2, 1))
	if testenv.Quick(t) {
		return
	}
	for _, hot := range []int{96, 32} { // whole, and split
		g := openGPU(t, base, engine.Options{Limits: engine.Limits{Context: 128}, Adapters: []model.Adapter{one.adapter(t, 1), two.adapter(t, -0.5)}}, gigabyte(share(2, hot)))
		sameSurprises(t, fmt.Sprintf("%d neurons on a GPU", hot), surprises(t, g.Engine, adapterPrompt()), want)
		if err := g.SetScales([]float32{2, 1}); err != nil {
			t.Fatal(err)
		}
		sameSurprises(t, "with other scales on a GPU", surprises(t, g.Engine, adapterPrompt()), merged(2, 1))
	}
}

// TestAdapterOfZeros: adapters change which neurons are zero, and each tier skips those that are zero with them.
func TestAdapterOfZeros(t *testing.T) {
	testenv.Thorough(t)
	spec := adaptedSpec()
	spec.Activation, spec.Sparsity = "relu", 0.7
	base, merged := synthtest.File(t, spec), synthtest.File(t, spec)
	l := newLora(t, base, 5, 6, 9, "blk.0.ffn_gate.weight", "blk.0.ffn_down.weight", "blk.1.ffn_up.weight", "blk.1.ffn_gate.weight", "blk.1.ffn_down.weight")
	l.merge(merged, 1)
	want := surprises(t, openAdapted(t, merged), adapterPrompt())
	o := engine.Options{Limits: engine.Limits{Context: 128}, Neurons: engine.Neurons{Sparse: model.Exact}, Adapters: []model.Adapter{l.adapter(t, 1)}}
	for _, hot := range []int{32} {
		g := openGPU(t, base, o, gigabyte(share(2, hot)))
		sameSurprises(t, fmt.Sprintf("%d neurons on a GPU", hot), surprises(t, g.Engine, adapterPrompt()), want)
	}
}

// TestAdapterScalesOfRequests: concurrent requests with different adapter scales give the same text as each alone.
func TestAdapterScalesOfRequests(t *testing.T) {
	base := synthtest.File(t, adaptedSpec())
	l := newLora(t, base, 3, 8, 16, everyMatrix()...)
	e := openAdapted(t, base, l.adapter(t, 1))
	generate := func(e *engine.Engine, scales []float32) (ids []int32, err error) {
		o := sample.DefaultOptions()
		o.Temperature = 0
		s, err := sample.New(o, e.Config().Vocab)
		if err != nil {
			return nil, err
		}
		_, err = e.Generate(t.Context(), engine.Request{Prompt: adapterPrompt(), Max: 20, IgnoreEOG: true, Sampler: s, Scales: scales, Reuse: engine.ReuseAny}, func(tok engine.Token) bool {
			ids = append(ids, tok.ID)
			return true
		})
		return ids, err
	}
	all := [][]float32{nil, {0}, {1}, {3}, {-2}, {0}, {3}}
	var want [][]int32
	for _, scales := range all {
		ids, err := generate(e, scales)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ids)
	}
	if !slices.Equal(want[0], want[2]) || slices.Equal(want[0], want[1]) {
		t.Error("a request without scales has not the engine's, or scales change nothing")
	}
	plain, err := generate(openAdapted(t, synthtest.File(t, adaptedSpec())), nil)
	if err != nil || !slices.Equal(plain, want[1]) {
		t.Errorf("with the scale 0 %v comes, without adapters %v: %v", want[1], plain, err)
	}
	var wait sync.WaitGroup
	for i, scales := range all {
		wait.Go(func() {
			if got, err := generate(e, scales); err != nil || !slices.Equal(got, want[i]) {
				t.Errorf("scales %v: %v among others, %v alone: %v", scales, got, want[i], err)
			}
		})
	}
	wait.Wait()
	if _, err := generate(e, []float32{1, 2}); err == nil || !strings.Contains(err.Error(), "2 scales for 1 adapters") {
		t.Errorf("too many scales: %v", err)
	}
}

// TestAdapterRefused: an adapter that does not fit is refused in a sentence that names file and tensor.
func TestAdapterRefused(t *testing.T) {
	base := synthtest.File(t, adaptedSpec())
	spec := adaptedSpec()
	spec.Embd, spec.Heads = 96, 6
	wide := synthtest.File(t, spec)
	for _, c := range []struct {
		from  *gguf.File
		names []string
		want  string
	}{
		{wide, []string{"blk.0.attn_q.weight"}, `do not fit the model's "blk.0.attn_q.weight"`},
		{base, []string{"token_embd.weight"}, "adapters of the embedding are not supported"},
		{base, []string{"blk.0.attn_norm.weight"}, "the model has no matrix for blk.0.attn_norm.weight.lora_a"},
	} {
		a := newLora(t, c.from, 4, 2, 2, c.names...).adapter(t, 1)
		_, err := engine.Open(t.Context(), base, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 64}, Adapters: []model.Adapter{a}})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), a.File.Path) {
			t.Errorf("%v: %v", c.names, err)
		}
	}
	_, err := engine.Open(t.Context(), base, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 64}, Adapters: []model.Adapter{{File: base, Scale: 1}}})
	if err == nil || !strings.Contains(err.Error(), "this is no LoRA adapter") {
		t.Errorf("a model as an adapter: %v", err)
	}
}
