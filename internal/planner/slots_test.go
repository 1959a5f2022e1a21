package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// TestSlots: layers with some experts on a GPU get slots within the cache's size, for at least one expert, if experts
// can move at all. The plan's sizes equal the sizes of its places.
func TestSlots(t *testing.T) {
	b, err := modelcost.Described("qwen3-30b-a3b,layers=6,vocab=4096", modelcost.Options{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	expert := b.Model.Layers[0].Units.Size
	exact := b
	exact.ExpertMode = model.Exact
	room := 0 // for experts on the GPU, as far as it is known
	for _, c := range []struct {
		name   string
		cost   modelcost.Cost
		cache  int64
		most   int // experts in slots, of all layers
		notice string
	}{
		{"none asked for", b, 0, 0, ""},
		{"more than there are experts", b, 1 << 40, 6 * 127, ""},
		{"as many as layers", b, 6 * expert, 6, ""},
		{"two layers' and some", b, 100 * expert, 100, ""},
		{"less than an expert", b, expert - 1, 0, "no experts follow the text"},
		{"exact", exact, 1 << 40, 0, "mode off has them follow the text"},
	} {
		var said []string
		m := Described(64<<30, 60e9)
		m.Add("a GPU", 1<<30, 500e9)
		p := With(m, c.cost, Options{GPUs: GPUs{MoECache: &c.cache}, Notice: func(s string) { said = append(said, s) }})
		plan, err := p.Plan()
		if err != nil || plan == nil {
			t.Fatalf("%s: plan %v, error %v", c.name, plan, err)
		}
		slots, held, largest := 0, 0, int64(0)
		for l, y := range plan.Places[:6] {
			held += y.Bound
			if !y.Slots {
				continue
			}
			largest = max(largest, b.Model.Layers[l].Units.Size)
			if slots += y.Bound; y.Bound < 1 || y.Bound >= 128 {
				t.Errorf("%s: layer %d has %d slots", c.name, l, y.Bound)
			}
		}
		if slots > c.most || (slots > 0) != (c.most > 0) || int64(slots)*expert > c.cache {
			t.Errorf("%s: %d slots", c.name, slots)
		}
		if slots > 0 && held < room-128 { // one layer, at most, holds fewer
			t.Errorf("%s: the GPU has %d experts, and room for %d", c.name, held, room)
		}
		room = max(room, held)
		if (c.notice != "") != slices.ContainsFunc(said, func(s string) bool { return c.notice != "" && strings.Contains(s, c.notice) }) {
			t.Errorf("%s: it says %q", c.name, said)
		}
		if y := plan.Layout(); y.Staged != 4*largest {
			t.Errorf("%s: %d bytes of RAM for copies of up to %d", c.name, y.Staged, largest)
		}
		if plan.GPUs[0].Planned > plan.GPUs[0].Budget || plan.Places[6].Tier != compute.Tier(0) {
			t.Errorf("%s: %d bytes planned of %d, places %v", c.name, plan.GPUs[0].Planned, plan.GPUs[0].Budget, plan.Places)
		}
	}
}

// TestFollowWherePays: where nobody says whether experts follow the text, they do on measured GPUs, if RAM has room and
// the plan is chosen by what they save.
func TestFollowWherePays(t *testing.T) {
	b, err := modelcost.Described("qwen3-30b-a3b,layers=6,vocab=4096", modelcost.Options{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	known := b
	known.ExpertsKnown = true
	none, two := int64(0), 2
	for _, c := range []struct {
		name   string
		cost   modelcost.Cost
		memory uint64
		upload float64
		kind   vulkan.Kind
		o      Options
		want   bool
	}{
		{"room", b, 8 << 30, 10e9, vulkan.Discrete, Options{}, true},
		{"no room", b, 2 << 30, 10e9, vulkan.Discrete, Options{}, false},
		{"experts on the disk", b, 512 << 20, 10e9, vulkan.Discrete, Options{}, true},
		{"unknown RAM", b, 0, 10e9, vulkan.Discrete, Options{}, false},
		{"unknown bus", b, 8 << 30, 0, vulkan.Discrete, Options{}, false},
		{"software", b, 8 << 30, 10e9, vulkan.CPU, Options{}, false},
		{"known uses", known, 8 << 30, 10e9, vulkan.Discrete, Options{}, false},
		{"forbidden", b, 8 << 30, 10e9, vulkan.Discrete, Options{GPUs: GPUs{MoECache: &none}}, false},
		{"whole layers", b, 8 << 30, 10e9, vulkan.Discrete, Options{GPUs: GPUs{Layers: &two}}, false},
	} {
		figures := measure.Machine{Memory: c.memory, Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: 40e9}}}
		if c.upload > 0 {
			figures.GPUs = []measure.GPU{{ID: measure.ID{Name: "a GPU"}, Read: 400e9, Upload: c.upload, Download: 10e9, HandOff: 40e-6}}
		}
		c.o.Notice = func(s string) { t.Errorf("%s: it says %q", c.name, s) }
		p := With(On(figures, []vulkan.Info{{Name: "a GPU", Kind: c.kind, Free: 1 << 30}}), c.cost, c.o)
		plan, err := p.Plan()
		if err != nil || plan == nil {
			t.Fatalf("%s: plan %v, error %v", c.name, plan, err)
		}
		if got := slices.ContainsFunc(plan.Places, func(y compute.Place) bool { return y.Slots }); got != c.want {
			t.Errorf("%s: experts follow the text: %v, want %v", c.name, got, c.want)
		}
	}
}
