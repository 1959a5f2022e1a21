package hybrid_test

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestMultiGPUReadsAhead: with several GPUs the host reads ahead in the same way, with predictions for layers of the
// same GPU, and changes no byte.
func TestMultiGPUReadsAhead(t *testing.T) {
	plan := [layers + 1]compute.Place{
		{Split: compute.Split{Bound: 160}, Attention: true, Predictor: true},
		{Split: compute.Split{Bound: 33}, Attention: true, Predictor: true},
		{Split: compute.Split{Tier: 1, Bound: 96}, Attention: true, Predictor: true},
		{Split: compute.Split{Tier: 1}, Attention: true},
	}
	f := synthtest.Sparse(t, synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, layers)
	o := model.Options{Neurons: model.Neurons{Sparse: model.Predict}, Places: plan[:]}
	want, _ := logits(t, f, device(t, plan, false), o)
	r := &reader{Device: host(t)}
	pair := func(attention ...bool) *hybrid.Device {
		return hybrid.New(&idleTapes{newTapes(host(t), false)}, r, attention)
	}
	got, _ := logits(t, f, hybrid.NewMultiGPU([]*hybrid.Device{pair(true, true), pair(true)}, []int{0, 0, 1}), o)
	if apart(got, want) != 0 {
		t.Error("other bytes where the host reads ahead")
	}
	if r.hits == 0 || r.useless > r.hits {
		t.Errorf("%d neurons of the second layer were guessed, and %d others", r.hits, r.useless)
	}
}

// TestMultiGPURefuses: a weight for a missing GPU, and a cache for other layers, are errors.
func TestMultiGPURefuses(t *testing.T) {
	f := hybrid.NewMultiGPU([]*hybrid.Device{hybrid.New(newTapes(host(t), false), host(t), nil)}, []int{0})
	defer f.Close()
	for _, gpu := range []int{-1, 1} {
		if _, err := f.Vector(compute.Source{Name: "w", Type: quant.F32, Rows: 1, Cols: 1, Data: make([]byte, 4), Split: compute.Split{Tier: compute.Tier(gpu)}}); err == nil || !strings.Contains(err.Error(), `tensor "w": there are 1 GPUs`) {
			t.Errorf("GPU %d: error %v", gpu, err)
		}
	}
	if _, err := f.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: 32, Value: 32}, {Heads: 1, Key: 32, Value: 32}}, Pages: 1}); err == nil {
		t.Error("a cache of another number of layers")
	}
}
