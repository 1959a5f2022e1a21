package session

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// TestLongSteps: if experts stay on the disk, whether or not a GPU has a part of the model, steps of a whole batch are
// planned, unless they leave much less of the GPU's memory or the user chose a length.
func TestLongSteps(t *testing.T) {
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
		{"on disk, no GPU", 0, 0.4, 0, engine.UsualBatch},
	} {
		o := engine.Options{Limits: engine.Limits{Context: 1024, UBatch: c.chosen}}
		whole, err := o.Memory(f, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		ram := int64(c.share * float64(whole))
		room := engine.Room{Whole: ram, OnDisk: ram}
		plan := func(ubatch int) (*planner.Planner, error) {
			m := planner.Described(8<<30, 60e9)
			if c.vram > 0 {
				m.Add("a GPU", c.vram, 500e9)
			}
			return planner.With(m, cost(ubatch), planner.Options{RAM: planner.RAM{Whole: ram, OnDisk: ram}}), nil
		}
		p, err := plan(c.chosen)
		if err != nil {
			t.Fatal(err)
		}
		q, step, err := LongSteps(&o, f, room, p, plan)
		if err != nil || step != c.want || (q != p) != (c.want > c.chosen) {
			t.Errorf("%s: steps of %d tokens, want %d: %v", c.name, step, c.want, err)
		}
	}
}
