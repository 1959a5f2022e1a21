package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestPlanned: for every family, mode and size of step, what a plan says a card will hold is what it holds after load.
func TestPlanned(t *testing.T) {
	for _, c := range []struct {
		spec          synth.Spec // of no architecture: the demo
		mode          model.SparseMode
		context       int
		batch, ubatch int
		share         float64 // of the weights, beside the most that computing may take
		stream        hybrid.Streaming
		whole         int // layers; 0: by neuron
	}{
		{mode: model.Predict, context: 256, share: 0.5},
		{mode: model.Exact, context: 1024, ubatch: 64, share: 2},
		{mode: model.Off, context: 256, share: 0.4, whole: 2},
		{spec: synth.Spec{Arch: "llama", Type: quant.Q4_0}, mode: model.Exact, context: 512, share: 0.5, stream: hybrid.Streaming{Tokens: 32, Bytes: 256 << 10}},
		{spec: synth.Spec{Arch: "llama", Type: quant.Q8_0}, mode: model.Off, context: 64, ubatch: 8, share: 2},
		{spec: synth.Spec{Arch: "qwen2", Type: quant.F16}, mode: model.Exact, context: 256, batch: 32, ubatch: 512, share: 0.3},
		{spec: synth.Spec{Arch: "qwen3", Type: quant.Q8_0}, mode: model.Exact, context: 256, ubatch: 100, share: 0.9},
		{spec: synth.Spec{Arch: "bamboo", Type: quant.Q4_0, Magic: "PWRI"}, mode: model.Predict, context: 512, share: 0.6},
		{spec: synth.Spec{Arch: "falcon", Type: quant.F16, Magic: "PWRI"}, mode: model.Predict, context: 128, share: 2},
		{spec: synth.Spec{Arch: "falcon", Type: quant.Q8_0}, mode: model.Off, context: 512, ubatch: 256, share: 0.5, whole: 1},
		{spec: synth.Spec{Arch: "opt", Type: quant.F16}, mode: model.Exact, context: 512, share: 0.4},
		{spec: synth.Spec{Arch: "opt", Type: quant.Q4_0, Magic: "PWRI"}, mode: model.Predict, context: 256, ubatch: 1, share: 0.7},
	} {
		name := c.spec.Arch
		if name == "" {
			name = "demo"
		}
		t.Run(fmt.Sprintf("%s %s -c %d -ub %d", name, c.mode, c.context, c.ubatch), func(t *testing.T) {
			var f *gguf.File
			if c.spec.Arch == "" {
				var err error
				if f, err = gguf.Parse(demo.Name, demo.Model()); err != nil {
					t.Fatal(err)
				}
			} else {
				f = synthtest.Sparse(t, c.spec, 4)
			}
			o := engine.Options{Threads: 1, Context: c.context, Batch: c.batch, UBatch: c.ubatch, Sparse: c.mode}
			b, err := blueprint.Of(f, blueprint.Options{Context: o.Context, UBatch: o.LargestStep(), Sparse: c.mode, Law: blueprint.UsualLaw()})
			if err != nil {
				t.Fatal(err)
			}
			budget := b.Buffers + c.stream.RoomBytes() + int64(c.share*float64(b.Model.Bytes()))
			solve := placement.Solve
			if c.whole > 0 {
				solve = func(m placement.Model, on placement.Machine) (placement.Plan, error) {
					return placement.Whole(m, on, c.whole)
				}
			}
			p, err := b.Places(placement.Machine{Stream: 20e9, Rows: 5e9, GPUs: []placement.GPU{{Read: 500e9, Budget: budget}}}, []hybrid.Streaming{c.stream}, solve)
			if err != nil {
				t.Fatal(err)
			}
			o.Plan = &engine.Plan{Cards: []engine.Card{{Budget: budget, Planned: p.VRAM[0], Stream: c.stream}}}
			use := openCard(t, f, o, p.Places()).CardUse()[0]
			t.Logf("planned %d, used %d (%+.1f %%), budget %d", use.Planned, use.Used, 100*(float64(use.Planned)/float64(use.Used)-1), budget)
			if use.Used > use.Planned || use.Planned > budget {
				t.Errorf("%+v within %d", use, budget)
			}
			if d := math.Abs(float64(use.Planned - use.Used)); d > planned*float64(use.Used)+slab {
				t.Errorf("%d bytes are planned and %d in use", use.Planned, use.Used)
			}
		})
	}
}
