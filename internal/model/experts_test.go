package model_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// routed writes a small model with experts, with metadata changed by KEY=TYPE:VALUE.
func routed(t *testing.T, arch string, changes ...string) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	s := synth.Spec{Arch: arch, Layers: 2, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: 8, Used: 2, Activation: "silu", Seed: 5}
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for _, change := range changes {
		key, value, _ := strings.Cut(change, "=")
		typ, value, _ := strings.Cut(value, ":")
		if err := f.Override(key, typ, value); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func loaded(t *testing.T, f *gguf.File) (*model.Model, error) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return model.Load(t.Context(), f, dev, model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 1}})
}

// TestLyingExperts: keys of experts that contradict the tensors, or are impossible, are errors with the key's name.
func TestLyingExperts(t *testing.T) {
	for _, c := range []struct{ change, key, tensor string }{
		{"qwen3moe.expert_count=int:7", "expert_count", "ffn_gate_inp.weight"},
		{"qwen3moe.expert_count=int:0", "expert_count", ""},
		{"qwen3moe.expert_count=int:100000", "expert_count", ""},
		{"qwen3moe.expert_used_count=int:9", "expert_used_count", ""},
		{"qwen3moe.expert_used_count=int:0", "expert_used_count", ""},
		{"qwen3moe.expert_feed_forward_length=int:31", "expert_feed_forward_length", "exps.weight"},
		{"qwen3moe.expert_gating_func=int:9", "expert_gating_func", ""},
		{"qwen3moe.expert_group_count=int:3", "expert_group", ""},
		{"qwen3moe.leading_dense_block_count=int:1", "leading_dense_block_count", "blk.0.ffn_gate_inp.weight"},
		{"qwen3moe.expert_weights_scale=float:-1", "expert_weights_scale", ""},
	} {
		_, err := loaded(t, routed(t, "qwen3moe", c.change))
		if err == nil || !strings.Contains(err.Error(), c.tensor) || c.tensor == "" && !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: error %v does not name %s and %s", c.change, err, c.key, c.tensor)
		}
	}
	if _, err := loaded(t, routed(t, "llama", "llama.expert_count=int:0")); err == nil {
		t.Error("a model whose experts are denied is loaded")
	}
}

// TestMissingRouter: a missing router is an error, not a layer without experts.
func TestMissingRouter(t *testing.T) {
	const router = "blk.1.ffn_gate_inp.weight"
	whole := routed(t, "qwen3moe")
	var tensors []gguf.Source
	for _, w := range whole.Tensors {
		if w.Name != router {
			tensors = append(tensors, synthtest.Copied(w, w.Name))
		}
	}
	f := synthtest.Made(t, whole.Keys, tensors)
	if _, err := loaded(t, f); err == nil || !strings.Contains(err.Error(), router+"\" is missing") {
		t.Errorf("error %v does not say that %s is missing", err, router)
	}
}

// TestDamagedRouter: a router of NaN gives NaN logits.
func TestDamagedRouter(t *testing.T) {
	f := routed(t, "qwen3moe")
	w := f.Tensor("blk.0.ffn_gate_inp.weight")
	numbers := make([]float32, w.Elems())
	for i := range numbers {
		numbers[i] = float32(math.NaN())
	}
	w.Data = make([]byte, len(w.Data))
	quant.Encode(w.Type, w.Data, numbers)
	m, err := loaded(t, f)
	if err != nil {
		t.Fatal(err)
	}
	p := compute.Params{Tokens: []int32{1, 2, 3}, Pos: []int32{0, 1, 2}, Seq: make([]int32, 3), Pages: [][]int32{{0}}, Out: []int32{2}}
	if err := m.Forward(&p); err != nil {
		t.Fatal(err)
	}
	logits, err := m.Logits(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range logits {
		if v == v {
			t.Fatalf("logit %d is %g", i, v)
		}
	}
}

// TestExpertsUsed: fewer experts read fewer bytes.
func TestExpertsUsed(t *testing.T) {
	read := func(change ...string) int64 {
		m, err := loaded(t, routed(t, "qwen3moe", change...))
		if err != nil {
			t.Fatal(err)
		}
		p := compute.Params{Decode: 1, Tokens: []int32{7}, Pos: []int32{0}, Seq: []int32{0}, Pages: [][]int32{{0}}, Out: []int32{0}}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		return m.Read().All
	}
	const expert = 3 * 64 * 32 * 2 // bytes of three matrices in F16
	if two, one := read(), read("qwen3moe.expert_used_count=int:1"); two != 2*2*expert || one != 2*expert {
		t.Errorf("two layers read %d bytes of two experts each, and %d of one; an expert has %d", two, one, expert)
	}
}

// TestFurtherLayers: MTP layers that are not asked for are neither computed nor refused.
func TestFurtherLayers(t *testing.T) {
	logits := func(f *gguf.File) []float32 {
		m, err := loaded(t, f)
		if err != nil {
			t.Fatal(err)
		}
		p := compute.Params{Tokens: []int32{1, 2, 3}, Pos: []int32{0, 1, 2}, Seq: make([]int32, 3), Pages: [][]int32{{0}}, Out: []int32{2}}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		out, err := m.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	short := routed(t, "glm4moe", "glm4moe.block_count=int:1")
	short.Tensors = slices.DeleteFunc(slices.Clone(short.Tensors), func(w *gguf.Tensor) bool { return strings.HasPrefix(w.Name, "blk.1.") })
	if got, want := logits(routed(t, "glm4moe", "glm4moe.nextn_predict_layers=int:1")), logits(short); !slices.Equal(got, want) {
		t.Error("a model whose second layer predicts further tokens has other logits than one without that layer")
	}
	if _, err := loaded(t, routed(t, "glm4moe", "glm4moe.nextn_predict_layers=int:2")); err == nil || !strings.Contains(err.Error(), "nextn_predict_layers") {
		t.Errorf("a model all of whose layers predict further tokens: error %v", err)
	}
}
