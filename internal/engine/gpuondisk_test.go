package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestThreeTiers: a model whose experts are on a GPU, in RAM and on the disk, and follow the text, says the same, to the
// byte, as with all of them in memory; and the same tokens for several requests at a time, while others are cancelled.
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

	layout := placement.Layout{Places: places}
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
