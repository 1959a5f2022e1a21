package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestThreeTiers: experts that follow the text on a GPU, in RAM and on the disk give the same bytes of logits as with
// all of them in memory. Concurrent requests get the same tokens while others are cancelled.
func TestThreeTiers(t *testing.T) {
	testenv.Thorough(t)
	const layers, held, tokens = 2, 4, 6
	f := synthtest.SparseOnDisk(t, synth.Spec{Arch: "qwen3moe", Type: quant.F32, Experts: 32, Used: 3, FF: 256, Vocab: 320}, layers)
	places := share(layers, held)
	places[0].Slots, places[1].Slots = true, true
	plan := gigabyte(places)
	plan.GPUs[0].Slots = eager()
	plan.GPUs[0].Stream = hybrid.Streaming{Experts: 40, Bytes: 2 << 20}
	o := engine.Options{Limits: engine.Limits{Context: 512, Sequences: 4}, Neurons: engine.Neurons{Sparse: model.Off}}
	var prompts [][]int32
	for i, n := range []int{5, 48, 9, 20} {
		var p []int32
		for j := range n {
			p = append(p, int32((31*i+7*j)%300+1))
		}
		prompts = append(prompts, p)
	}
	var want []said
	inRAM := openGPU(t, f, o, plan)
	for _, p := range prompts {
		want = append(want, askReusing(t, inRAM.Engine, p, tokens, engine.ReuseNone))
	}
	moved := inRAM.SlotUse()

	layout := plan.Layout()
	least, err := o.Least(f, layout)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := o.Memory(f, layout)
	if err != nil {
		t.Fatal(err)
	}
	budget := (least.Need + whole) / 2
	o.RAM = &budget
	e := openGPU(t, f, o, plan)
	for i, p := range prompts {
		if got := askReusing(t, e.Engine, p, tokens, engine.ReuseNone); !slices.Equal(got.ids, want[i].ids) || !slices.Equal(got.probs, want[i].probs) {
			t.Errorf("prompt %d is continued with %v, in memory with %v", i, got.ids, want[i].ids)
		}
	}
	if m, use := e.Memory(), e.UnitUse(); m.OnDisk == 0 || m.Need > budget || use.Misses == 0 || use.Slots >= use.Units-layers*held {
		t.Errorf("%+v of %d bytes, %+v", m, budget, use)
	}
	if use := e.SlotUse(); use != moved || use.Promotions == 0 {
		t.Errorf("%+v, in memory %+v", use, moved)
	}

	var group sync.WaitGroup
	for i, p := range prompts {
		group.Go(func() {
			if got := askReusing(t, e.Engine, p, tokens, engine.ReuseNone); !slices.Equal(got.ids, want[i].ids) {
				t.Errorf("among others prompt %d is continued with %v, alone with %v", i, got.ids, want[i].ids)
			}
		})
		group.Go(func() { cancelled(t, e.Engine, p, i) })
	}
	group.Wait()
}

// TestStreamedBesideGPU: one GPU or two hold some layers of a dense model, or some layers' attention, and every step
// reads other layers from disk. The logits have the same bytes as with these in memory, and the reads are counted.
func TestStreamedBesideGPU(t *testing.T) {
	testenv.Thorough(t)
	const layers, ff, tokens = 12, 1024, 4
	f := synthtest.SparseOnDisk(t, synth.Spec{Arch: "llama", Type: quant.F32}, layers)
	on := func(gpu compute.Tier, hot int) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu, Bound: hot}, Attention: true}
	}
	places := []compute.Place{{}, {}, {}, on(0, 0), {}, {}, {}, {}, {}, {}, on(0, ff), on(0, ff), on(0, 0)}
	two := slices.Clone(places)
	two[11], two[12] = on(1, ff), on(1, 0)
	prompt := randomTokens(rand.New(rand.NewPCG(3, 0)), 48)
	for _, places := range testenv.Some(t, 1, [][]compute.Place{places, two}) {
		plan := gigabyte(places)
		plan.GPUs[0].Stream = hybrid.Streaming{Tokens: 40, Bytes: 2 << 20}
		if places[11].Tier > 0 {
			plan.GPUs = append(plan.GPUs, plan.GPUs[0])
		}
		o := engine.Options{Limits: engine.Limits{Context: 128}, Neurons: engine.Neurons{Sparse: model.Off}}
		var want []said
		for _, missing := range []int64{0, 8 << 20} {
			budget, err := o.Memory(f, plan.Layout())
			if err != nil {
				t.Fatal(err)
			}
			budget -= missing
			o := o
			o.RAM = &budget
			e := openGPU(t, f, o, plan)
			var got []said
			for _, n := range []int{5, 48} {
				got = append(got, askReusing(t, e.Engine, prompt[:n], tokens, engine.ReuseNone))
			}
			use := e.UnitUse()
			if missing == 0 {
				want = got
			} else if steps := int64(2 * tokens); use.Units < 2 || use.Uses() != steps*use.Units || use.Bytes < steps*missing || use.GuessesUsed == 0 {
				t.Errorf("%+v", use)
			}
			if !slices.Equal(got[0].probs, want[0].probs) || !slices.Equal(got[1].ids, want[1].ids) {
				t.Errorf("with %d bytes missing it says %v, otherwise %v", missing, got, want)
			}
		}
	}
}

// cancelled cancels a request after n tokens.
func cancelled(t *testing.T, e *engine.Engine, prompt []int32, n int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := sample.New(sample.DefaultOptions(), e.Config().Vocab)
	if err != nil {
		t.Error(err)
		return
	}
	_, err = e.Generate(ctx, engine.Request{Prompt: prompt, Max: n + 3, Sampler: s, IgnoreEOG: true}, func(engine.Token) bool {
		if n--; n < 0 {
			cancel()
		}
		return true
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
