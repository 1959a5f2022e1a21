package engine_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// gemma4File is a tiny Gemma 4 with short windows. Its last layers read keys and values of others.
func gemma4File(t *testing.T) *gguf.File {
	f := synthtest.File(t, synth.Spec{Arch: "gemma4", Layers: 6, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, HeadDim: 32, Type: quant.F16, Seed: 5, Activation: "gelu", Tied: true})
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		tensors = append(tensors, synthtest.Copied(w, w.Name))
	}
	keys := slices.Clone(f.Keys)
	for i := range keys {
		if keys[i].Key == "gemma4.attention.sliding_window" {
			keys[i].Value = uint32(70)
		}
	}
	return synthtest.Made(t, keys, tensors)
}

// TestAssistantDrafts: drafts of a draft model that attends to the model's cache, most of them wrong, change no logits.
// It tests caches of every kind of type, texts longer than the windows, a prompt that is already in the cache, and
// several texts at once with a common beginning.
func TestAssistantDrafts(t *testing.T) {
	f := gemma4File(t)
	head := synthtest.Assistant(t, f, 3)
	for name, types := range map[string]compute.CacheTypes{"f16": {}, "q8_0": {Key: compute.KVQ8_0, Value: compute.KVQ8_0}} {
		t.Run(name, func(t *testing.T) {
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 256, Sequences: 3}, Cache: engine.Cache{CacheTypes: types}}
			plain := openFile(t, f, o)
			o.Drafts.Most, o.Head, o.Drafts.NoLookup = 4, head, true
			guessing := openFile(t, f, o)
			engine.SetTimes(guessing, cheapGuesses)
			rng := rand.New(rand.NewPCG(1, 2))
			prompt, text := randomTokens(rng, 100), randomTokens(rng, 60)
			prompts := [][]int32{prompt, append(slices.Clone(prompt[:80]), text[:10]...), text[:5]}
			sums := func(e *engine.Engine) [][]uint64 {
				all, drafted := make([][]uint64, len(prompts)), make([]int, len(prompts))
				var wait sync.WaitGroup
				for i, p := range prompts {
					wait.Go(func() {
						d := &dictation{text: text, prompt: len(p)}
						res, err := e.Generate(context.WithoutCancel(t.Context()), engine.Request{Prompt: p, Max: len(text), Sampler: d, IgnoreEOG: true}, nil)
						if err != nil {
							t.Error(err)
						}
						all[i], drafted[i] = d.sums, res.FurtherDrafted
					})
				}
				wait.Wait()
				if e == guessing && slices.Max(drafted) == 0 {
					t.Error("nothing was drafted")
				}
				return all
			}
			want := sums(plain)
			for range 2 { // the second time the prompts are in the cache
				for i, got := range sums(guessing) {
					if !slices.Equal(got, want[i]) {
						t.Errorf("logits of text %d with a draft model are not those without", i)
					}
				}
			}
			if guessing.CacheBytes() != plain.CacheBytes() {
				t.Errorf("a cache of %d bytes with a draft model that has none, %d without", guessing.CacheBytes(), plain.CacheBytes())
			}
		})
	}
	without, err := (&engine.Options{Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 4}}).Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	with, err := (&engine.Options{Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 4}, Head: head}).Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	weights := int64(0)
	for _, w := range head.Tensors {
		weights += int64(len(w.Data))
	}
	if with-without < weights {
		t.Errorf("%d bytes of memory with a draft model of %d, %d without", with, weights, without)
	}
}

// TestAssistantOnGPU: these drafts change no token, on whichever devices the layers of both models are.
func TestAssistantOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f := gemma4File(t)
	head := synthtest.Assistant(t, f, 3)
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 90)
	whole := testenv.Exhaustive(t)
	for name, plan := range furtherPlans(c) {
		if name != "mixed and further" && !whole {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text := func(head *gguf.File) []int32 {
				e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 256}, Drafts: engine.Drafts{Most: 3, NoLookup: true, Hot: engine.HotNever}, Head: head}, plan)
				engine.SetTimes(e.Engine, cheapGuesses)
				ids, res := greedy(t, e.Engine, prompt, 40)
				if guessed := res.FurtherDrafted > 0; guessed != (head != nil) {
					t.Errorf("%d guesses of the draft model", res.FurtherDrafted)
				}
				return ids
			}
			if got, want := text(head), text(nil); !slices.Equal(got, want) {
				t.Errorf("%v with guesses of a draft model, %v without", got, want)
			}
		})
	}
}

// TestAssistantHidden: a draft model that knows the second next token only from the model's state drafts right. The
// model counts: its layers add nothing to the embeddings, and the head's row v+1 is token v's embedding.
func TestAssistantHidden(t *testing.T) {
	f := gemma4File(t)
	head := synthtest.Assistant(t, f, 3)
	table := f.Tensor("token_embd.weight")
	width, vocab := table.Shape[0], table.Rows()
	rng := rand.New(rand.NewPCG(3, 4))
	embd := make([]float32, vocab*width)
	for i := range embd {
		embd[i] = float32(rng.NormFloat64())
	}
	rows := func(of []float32, cols, by int) []float32 { // row v+by of the result is row v of of
		return append(slices.Clone(of[(vocab-by)*cols:]), of[:(vocab-by)*cols]...)
	}
	half := width / 2
	pre := make([]float32, half*2*width) // the first half of the state
	for i := range half {
		pre[i*2*width+width+i] = 1
	}
	short := make([]float32, 0, vocab*half)
	for v := range vocab {
		square := 0.0
		for _, x := range embd[v*width:][:half] {
			square += float64(x * x)
		}
		for _, x := range embd[v*width:][:half] {
			short = append(short, x/float32(math.Sqrt(square)))
		}
	}
	f = replaced(t, f, map[string][]float32{"token_embd.weight": embd, "output.weight": rows(embd, width, 1), "output_norm.weight": ones(width)}, width)
	head = replaced(t, head, map[string][]float32{"token_embd.weight": rows(short, half, 2), "nextn.pre_projection.weight": pre, "output_norm.weight": ones(half)}, half)
	counts(t, openFile(t, f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 1, NoLookup: true}, Head: head}))
}

func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }

// replaced returns f with some tensors replaced or added, with rows of this many columns, and with layers that add
// nothing to the residual.
func replaced(t *testing.T, f *gguf.File, by map[string][]float32, cols int) *gguf.File {
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		src := synthtest.Copied(w, w.Name)
		if data, ok := by[w.Name]; ok {
			src = synthtest.Floats(w.Name, data, w.Shape...)
			delete(by, w.Name)
		} else if strings.Contains(w.Name, "attn_output") || strings.Contains(w.Name, "ffn_down") || strings.HasSuffix(w.Name, ".proj.weight") {
			src.Write = func(to io.Writer) error {
				_, err := to.Write(make([]byte, len(w.Data)))
				return err
			}
		}
		tensors = append(tensors, src)
	}
	for name, data := range by {
		tensors = append(tensors, synthtest.Floats(name, data, cols, len(data)/cols))
	}
	return synthtest.Made(t, f.Keys, tensors)
}
