package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// TestSlots: layers whose experts lie partly on a GPU get slots within the cache's size, of at least one expert, where experts can move at all; what the plan
// says it takes is what its places take.
func TestSlots(t *testing.T) {
	b, err := modelcost.Described("qwen3-30b-a3b,layers=6,vocab=4096", modelcost.Options{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	expert := b.Model.Layers[0].Units.Size
	exact := b
	exact.ExpertMode = model.Exact
	for _, c := range []struct {
		name   string
		cost   modelcost.Cost
		cache  int64
		most   int // experts in slots, of all layers
		notice string
	}{
		{"none asked for", b, 0, 0, ""},
		{"more than there are experts", b, 1 << 40, 6 * 127, ""},
		{"one for each layer", b, 6 * expert, 6, ""},
		{"less than an expert", b, expert - 1, 0, "no experts follow the text"},
		{"exact", exact, 1 << 40, 0, "--sparse off has them follow the text"},
	} {
		var said []string
		m := Described(64<<30, 60e9)
		m.Add("a GPU", 1<<30, 500e9)
		p := With(m, c.cost, Options{MoECache: c.cache, Notice: func(s string) { said = append(said, s) }})
		plan, err := p.Plan()
		if err != nil || plan == nil {
			t.Fatalf("%s: plan %v, error %v", c.name, plan, err)
		}
		slots := 0
		for l, y := range plan.Places[:6] {
			if !y.Slots {
				continue
			}
			if slots += y.Bound; y.Bound < 1 || y.Bound >= 128 {
				t.Errorf("%s: layer %d has %d slots", c.name, l, y.Bound)
			}
		}
		if slots > c.most || (slots > 0) != (c.most > 0) || int64(slots)*expert > c.cache {
			t.Errorf("%s: %d slots", c.name, slots)
		}
		if (c.notice != "") != slices.ContainsFunc(said, func(s string) bool { return c.notice != "" && strings.Contains(s, c.notice) }) {
			t.Errorf("%s: it says %q", c.name, said)
		}
		if plan.GPUs[0].Planned > plan.GPUs[0].Budget || plan.Places[6].Tier != compute.Tier(0) {
			t.Errorf("%s: %d bytes planned of %d, places %v", c.name, plan.GPUs[0].Planned, plan.GPUs[0].Budget, plan.Places)
		}
	}
}
