package hybrid_test

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestRecurrent: models with recurrent layers, with or without other layers and keys and values, have the same logits
// wherever layers are.
func TestRecurrent(t *testing.T) {
	on := func(gpu compute.Tier, attention bool) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu}, Attention: attention}
	}
	for _, family := range testenv.Few(t, 2, []string{"falcon-h1", "rwkv7", "mamba2", "granitehybrid", "nemotron_h", "qwen35", "qwen4exp", "lfm2", "mamba"}) {
		f := synthtest.Sparse(t, synth.Spec{Arch: family, Type: quant.F16}, layers)
		o := model.Options{Neurons: model.Neurons{Sparse: model.Off}}
		want, _ := logits(t, f, host(t), o)
		for name, plan := range map[string][layers + 1]compute.Place{
			"a layer in RAM":   {on(0, true), on(0, false), on(0, true)},
			"a layer on a GPU": {on(0, false), on(0, true), on(0, false)},
			"two GPUs and RAM": {on(0, true), on(1, false), on(1, true)},
		} {
			o.Places = plan[:]
			if got, _ := logits(t, f, device(t, plan, false), o); apart(got, want) != 0 {
				t.Errorf("%s, %s: other logits", family, name)
			}
		}
	}
}
