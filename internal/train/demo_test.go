package train

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// tap records one feed-forward layer's inputs, the residual before the norm, and its activations.
type tap struct {
	layer    int
	norms    []float32 // [n_ff] of down's columns
	document int32
	samples  Samples
}

// FeedForward is model.Observer.
func (t *tap) FeedForward(layer int, step model.FFNStep) {
	if layer != t.layer {
		return
	}
	s := &t.samples
	for i := range step.Params.Tokens {
		for _, e := range step.Residual(i) {
			s.X = append(s.X, quant.F16FromF32(e))
		}
		for j, a := range step.Activations(i) {
			if a != 0 {
				s.Active = append(s.Active, uint16(j))
				s.Mass = append(s.Mass, quant.BF16FromF32(float32(math.Abs(float64(a)))*t.norms[j]))
			}
		}
		s.Start = append(s.Start, int64(len(s.Active)))
		s.Document = append(s.Document, t.document)
	}
}

// demoLayer records one layer of the demo model on the first tokens of its corpus, and after them fresh ones.
func demoLayer(t *testing.T, layer, tokens, freshTokens int) (train, fresh *Samples, gateRow func([]float32, int) float32) {
	t.Helper()
	const window = 256
	path := filepath.Join(t.TempDir(), "tales.gguf")
	if err := convert.HuggingFace(t.Context(), demotest.HuggingFace(t), path, convert.Options{Output: convert.OutputOf(quant.F16)}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	dev, err := cpu.New(cpu.Options{Threads: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	d := &tap{layer: layer}
	m, err := model.Load(t.Context(), f, dev, model.Options{Neurons: model.Neurons{Sparse: model.Off}, Observer: d, Batch: window, Outputs: 1, Cache: compute.CacheSpec{Pages: window / compute.PagePositions}})
	if err != nil {
		t.Fatal(err)
	}
	floats := func(name string) []float32 {
		x := f.Tensor(fmt.Sprintf("blk.%d.%s.weight", layer, name))
		out := make([]float32, len(x.Data)/x.Type.BlockBytes()*x.Type.BlockElems())
		quant.Decode(x.Type, out, x.Data)
		return out
	}
	down, gate, norm := floats("ffn_down"), floats("ffn_gate"), floats("ffn_norm")
	d.norms = make([]float32, m.FF)
	for j := range d.norms {
		sum := 0.0
		for i := range m.Embd {
			sum += float64(down[i*m.FF+j]) * float64(down[i*m.FF+j])
		}
		d.norms[j] = float32(math.Sqrt(sum))
	}
	text, err := os.ReadFile(testenv.Shared(t, "tales/glinda.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := model.Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(string(text[:8*(tokens+freshTokens)]), false, false)
	record := func(ids []int32) *Samples {
		d.samples = Samples{Embd: m.Embd, FF: m.FF, Start: []int64{0}}
		for ; len(ids) >= window; ids = ids[window:] {
			d.document++
			p := compute.Params{Pages: [][]int32{{0, 1, 2, 3}}, Seq: make([]int32, window)}
			for i, id := range ids[:window] {
				p.Tokens, p.Pos = append(p.Tokens, id), append(p.Pos, int32(i))
			}
			if err := m.Forward(&p); err != nil {
				t.Fatal(err)
			}
		}
		s := d.samples
		return &s
	}
	return record(ids[:tokens]), record(ids[tokens : tokens+freshTokens]), func(row []float32, neuron int) float32 {
		copy(row, gate[neuron*m.Embd:])
		for i := range row { // the norm's division by the root mean square changes no sign
			row[i] *= norm[i]
		}
		return 0
	}
}

// A trained model's layer: both targets are met, on held-out samples and nearly on text that training never saw.
func TestDemoLayerIsLearned(t *testing.T) {
	testenv.Thorough(t)
	s, fresh, gate := demoLayer(t, 2, 16<<10, 1<<10)
	p := newPool(t, 4)
	pred, q, err := Train(context.Background(), s, Options{Pool: p, Gate: gate, Type: quant.F16})
	if err != nil {
		t.Fatal(err)
	}
	var neurons []int32
	for i := range s.FF {
		neurons = append(neurons, int32(i))
	}
	f := judgeFresh(pred, fresh, neurons)
	t.Logf("rank %d, held out %+v, fresh %+v", pred.Rank, q, f)
	if q.MassRecall < 0.99 || q.Accuracy < 0.95 || f.MassRecall < 0.99-unseen || f.Accuracy < 0.95-unseen {
		t.Fatal("targets are missed")
	}
	if _, random, err := Train(context.Background(), s, Options{Pool: p, Rank: pred.Rank}); err != nil || random.PredictedShare < q.PredictedShare {
		t.Fatalf("a random start did as well: %+v, %v", random, err)
	}
}
