package session

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestContextFitsMemory: the context is the model's own if memory has room for it, and is cut otherwise. A context that
// the user asks for stays.
func TestContextFitsMemory(t *testing.T) {
	const huge = 1 << 30 // tokens: some terabytes of keys and values
	for _, c := range []struct {
		trained string
		asked   int
		whole   bool
	}{{"8192", 0, true}, {"1073741824", 0, false}, {"1073741824", huge, true}} {
		f := synthtest.File(t, synth.Spec{Arch: "llama", Layers: 4, Embd: 256, FF: 64, Heads: 4, Type: quant.F16, Activation: "silu", Seed: 1})
		if err := Override(f, []string{"llama.context_length=int:" + c.trained}); err != nil {
			t.Fatal(err)
		}
		o := Options{}
		o.Engine.Context = c.asked
		o.Planner.Devices = vulkan.None
		room := o.Engine.Room()
		p, cut, err := o.planFitting(t.Context(), f, room)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		need, err := o.Engine.Memory(f, plan.Layout())
		if err != nil {
			t.Fatal(err)
		}
		fits := need <= room.Whole
		switch {
		case c.whole && (o.Engine.Context != c.asked || cut != 0):
			t.Errorf("%+v: a context of %d, cut to %d", c, o.Engine.Context, cut)
		case !c.whole && (!fits || cut < leastContext || cut >= huge || o.Engine.Context != cut):
			t.Errorf("%+v: a context of %d, fits %v, cut to %d", c, o.Engine.Context, fits, cut)
		}
		if n, err := NeedOf(t.Context(), f, Options{Engine: engine.Options{Limits: engine.Limits{Context: c.asked}}, Planner: o.Planner}); err != nil || (n.RAM > 1<<40) != (c.asked == huge) {
			t.Errorf("%+v needs %d bytes, %v", c, n.RAM, err)
		}
	}
}
