package collect

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/imatrix"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

const text = "Once upon a time there was a little girl named Lily. She liked to play in the park with her red ball. One day it rolled away. "

func open(t *testing.T) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFirstInput: the first block's queries are multiplied with the norm of the embedding, which is computed here by
// its definition.
func TestFirstInput(t *testing.T) {
	f := open(t)
	o := Options{Text: strings.Repeat(text, 4), Context: 32, Chunks: 2, Skip: 1, Threads: 2}
	m, err := Run(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := model.Tokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(o.Text, true, false)[o.Context:][:2*o.Context]
	table, norm := f.Tensor("token_embd.weight"), f.Tensor("blk.0.attn_norm.weight")
	scale := make([]float32, c.Embd)
	quant.Decode(norm.Type, scale, norm.Data)
	row, want := make([]float32, c.Embd), make([]float64, c.Embd)
	eps, ok, err := f.Float("llama.attention.layer_norm_rms_epsilon")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i, id := range ids {
		if i%o.Context == 0 && tok.AddsBOS() {
			id = tok.BOS()
		}
		bytes := table.Type.RowBytes(c.Embd)
		quant.Decode(table.Type, row, table.Data[int(id)*bytes:][:bytes])
		var square float64
		for _, v := range row {
			square += float64(v) * float64(v)
		}
		for j, v := range row {
			want[j] += math.Pow(float64(v)*float64(scale[j]), 2) / (square/float64(c.Embd) + eps)
		}
	}
	e := m.Entries["blk.0.attn_q.weight"]
	if e == nil || e.Counts[0] != int64(len(ids)) || m.Chunks != 2 || m.ChunkTokens != o.Context {
		t.Fatalf("%+v", e)
	}
	const tolerance = 1e-4 // float32 norms
	for j, v := range e.Sums {
		if math.Abs(float64(v)-want[j]) > tolerance*want[j] {
			t.Fatalf("element %d: %g, want %g", j, v, want[j])
		}
	}
	for _, name := range m.Names() {
		if !strings.HasPrefix(name, "blk.") || f.Tensor(name) == nil || len(m.Entries[name].Sums) != f.Tensor(name).Shape[0] {
			t.Errorf("entry %q of %d elements", name, len(m.Entries[name].Sums))
		}
	}
}

// TestExpect: the time is reported before the first chunk, and its trial is not collected.
func TestExpect(t *testing.T) {
	f := open(t)
	o := Options{Text: strings.Repeat(text, 80), Context: 200, Chunks: worthTrial*trialTokens/200 + 1, Threads: 1}
	want, err := Run(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	o.Expect = func(chunks int, whole time.Duration) {
		if told++; chunks != o.Chunks || whole <= 0 {
			t.Errorf("%d chunks take %s; there are %d", chunks, whole, o.Chunks)
		}
	}
	o.Progress = func(done, _ int) {
		if told != 1 {
			t.Fatalf("told %d times before chunk %d was done", told, done)
		}
	}
	got, err := Run(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want.Names() {
		if a, b := want.Entries[name], got.Entries[name]; b == nil || !slices.Equal(a.Counts, b.Counts) || !slices.Equal(a.Sums, b.Sums) {
			t.Fatalf("%s: other importances", name)
		}
	}
	o.Chunks = 1
	o.Expect = func(int, time.Duration) { t.Error("a short text is timed") }
	if _, err := Run(t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
}

// TestGoingOn: two runs collect the same as one.
func TestGoingOn(t *testing.T) {
	f := open(t)
	o := Options{Text: strings.Repeat(text, 4), Context: 24, Chunks: 3, Threads: 1}
	whole, err := Run(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(done, _ int) {
		if done == 1 {
			cancel()
		}
	}
	first, err := Run(ctx, f, o)
	if !errors.Is(err, context.Canceled) || first == nil || first.Chunks != 1 {
		t.Fatalf("interrupted: %+v, %v", first, err)
	}
	o.Matrix, o.Skip, o.Chunks, o.Progress = first, 1, 2, nil
	second, err := Run(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	const tolerance = 1e-6 // sums are rounded to float32 between the runs
	for _, name := range whole.Names() {
		a, b := whole.Entries[name], second.Entries[name]
		if b == nil || a.Counts[0] != b.Counts[0] {
			t.Fatalf("%s: %+v", name, b)
		}
		for i, v := range a.Sums {
			if math.Abs(float64(v-b.Sums[i])) > tolerance*float64(v) {
				t.Fatalf("%s, element %d: %g, in two runs %g", name, i, v, b.Sums[i])
			}
		}
	}
	o.Skip = 1000
	if _, err := Run(t.Context(), f, o); err == nil || !strings.Contains(err.Error(), "give a longer text") {
		t.Errorf("too short a text: %v", err)
	}
}

// TestOtherModel: importances of another model are refused before anything is computed, with the names of the file and
// the tensor.
func TestOtherModel(t *testing.T) {
	f := open(t)
	for _, c := range []struct{ tensor, want string }{
		{"blk.0.attn_q.weight", `it has 3 importances for "blk.0.attn_q.weight", but`},
		{"blk.0.other.weight", `it has importances of "blk.0.other.weight", a tensor that`},
	} {
		m := imatrix.New(8)
		m.Chunks, m.Entries[c.tensor] = 1, &imatrix.Entry{Sums: []float32{1, 2, 3}, Counts: []int64{8}}
		path := filepath.Join(t.TempDir(), "other.gguf")
		if err := m.Write(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if _, err := Sum(f, []string{path}, 8); err == nil || !strings.HasPrefix(err.Error(), path+": "+c.want) {
			t.Errorf("%v, not %s", err, c.want)
		}
		if _, err := Sum(nil, []string{path}, 8); err != nil {
			t.Errorf("without a model: %v", err)
		}
	}
}
