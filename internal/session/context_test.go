package session

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// A model's own context is used where memory has room for it, and is cut where it has not; what a user asks for stays.
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
		var told []string
		o := Options{}
		o.Engine.Context = c.asked
		o.Planner.Device, o.Planner.Notice = vulkan.None, func(line string) { told = append(told, line) }
		p, err := o.planFitting(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		fits, err := o.Engine.Fits(f, plan.Layout())
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.whole && (o.Engine.Context != c.asked || len(told) > 0):
			t.Errorf("%+v: a context of %d, and it is told %q", c, o.Engine.Context, told)
		case !c.whole && (!fits || o.Engine.Context < leastContext || o.Engine.Context >= huge || len(told) != 1 || !strings.Contains(told[0], "-c sets another")):
			t.Errorf("%+v: a context of %d, fits %v, and it is told %q", c, o.Engine.Context, fits, told)
		}
	}
}
