package planner

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// TestPromptRate: a prompt takes its products, or the bytes that they read, on each processor. Where weights in RAM are
// sent to the GPU, the slower of sending them and the GPU's products decides.
func TestPromptRate(t *testing.T) {
	const cores, gpu, ram, memory, upload, packs, handOff = 4e11, 2e13, 40e9, 1e12, 10e9, 20e9, 40e-6
	const layers, step = 4, 512
	speeds := func(read float64) *placement.Speeds {
		r := placement.Rate{Read: read}
		return &placement.Speeds{Attention: r, Predictor: r, Dense: r, Sparse: r, Each: 0.1 / read}
	}
	figures := measure.Machine{
		Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: ram}}, Products: cores, Packs: packs, Speeds: speeds(ram),
		GPUs: []measure.GPU{{ID: measure.ID{Name: "a GPU"}, Read: memory, Upload: upload, Download: upload, Products: gpu, HandOff: handOff, Speeds: speeds(memory)}},
	}
	b, err := modelcost.Described("llama-7b,type=q4_0,layers=4", modelcost.Options{Context: 4096, UBatch: step})
	if err != nil {
		t.Fatal(err)
	}
	layer := &b.Model.Layers[0]
	bytes := float64(layer.Attention+layer.Predictor) + float64(layer.Units.Size)*float64(len(layer.Units.Sometimes))
	products := bytes * 256 / 144 // of a token in a layer
	head := float64(b.Model.Head)
	all, half, none, never := 99, layers/2, 0, 0
	for name, c := range map[string]struct {
		layers, stream *int
		tokens         int
		want           float64 // seconds
	}{
		"on the GPU":        {&all, nil, 1024, 2*layers*step*products/gpu + head/memory + handOff/2},
		"a few on the GPU":  {&all, nil, 2, layers*bytes/memory + head/memory + handOff/2},
		"in RAM, sent":      {&none, nil, 512, layers*bytes/upload + head/ram},
		"half, not sent":    {&half, &never, 512, layers/2*(step*products/gpu+step*products/cores) + head/ram},
		"the last is short": {&all, nil, 768, 1.5*layers*step*products/gpu + head/memory + handOff/2},
	} {
		p := With(On(figures, []vulkan.Info{{Name: "a GPU", Kind: vulkan.Discrete, Free: 80 << 30}}), b, Options{GPUs: GPUs{Layers: c.layers, StreamTokens: c.stream}})
		if got, want := p.PromptRate(c.tokens), float64(c.tokens)/c.want; math.Abs(got-want) > 0.01*want {
			t.Errorf("%s: %.1f tokens/s of a prompt of %d, want %.1f", name, got, c.tokens, want)
		}
		if one, many := p.RateTogether(1), p.RateTogether(8); math.Abs(one-p.Rate()) > 1e-6*one || many < one || many > 8*one {
			t.Errorf("%s: one text has %.1f tokens/s, planned are %.1f, and 8 texts have %.1f", name, one, p.Rate(), many)
		}
	}
}
