package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

const bytesLegend = `What is counted of each family's small models, in bytes. "given" is what a device gets of weights, and the cache that it
makes; "given with GPUs" is what it gets where a part of the model is for GPUs: that of the plan, or a fixed one. "needs" is
what the engine says that loading takes of RAM. "cost" is what plans are made with: of each layer attention + what is expanded beside it + keys and values +
predictor + units × their size (always read; sometimes read), then the head, the rest and the layer that predicts a
further token. "plan" is what of each layer, and of the head, goes to a GPU that holds half of the model: a attention, p
predictor, and how many units.
`

// isCounted reports whether the test counts the bytes of a traced model. The bytes of other models are counted by the
// same code.
func isCounted(name string) bool {
	return slices.ContainsFunc([]string{"the usual", "weights in", "an original", "a layer", "a prepared", "experts", "a first", "optional"}, func(s string) bool { return strings.HasPrefix(name, s) })
}

// countedText returns m's counts, as far as it can be loaded.
func countedText(t *testing.T, m tracedModel) string {
	t.Helper()
	text := ""
	done := map[string]bool{}
	for _, l := range m.loads {
		o := l.options
		if len(o.Adapters) > 1 || o.Order != nil || o.Places != nil || l.observed || l.shaped || o.Pinned || o.Recall || o.Drafts {
			continue
		}
		o.Context = 0
		c, err := modelcost.Of(m.file, modelcost.Options{
			Context: 100, UBatch: 16, Neurons: model.Neurons{Sparse: o.Sparse, Activation: o.Activation}, Law: modelcost.UsualLaw(), Further: o.Further, Adapters: o.Adapters, CacheTypes: o.CacheTypes,
		})
		if err != nil || o.Magnitudes != nil {
			continue
		}
		o.Batch, o.Outputs, o.Cache = 16, 1, c.Cache
		given := func(o model.Options, expands bool) *paper {
			d := &paper{files: []*gguf.File{m.file}, expands: expands}
			if _, err := model.Load(t.Context(), m.file, d, o); err != nil {
				d = nil
			}
			return d
		}
		whole := given(o, true)
		if whole == nil {
			continue
		}
		one := costText(&c)
		one += fmt.Sprintf("    given %d, cache %d\n", whole.bytes.ram, whole.cache.Bytes())
		e := engine.Options{Limits: engine.Limits{Context: 100, UBatch: 16}, Neurons: engine.Neurons{Sparse: o.Sparse, Activation: o.Activation}, Adapters: o.Adapters, Cache: engine.Cache{CacheTypes: o.CacheTypes}, Drafts: engine.Drafts{Further: o.Further}}
		if o.Further {
			e.Drafts.Most = 1
		}
		need, err := e.Memory(m.file, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		one += fmt.Sprintf("    needs %d\n", need)
		o.Places = dividedPlaces(len(c.Model.Layers))
		on := placement.Machine{Stream: 40e9, Rows: 20e9, HandOff: 40e-9, GPUs: []placement.GPU{{Read: 400e9, Launch: 1e-9, Budget: c.Model.Bytes() / 2}}}
		if m.name == "the usual model" && len(o.Adapters) == 0 {
			plan, err := placement.Solve(c.Model, on)
			if err != nil {
				t.Fatal(err)
			}
			one += fmt.Sprintf("    plan%s, a token %.4g s\n", placesText(plan.Places()), plan.Seconds)
			o.Places = plan.Places()
		}
		if half := given(o, true); half != nil {
			if need, err = e.Memory(m.file, placement.Layout{Places: o.Places}); err != nil {
				t.Fatal(err)
			}
			one += fmt.Sprintf("    given with GPUs %d, on them %d, needs %d\n", half.bytes.ram, half.bytes.gpu, need)
		}
		if !done[one] {
			done[one] = true
			text += fmt.Sprintf("  %s, %s\n%s", m.name, l.name, one)
		}
	}
	return text
}

func placesText(places []compute.Place) (s string) {
	for _, p := range places {
		s += " "
		if p.Attention {
			s += "a"
		}
		if p.Predictor {
			s += "p"
		}
		if p.Further {
			s += "f"
		}
		s += fmt.Sprint(p.Bound)
	}
	return s
}

// costText writes a cost. Equal neighbouring layers have one line.
func costText(c *modelcost.Cost) string {
	layer := func(y *placement.Layer) string {
		u, sum := &y.Units, 0.0
		for _, v := range u.Sometimes {
			sum += v
		}
		s := fmt.Sprintf("%d+%d+%d+%d+%d×%d (%d; %.6g)", y.Attention, y.Expanded, y.KV, y.Predictor, len(u.Sometimes), u.Size, u.Always, sum)
		if y.Experts {
			s += " experts"
		}
		return s
	}
	text := fmt.Sprintf("    cost %s", c.Mode)
	for l := 0; l < len(c.Model.Layers); {
		from := l
		for l < len(c.Model.Layers) && layer(&c.Model.Layers[l]) == layer(&c.Model.Layers[from]) {
			l++
		}
		text += fmt.Sprintf(", layers %d-%d %s", from, l-1, layer(&c.Model.Layers[from]))
	}
	return text + fmt.Sprintf(", head %d, rest %d, further %s\n", c.Model.Head, c.Rest, layer(&c.Further))
}
