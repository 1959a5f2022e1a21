package planner

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPublished: if memory was the limit, the cost model is near published measurements: of floating-point weights of
// models far larger than the GPU, and of the processor alone. The tolerance allows for figures with two digits on
// unstated bandwidths.
func TestPublished(t *testing.T) {
	testenv.Thorough(t)
	const tolerance = 0.3
	list, err := Simulate()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Type != quant.F16 || s.Shape == "opt-13b" {
			continue
		}
		for _, v := range []struct {
			who             string
			published, plan float64
		}{{"PowerInfer", s.PowerInfer, 1 / s.Plan.Seconds}, {"llama.cpp", s.LlamaCPP, 1 / s.ByLayers.Seconds}} {
			if v.published > 0 && math.Abs(v.plan/v.published-1) > tolerance {
				t.Errorf("%s of %s on %s: planned %.2f tokens/s, published %.2f", v.who, s.Shape, s.PC, v.plan, v.published)
			}
		}
		if s.Hot < 0 || s.Hot > 1 || s.PC == "pc-high-cpu" && s.Hot != 0 {
			t.Errorf("%s: %g of the activations on the GPU", s.Shape, s.Hot)
		}
	}
}
