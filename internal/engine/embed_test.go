package engine_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// stateTolerance is for logits computed from a hidden state and the head in float64, relative to the largest one: the
// engine sums products of F32 weights in float32.
const stateTolerance = 1e-4

// gpuTolerance is for each element of states of a length of about 1: a GPU sums in another order, and its keys and
// values are F16.
const gpuTolerance = 5e-3

func embeddingFile(t *testing.T, layers int) *gguf.File {
	return synthtest.File(t, synth.Spec{Arch: "llama", Type: quant.F32, Layers: layers, Embd: 64, FF: 128, Heads: 2, Seed: 7})
}

func embed(t *testing.T, e *engine.Engine, ids []int32, p engine.Pooling) [][]float32 {
	t.Helper()
	states, err := e.Embed(t.Context(), ids, p)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// checkStates checks that the head's products with hidden states are the logits of the same positions.
func checkStates(t *testing.T, e *engine.Engine, f *gguf.File, ids []int32) {
	t.Helper()
	n, head := e.Config().Embd, f.Tensor("output.weight")
	row := make([]float32, n)
	states := embed(t, e, ids, engine.PoolNone)
	if len(states) != len(ids) {
		t.Fatalf("%d states of %d tokens", len(states), len(ids))
	}
	s := e.NewSequence()
	defer e.Release(s)
	err := e.Evaluate(s, ids, func(i int) bool { return i == len(ids)-1 }, func(_ int, logits []float32) {
		var worst, largest float64
		for id, want := range logits {
			quant.Decode(head.Type, row, head.Data[id*n*4:][:n*4])
			var sum float64
			for i, w := range row {
				sum += float64(w) * float64(states[len(ids)-1][i])
			}
			worst, largest = max(worst, math.Abs(sum-float64(want))), max(largest, math.Abs(float64(want)))
		}
		if !(worst <= stateTolerance*largest) {
			t.Errorf("%d tokens: the head times the last state is off by %g of logits up to %g", len(ids), worst, largest)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	mean := make([]float64, n)
	for _, s := range states {
		for i, v := range s {
			mean[i] += float64(v) / float64(len(states))
		}
	}
	for i, v := range embed(t, e, ids, engine.PoolMean)[0] {
		if math.Abs(float64(v)-mean[i]) > stateTolerance {
			t.Fatalf("the mean is %g at %d, not %g", v, i, mean[i])
		}
	}
	if !slices.Equal(embed(t, e, ids, engine.PoolLast)[0], states[len(ids)-1]) || !slices.Equal(embed(t, e, ids, engine.PoolCLS)[0], states[0]) {
		t.Error("the last or the first state is not that of its token")
	}
}

func TestEmbed(t *testing.T) {
	f := embeddingFile(t, 2)
	e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 256, UBatch: 32}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ids := make([]int32, 100)
	for i := range ids {
		ids[i] = int32(5 + i*7%50)
	}
	for _, n := range []int{1, 2, 31, 33, 100} {
		checkStates(t, e, f, ids[:n])
	}
	if _, err := e.Embed(t.Context(), make([]int32, 257), engine.PoolMean); !errors.As(err, new(*engine.ContextError)) {
		t.Errorf("a text longer than the context: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, ids, engine.PoolMean); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request: %v", err)
	}

	want := embed(t, e, ids, engine.PoolMean)[0]
	var group sync.WaitGroup
	for range 8 { // more than the cache holds at once, and generations between
		group.Go(func() {
			if got, err := e.Embed(t.Context(), ids, engine.PoolMean); err != nil || !slices.Equal(got[0], want) {
				t.Errorf("an embedding among others is not what it is alone: %v", err)
			}
		})
		group.Go(func() { ask(t, e, ids[:20], 10) })
	}
	group.Wait()
}

func TestEmbedOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f := embeddingFile(t, 1)
	e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 256, UBatch: 32}}, gigabyte(share(1, 128)))
	ids := make([]int32, 40)
	for i := range ids {
		ids[i] = int32(5 + i*3%50)
	}
	checkStates(t, e.Engine, f, ids)
}

// TestEncoderOnGPU: an encoder with layers and neurons on CPU and GPU gives the CPU's states.
func TestEncoderOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f := synthtest.File(t, synth.Spec{Arch: "bert", Type: quant.F32, Layers: 3, Embd: 64, FF: 128, Heads: 2, Seed: 7, Labels: 2})
	alone, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	places := share(3, 64)
	places[1] = compute.Place{} // between two layers on the GPU
	e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 128, UBatch: 32}}, gigabyte(places))
	var texts [][]int32
	for n := range 12 {
		texts = append(texts, make([]int32, n+1))
		for i := range texts[n] {
			texts[n][i] = int32(5 + (n+i*3)%50)
		}
	}
	for _, way := range []engine.Pooling{engine.PoolMean, engine.PoolRank} {
		got, err := e.EmbedAll(t.Context(), texts, way)
		if err != nil {
			t.Fatal(err)
		}
		for n, ids := range texts {
			want := embed(t, alone, ids, way)[0]
			for i, v := range want {
				if math.Abs(float64(got[n][0][i]-v)) > gpuTolerance {
					t.Fatalf("%s: text %d: %g at %d, not %g", way, n, got[n][0][i], i, v)
				}
			}
		}
	}
}

// TestTogether: short texts of an encoder share steps, and give the same vectors as alone. So do longer texts that fill
// a step.
func TestTogether(t *testing.T) {
	f := synthtest.File(t, synth.Spec{Arch: "nomic-bert", Type: quant.F32, Layers: 1, Embd: 64, FF: 128, Heads: 2, Seed: 7})
	e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 64, UBatch: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var texts [][]int32
	for n := range 100 {
		texts = append(texts, make([]int32, 1+n%8))
		for i := range texts[n] {
			texts[n][i] = int32(5 + (n+i*3)%50)
		}
	}
	texts = append(texts, slices.Repeat([]int32{9}, 64))
	before := e.Stats().Steps
	got, err := e.EmbedAll(t.Context(), texts, engine.PoolMean)
	if err != nil {
		t.Fatal(err)
	}
	if steps := e.Stats().Steps - before; steps > int64(len(texts))/4 {
		t.Errorf("%d texts took %d steps", len(texts), steps)
	}
	for i, ids := range texts {
		if !slices.Equal(got[i][0], embed(t, e, ids, engine.PoolMean)[0]) {
			t.Errorf("text %d of %d tokens is another among others", i, len(ids))
		}
	}
}

// TestEmbedLater: in a model whose tokens see later ones, the first token's state depends on the last token. A text
// shares its step with others but is not divided among steps, and a text that is longer than a step is refused.
func TestEmbedLater(t *testing.T) {
	f := synthtest.File(t, synth.Spec{
		Arch: "llama", Type: quant.F32, Layers: 2, Embd: 64, FF: 128, Heads: 2, Seed: 7,
		Keys: []gguf.KV{{Key: "llama.attention.causal", Value: false}},
	})
	e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128, UBatch: 16, Sequences: 4}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ids := []int32{1, 300, 17, 44, 259, 311, 300, 80, 90, 91, 92}
	want := embed(t, e, ids, engine.PoolCLS)[0]
	other := slices.Clone(ids)
	other[len(other)-1] = 93
	if slices.Equal(embed(t, e, other, engine.PoolCLS)[0], want) {
		t.Error("the first token's state does not depend on the last token")
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			states, err := e.Embed(t.Context(), ids, engine.PoolCLS)
			if err != nil || !slices.Equal(states[0], want) {
				t.Errorf("a text among others gives another state, or an error: %v", err)
			}
		})
	}
	group.Wait()
	if _, err := e.Embed(t.Context(), slices.Repeat(ids, 2), engine.PoolCLS); err == nil || !strings.Contains(err.Error(), "-ub 22") {
		t.Errorf("a text of 22 tokens in steps of 16: %v", err)
	}
}

// TestPairTypes: in a pair of texts, the tokens after the separator have BERT's second type, and its embedding replaces
// the first type's. A model without types gives the same rank if the difference is added to the embeddings of the
// second text's tokens.
func TestPairTypes(t *testing.T) {
	spec := synth.Spec{Arch: "bert", Type: quant.F32, Layers: 2, Embd: 64, FF: 128, Heads: 2, Labels: 1, Seed: 7}
	first, second := []int32{1, 300, 301, 2}, []int32{310, 311}
	pair := slices.Concat(first, second)
	rank := func(f *gguf.File) float32 {
		e, err := engine.Open(t.Context(), f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 64, UBatch: 16, Sequences: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		return embed(t, e, pair, engine.PoolRank)[0][0]
	}
	plain := synthtest.File(t, spec)
	alike := rank(plain)
	table, types, n := plain.Tensor("token_embd.weight").Data, plain.Tensor("token_types.weight").Data, spec.Embd
	rows, row := [2][]float32{make([]float32, n), make([]float32, n)}, make([]float32, n)
	for i := range rows {
		quant.Decode(quant.F32, rows[i], types[i*n*4:][:n*4])
	}
	for _, id := range second {
		at := table[int(id)*n*4:][:n*4]
		quant.Decode(quant.F32, row, at)
		for i := range row {
			row[i] += rows[1][i] - rows[0][i]
		}
		quant.Encode(quant.F32, at, row)
	}
	want := rank(plain)
	typed := synthtest.File(t, spec)
	keys := append(slices.Clone(typed.Keys), gguf.KV{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(2)})
	for i := range keys {
		if keys[i].Key == "tokenizer.ggml.model" {
			keys[i].Value = "bert"
		}
	}
	var tensors []gguf.Source
	for _, w := range typed.Tensors {
		tensors = append(tensors, synthtest.Copied(w, w.Name))
	}
	got := rank(synthtest.Made(t, keys, tensors))
	if alike == want || math.Abs(float64(got-want)) > stateTolerance*math.Abs(float64(want)) {
		t.Errorf("the rank is %g, not %g; %g if all tokens were of the first type", got, want, alike)
	}
}
