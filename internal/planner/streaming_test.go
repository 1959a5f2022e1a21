package planner

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// TestStreamingTokens: how many tokens pay for sending rows follows from the bytes that go over the bus, which are those of the GPU's layout, and from
// those that the host packs, which are the file's.
func TestStreamingTokens(t *testing.T) {
	const products, upload, packs = 4e11, 1e10, 8e9
	for _, c := range []struct {
		typ       string
		file, gpu float64 // bytes for 256 elements
	}{
		{"q4_0", 144, 144},
		{"q8_0", 272, 272},
		{"iq1_s", 50, 106},  // two bits of code and one of sign an element, and the scales
		{"iq3_s", 110, 138}, // three bits of code
	} {
		shape, err := modelcost.Describe("llama-7b,layers=1,type=" + c.typ)
		if err != nil {
			t.Fatal(err)
		}
		m := On(measure.Machine{
			Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: 40e9}}, Products: products, Packs: packs,
			GPUs: []measure.GPU{{ID: measure.ID{Name: "a GPU"}, Read: 400e9, Upload: upload, Download: 10e9, HandOff: 40e-6}},
		}, []vulkan.Info{{Name: "a GPU", Kind: vulkan.Discrete, Free: 8 << 30}})
		b := shape.Cost(4096, 0)
		want := int(math.Ceil((c.gpu/upload + c.file/packs) / 256 * products))
		if got := m.streaming(0, nil, &b, 8<<30).Tokens; got != want {
			t.Errorf("%s is sent from %d tokens on, not %d", c.typ, got, want)
		}
	}
}
