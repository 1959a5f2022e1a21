package session

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// TestGPUsPlannedForLongSteps: where experts stay on the disk although a GPU has a part of the model, the GPU is planned for
// steps of a whole batch, if these leave nearly as much of its memory.
func TestGPUsPlannedForLongSteps(t *testing.T) {
	cost := func(step int) modelcost.Cost {
		b, err := modelcost.Described("qwen3-30b-a3b,layers=4,vocab=4096", modelcost.Options{Context: 1024, UBatch: step})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f := cost(0).File
	for _, c := range []struct {
		name         string
		vram         int64
		share        float64 // of RAM that the whole model takes
		chosen, want int
	}{
		{"on disk", 900 << 20, 0.4, 0, engine.UsualBatch},
		{"on disk, the user chose", 900 << 20, 0.4, 64, 64},
		{"the GPU is small", 250 << 20, 0.7, 0, 0},
		{"all fits", 900 << 20, 1, 0, 0},
	} {
		var steps []int
		plan := func(o *Options) (*planner.Planner, error) {
			steps = append(steps, o.Engine.LargestStep())
			m := planner.Described(8<<30, 60e9)
			m.Add("a GPU", c.vram, 500e9)
			return planner.With(m, cost(o.Engine.LargestStep()), planner.Options{RAM: planner.RAM{Whole: *o.Engine.RAM, OnDisk: *o.Engine.RAM}}), nil
		}
		var o Options
		o.Engine.Context, o.Engine.UBatch = 1024, c.chosen
		whole, err := o.Engine.Memory(f, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		ram := int64(c.share * float64(whole))
		o.Engine.RAM = &ram
		p, err := plan(&o)
		if err != nil {
			t.Fatal(err)
		}
		q, err := o.planLongSteps(f, p, plan)
		if err != nil || o.Engine.UBatch != c.want || (q != p) != (c.want > c.chosen) {
			t.Errorf("%s: steps of %d tokens, want %d; planned for %v; %v", c.name, o.Engine.UBatch, c.want, steps, err)
		}
	}
}
