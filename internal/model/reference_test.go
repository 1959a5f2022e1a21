package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// logitTolerance is the share of the largest logit by which an F32 model may differ from the float32 reference: the KV
// cache holds halves, and sums run in another order.
const logitTolerance = 1e-3

// reference holds results of an independent forward pass over the same safetensors file.
type reference struct {
	IDs  []int32 `json:"ids"`
	Top5 []struct {
		Pos       int       `json:"pos"`
		IDs       []int32   `json:"ids"`
		Logits    []float64 `json:"logits"`
		LogSumExp float64   `json:"logsumexp"`
	} `json:"top5_first_8_positions"`
	NLL    []float64 `json:"nll_per_position"`
	Greedy struct {
		Prompt       []int32 `json:"prompt_ids"`
		Continuation []int32 `json:"continuation_ids"`
	} `json:"greedy"`
}

func loadReference(t *testing.T) (reference, *gguf.File) {
	t.Helper()
	dir := demotest.HuggingFace(t)
	var r reference
	data, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "demo-f32.gguf")
	if err := convert.HuggingFace(t.Context(), dir, path, convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return r, f
}

func load(t *testing.T, f *gguf.File, o cpu.Options, mode model.SparseMode) *model.Model {
	t.Helper()
	dev, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return loadOn(t, f, dev, mode)
}

// loadOn loads f on dev and closes dev in the end.
func loadOn(t *testing.T, f *gguf.File, dev compute.Device, mode model.SparseMode) *model.Model {
	t.Helper()
	t.Cleanup(func() { dev.Close() })
	m, err := model.Load(t.Context(), f, dev, model.Options{Batch: 64, Outputs: 64, Cache: compute.CacheSpec{Pages: 8}, Neurons: model.Neurons{Sparse: mode}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// evaluate runs ids through m in steps of the given sizes and returns every position's logits.
func evaluate(t *testing.T, m *model.Model, ids []int32, steps ...int) [][]float32 {
	t.Helper()
	var out [][]float32
	pages := []int32{5, 0, 3, 7, 1, 6, 2, 4}
	for at := 0; at < len(ids); {
		n := min(len(ids)-at, steps[0])
		if len(steps) > 1 {
			steps = steps[1:]
		}
		p := compute.Params{Tokens: ids[at : at+n], Pages: [][]int32{pages}, Seq: make([]int32, n)}
		for i := range n {
			p.Pos = append(p.Pos, int32(at+i))
			p.Out = append(p.Out, int32(i))
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
		at += n
	}
	return out
}

func TestReference(t *testing.T) {
	r, f := loadReference(t)
	m := load(t, f, cpu.Options{Threads: 2}, model.Auto)
	logits := evaluate(t, m, r.IDs, 64)
	for _, p := range r.Top5 {
		for i, id := range p.IDs {
			if got := float64(logits[p.Pos][id]); math.Abs(got-p.Logits[i]) > logitTolerance*math.Abs(p.Logits[0]) {
				t.Errorf("position %d token %d: logit %g, the reference has %g", p.Pos, id, got, p.Logits[i])
			}
		}
	}
	for i, want := range r.NLL {
		got := logSumExp(logits[i]) - float64(logits[i][r.IDs[i+1]])
		if math.Abs(got-want) > 0.01 {
			t.Errorf("position %d: negative log-likelihood %g, the reference has %g", i, got, want)
		}
	}
	ids := slices.Clone(r.Greedy.Prompt)
	next := evaluate(t, m, ids, 64)
	for i, want := range r.Greedy.Continuation {
		got := argmax(next[len(next)-1])
		if got != want {
			t.Fatalf("greedy token %d is %d, the reference has %d", i, got, want)
		}
		ids = append(ids, got)
		next = evaluate(t, m, ids, 64)
	}
}

// TestDefinition: the scalar device, which defines the verbs, gives the reference's logits.
func TestDefinition(t *testing.T) {
	r, f := loadReference(t)
	m := loadOn(t, f, ref.New(), model.Auto)
	logits := evaluate(t, m, r.IDs[:8], 8)
	for _, p := range r.Top5 {
		for i, id := range p.IDs {
			if got := float64(logits[p.Pos][id]); math.Abs(got-p.Logits[i]) > logitTolerance*math.Abs(p.Logits[0]) {
				t.Errorf("position %d token %d: logit %g, the reference has %g", p.Pos, id, got, p.Logits[i])
			}
		}
	}
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

func logSumExp(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v))
	}
	return math.Log(sum)
}
