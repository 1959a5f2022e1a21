package engine_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

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

// headTarget is the Llama that heads draft for.
var headTarget = synth.Spec{Arch: "llama", Layers: 4, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Type: quant.F16, Activation: "silu", Seed: 9}

// randomHeads are heads with random weights.
func randomHeads(t *testing.T, f *gguf.File) map[string]*gguf.File {
	h := synthtest.Head{Layers: []int{1, 2, 4}, Embd: 64, Heads: 4, FF: 96, Seed: 1}
	known, block := h, h
	known.Known = 100
	block.Block, block.Mask, block.Depth = 6, 17, 2
	return map[string]*gguf.File{"eagle3": synthtest.Eagle3(t, f, h), "eagle3 of some tokens": synthtest.Eagle3(t, f, known), "dflash": synthtest.DFlash(t, f, block)}
}

// TestHeadDrafts: drafts by heads, nearly all of them wrong, change no logits, also if the prompt is in the cache. The
// expected memory includes the heads.
func TestHeadDrafts(t *testing.T) {
	f := synthtest.File(t, headTarget)
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 128}}
	plain := openFile(t, f, o)
	rng := rand.New(rand.NewPCG(1, 2))
	prompt, text := randomTokens(rng, 40), randomTokens(rng, 50)
	sums := func(e *engine.Engine) ([]uint64, engine.Result) {
		d := &dictation{text: text, prompt: len(prompt)}
		res, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: len(text), Sampler: d, IgnoreEOG: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d.sums, res
	}
	want, _ := sums(plain)
	need := func(o engine.Options) int64 {
		n, err := o.Memory(f, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, head := range randomHeads(t, f) {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Drafts, o.Head = engine.Drafts{Most: 4, NoLookup: true}, head
			e := openFile(t, f, o)
			engine.SetTimes(e, cheapGuesses)
			drafted := 0
			for range 2 {
				got, res := sums(e)
				if drafted += res.FurtherDrafted; !slices.Equal(got, want) {
					t.Error("logits with guesses of a head are not those without")
				}
			}
			if drafted == 0 {
				t.Error("the head guessed nothing")
			}
			o.Head = nil
			without := need(o)
			o.Head = head
			var weights int64
			for _, w := range head.Tensors {
				weights += int64(len(w.Data))
			}
			if more := need(o) - without; more < weights {
				t.Errorf("%d bytes more with a head of %d", more, weights)
			}
			if e.CacheBytes() <= plain.CacheBytes() {
				t.Errorf("a cache of %d bytes with the head, %d without", e.CacheBytes(), plain.CacheBytes())
			}
		})
	}
}

// TestNoRoomForHeadAgain: if a GPU fails and memory then has room only for the model, an engine with a draft head
// continues without it, with the same text.
func TestNoRoomForHeadAgain(t *testing.T) {
	f := synthtest.File(t, headTarget)
	for name, head := range randomHeads(t, f) {
		t.Run(name, func(t *testing.T) {
			var lines []string
			o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 4, NoLookup: true}, Notice: func(line string) { lines = append(lines, line) }}
			without, err := o.Memory(f, placement.Layout{})
			if err != nil {
				t.Fatal(err)
			}
			o.Head = head
			e := openFile(t, f, o)
			engine.SetTimes(e, cheapGuesses)
			want, res := greedy(t, e, []int32{5, 6, 7}, 40)
			if res.FurtherDrafted == 0 {
				t.Fatal("the head guessed nothing")
			}
			engine.SetAvailable(t, without)
			if err := engine.LoadAgain(e); err != nil {
				t.Fatal(err)
			}
			got, res := greedy(t, e, []int32{5, 6, 7}, 40)
			if !slices.Equal(got, want) || res.FurtherDrafted+res.HotDrafted > 0 || len(lines) != 1 || !strings.Contains(lines[0], "the draft head guesses nothing") {
				t.Errorf("%v after %d guesses without the head, %v with it; the lines %q", got, res.FurtherDrafted+res.HotDrafted, want, lines)
			}
		})
	}
}

// TestHeadDraftsOfSeveral: concurrent texts with drafts of a head are the same as alone without them.
func TestHeadDraftsOfSeveral(t *testing.T) {
	f := synthtest.File(t, headTarget)
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 512, Sequences: 3}}
	plain := openFile(t, f, o)
	rng := rand.New(rand.NewPCG(3, 4))
	var prompts, want [][]int32
	for i := range 3 {
		prompts = append(prompts, append(randomTokens(rand.New(rand.NewPCG(8, 8)), 70), randomTokens(rng, 5+i)...)) // a common beginning
		ids, _ := greedy(t, plain, prompts[i], 40)
		want = append(want, ids)
	}
	for name, head := range randomHeads(t, f) {
		o.Drafts, o.Head = engine.Drafts{Most: 4, NoLookup: true}, head
		e := openFile(t, f, o)
		engine.SetTimes(e, cheapGuesses)
		got := make([][]int32, len(prompts))
		var all sync.WaitGroup
		for i := range prompts {
			all.Go(func() { got[i], _ = greedy(t, e, prompts[i], 40) })
		}
		all.Wait()
		for i := range got {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("%s: text %d is %v, not %v", name, i, got[i], want[i])
			}
		}
	}
}

// TestHeadDraftsOfRecurrent: a head of a model with recurrent layers changes no token either. The layers' states are
// restored after wrong drafts.
func TestHeadDraftsOfRecurrent(t *testing.T) {
	f := synthtest.File(t, synth.Spec{Arch: "qwen35", Type: quant.F32, Layers: 4, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5})
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 256}}
	plain := openFile(t, f, o)
	prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 40)
	want, _ := greedy(t, plain, prompt, 60)
	for name, head := range randomHeads(t, f) {
		o.Drafts, o.Head = engine.Drafts{Most: 3, NoLookup: true}, head
		e := openFile(t, f, o)
		engine.SetTimes(e, cheapGuesses)
		got, res := greedy(t, e, prompt, 60)
		if !slices.Equal(got, want) || res.FurtherDrafted == 0 {
			t.Errorf("%s: %v with %d guesses, %v without", name, got, res.FurtherDrafted, want)
		}
	}
}

// remade returns f with the given tensors' numbers, and zeros in the tensors of zero.
func remade(t *testing.T, f *gguf.File, made map[string][]float32, zero ...string) *gguf.File {
	t.Helper()
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		src := synthtest.Copied(w, w.Name)
		data, ok := made[w.Name]
		if slices.ContainsFunc(zero, func(part string) bool { return strings.Contains(w.Name, part) }) {
			data, ok = make([]float32, w.Shape[0]*w.Rows()), true
		}
		if ok {
			src = synthtest.Floats(w.Name, data, w.Shape...)
		}
		tensors = append(tensors, src)
	}
	return synthtest.Made(t, f.Keys, tensors)
}

// countingTarget returns a model that counts: its layers add nothing to embeddings, the first element of all embeddings
// is the same, and row v+1 of its head is token v's embedding. rolled returns the embeddings shifted by this many rows.
func countingTarget(t *testing.T) (f *gguf.File, rolled func(by int) []float32) {
	f = synthtest.File(t, headTarget)
	table := f.Tensor("token_embd.weight")
	width, vocab := table.Shape[0], table.Rows()
	rng := rand.New(rand.NewPCG(3, 4))
	embd := make([]float32, width*vocab)
	for i := range embd {
		if embd[i] = float32(rng.NormFloat64()); i%width == 0 {
			embd[i] = 4
		}
	}
	rolled = func(by int) []float32 {
		return append(slices.Clone(embd[(vocab-by)*width:]), embd[:(vocab-by)*width]...)
	}
	return remade(t, f, map[string][]float32{"token_embd.weight": embd, "output.weight": rolled(1)}, "attn_output", "ffn_down"), rolled
}

// countingHeads are heads that draft the next token right. The EAGLE-3 head takes it from the input of the model's
// first layer at the position before, where the token is two less. The DFlash head takes it from the value of the row
// before the first mask; because of the phase between queries and keys, attention sees only that row. Both have their
// own matrices of logits; EAGLE-3's has every third token.
func countingHeads(t *testing.T, f *gguf.File, rolled func(by int) []float32) map[string]*gguf.File {
	const width = 64
	h := synthtest.Head{Layers: []int{1, 2, 4}, Embd: width, Heads: 4, FF: 96, Known: 100, Seed: 1}
	eagle := synthtest.Eagle3(t, f, h)
	fc := make([]float32, 3*width*width) // selects the first of the three layers' inputs, which are alike
	for i := range width {
		fc[i*3*width+i] = 1
	}
	two, known := rolled(2), []float32(nil)
	for i := range h.Known {
		known = append(known, two[(3*i+1)*width:][:width]...)
	}
	h.Known, h.Own, h.Block, h.Mask = 0, true, 4, 17
	flash := synthtest.DFlash(t, f, h)
	const dim, heads = 16, 4
	// The first element of embeddings, which is the same in all, makes each key a vector of ones, and each query the
	// same rotated back by one position.
	keys, queries := make([]float32, heads/2*dim*width), make([]float32, heads*dim*width)
	for i := range heads / 2 * dim {
		keys[i*width] = 1
	}
	for i := range heads * dim {
		pair := i % (dim / 2)
		sin, cos := math.Sincos(math.Pow(1e4, -2*float64(pair)/dim))
		if queries[i*width] = float32(cos + sin); i%dim >= dim/2 {
			queries[i*width] = float32(cos - sin)
		}
	}
	values, out := make([]float32, heads/2*dim*width), make([]float32, width*heads*dim)
	for i := range heads / 2 * dim { // the embedding's first elements; heads 2·i and 2·i+1 read value head i
		values[i*width+i] = 1
		out[i*heads*dim+i/dim*2*dim+i%dim] = 40
	}
	ones := slices.Repeat([]float32{1}, width)
	dflash := remade(t, flash, map[string][]float32{
		"token_embd.weight": rolled(0), "output.weight": rolled(1), "blk.0.attn_q.weight": queries, "blk.0.attn_k.weight": keys,
		"blk.0.attn_v.weight": values, "blk.0.attn_output.weight": out, "blk.0.attn_norm.weight": ones, "output_norm.weight": ones,
		"blk.0.attn_q_norm.weight": ones[:dim], "blk.0.attn_k_norm.weight": ones[:dim],
	}, "ffn_down")
	dflash.Set("dflash.attention.scale", float32(20))
	return map[string]*gguf.File{
		"eagle3": remade(t, eagle, map[string][]float32{"fc.weight": fc, "output.weight": known, "output_norm.weight": ones}, "attn_output", "ffn_down"),
		"dflash": dflash,
	}
}

// TestHeadsCount: heads that know the next token draft right, and the text is the same as without them. The EAGLE-3
// head knows every third token, and its drafts mean that token.
func TestHeadsCount(t *testing.T) {
	f, rolled := countingTarget(t)
	for name, head := range countingHeads(t, f, rolled) {
		t.Run(name, func(t *testing.T) {
			e := openFile(t, f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 1, NoLookup: true}, Head: head})
			engine.SetTimes(e, cheapGuesses)
			countsOn(t, e, name == "dflash")
		})
	}
}

// countsOn checks that a text counts, and that some drafts, or all of them, were accepted.
func countsOn(t *testing.T, e *engine.Engine, all bool) {
	t.Helper()
	got, res := greedy(t, e, []int32{98, 99, 100}, 60)
	for i, id := range got {
		if id != 101+int32(i) {
			t.Fatalf("the model that counts says %v behind 100", got)
		}
	}
	if n := res.FurtherAccepted; n == 0 || all && n != res.FurtherDrafted || !all && res.FurtherDrafted > 3*n+3 {
		t.Errorf("%d of %d guesses came", n, res.FurtherDrafted)
	}
}

// TestHeadsOnGPU: heads draft right on whichever devices they and the model's layers are.
func TestHeadsOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f, rolled := countingTarget(t)
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	whole := testenv.Exhaustive(t)
	for kind, head := range countingHeads(t, f, rolled) {
		for name, plan := range furtherPlans(c) {
			if !whole && name != map[string]string{"eagle3": "mixed and further", "dflash": "two"}[kind] {
				continue
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 1, NoLookup: true, Hot: engine.HotNever}, Head: head}, plan)
				engine.SetTimes(e.Engine, cheapGuesses)
				countsOn(t, e.Engine, kind == "dflash")
			})
		}
	}
}

// TestHeadsAndSaved: a cache saved with a draft head, with another or without one serves an engine with any or none.
func TestHeadsAndSaved(t *testing.T) {
	for _, spec := range []synth.Spec{headTarget, {Arch: "falcon-h1", Type: quant.F32, Layers: 4, Embd: 64, FF: 96, Heads: 4, Seed: 5}} {
		f := synthtest.File(t, spec)
		engines := map[string]*engine.Engine{}
		for name, head := range randomHeads(t, f) {
			engines[name] = openFile(t, f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 256}, Drafts: engine.Drafts{Most: 3, NoLookup: true}, Head: head})
		}
		engines["none"] = openFile(t, f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 256}})
		prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 90)
		var text []int32
		files := map[string][]byte{}
		for name, e := range engines {
			ids, _ := greedy(t, e, prompt, 20)
			text = append(slices.Clone(prompt), ids...)
			files[name] = saved(t, e, text)
		}
		want, _ := greedy(t, engines["none"], text, 20)
		for of, file := range files {
			for name, e := range engines {
				if err := e.Erase(text); err != nil {
					t.Fatal(err)
				}
				restore(t, e, file)
				got, res := greedy(t, e, text, 20)
				if !slices.Equal(got, want) || res.Reused < len(text)-2 {
					t.Errorf("%s: saved with %s, restored with %s: %v after %d of %d tokens, not %v", spec.Arch, of, name, got, res.Reused, len(text), want)
				}
			}
		}
	}
}
