package planner

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// TestWholeLayersWhereStepsRead: steps cannot read layers from the disk that a GPU has a part of. So GPUs hold whole layers
// of a dense model that does not fit in memory, by the plan's count or by the engine's.
func TestWholeLayersWhereStepsRead(t *testing.T) {
	b, err := modelcost.Described("llama-7b,type=q4_0,layers=4,ff=2048,vocab=4096,mode=off", modelcost.Options{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	const layers, ff = 4, 2048
	fits := func(yes bool) func(placement.Layout) bool {
		return func(on placement.Layout) bool {
			if len(on.Places) != layers+1 {
				t.Errorf("%d places", len(on.Places))
			}
			return yes
		}
	}
	for _, c := range []struct {
		name  string
		ram   int64
		fits  func(placement.Layout) bool
		whole bool
	}{
		{"it fits", 64 << 30, nil, false},
		{"it fits by both counts", 64 << 30, fits(true), false},
		{"not by the engine's", 64 << 30, fits(false), true},
		{"not by the plan's", 64 << 20, fits(true), true},
	} {
		m := Described(64<<30, 60e9)
		m.Add("a GPU", 280<<20, 500e9)
		plan, err := With(m, b, Options{RAM: RAM{Whole: c.ram, OnDisk: c.ram, Fits: c.fits}}).Plan()
		if err != nil || plan == nil {
			t.Fatalf("%s: plan %v, error %v", c.name, plan, err)
		}
		split := slices.ContainsFunc(plan.Places[:layers], func(y compute.Place) bool {
			return y.Attention != (y.Bound == ff) || y.Bound > 0 && y.Bound < ff
		})
		if split == c.whole {
			t.Errorf("%s: %+v", c.name, plan.Places)
		}
	}
}
