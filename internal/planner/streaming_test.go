package planner

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// TestStreamingTokens: how many tokens are needed for sending to be worthwhile follows from the slowest of three. The
// cores pack rows of the file's size, the bus carries rows of the GPU's size, and RAM reads and writes both. Nothing is
// sent to a GPU with products slower than the cores'.
func TestStreamingTokens(t *testing.T) {
	const products, upload, packs, ram = 4e11, 1e10, 8e9, 25e9 // a second
	const budget = 8 << 30
	for _, c := range []struct {
		model     string
		file, gpu float64 // bytes for 256 elements
		experts   float64 // experts of a layer for each that a token uses; 0: no experts
	}{
		{"llama-7b,layers=1,type=q4_0", 144, 144, 0},
		{"llama-7b,layers=1,type=q8_0", 272, 272, 0},
		{"llama-7b,layers=1,type=iq1_s", 50, 106, 0},  // two bits of code and one of sign an element, and the scales
		{"llama-7b,layers=1,type=iq3_s", 110, 138, 0}, // three bits of code
		{"qwen3-30b-a3b,layers=1,type=q8_0", 272, 272, 128.0 / 8},
	} {
		b, err := modelcost.Described(c.model, modelcost.Options{Context: 4096})
		if err != nil {
			t.Fatal(err)
		}
		m := On(measure.Machine{
			Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: ram}}, Products: products, Packs: packs,
			GPUs: []measure.GPU{{ID: measure.ID{Name: "a GPU"}, Read: 400e9, Upload: upload, Download: 10e9, HandOff: 40e-6}},
		}, []vulkan.Info{{Name: "a GPU", Kind: vulkan.Discrete, Free: 8 << 30}})

		want := max(c.file/packs, c.gpu/upload, (2*c.file+c.gpu)/ram) / 256 * products
		s := m.streaming(0, nil, &b, budget)
		got := float64(s.Tokens)
		if c.experts > 0 {
			want, got = want*c.experts, float64(s.Experts)
		}
		if math.Abs(got-want) > 1 {
			t.Errorf("%s is sent from %g tokens on, not %.1f", c.model, got, want)
		}
		m.gpus[0].known.Products = products / 2
		if s := m.streaming(0, nil, &b, budget); s.Tokens != 0 || s.Experts != 0 {
			t.Errorf("%s is sent from %d and %d tokens on to a GPU that is slower than the cores", c.model, s.Tokens, s.Experts)
		}
	}
}

// TestLent: experts on disk have less room in RAM where chunks of them are sent to a GPU: by what these pass through on
// their way, and by what the host lends for their reads.
func TestLent(t *testing.T) {
	b, err := modelcost.Described("qwen3-30b-a3b,layers=4,vocab=4096", modelcost.Options{Context: 1024, UBatch: 512})
	if err != nil {
		t.Fatal(err)
	}
	room := func(tokens int) (int64, []hybrid.Streaming) {
		m := Described(8<<30, 60e9)
		m.Add("a GPU", 500<<20, 500e9)
		ram := b.Model.Bytes() / 2
		s, err := With(m, b, Options{GPUs: GPUs{StreamTokens: &tokens}, RAM: RAM{Whole: ram, OnDisk: ram}}).Solve()
		if err != nil || s.Plan.Disk.Bytes == 0 {
			t.Fatalf("%d bytes on disk: %v", s.Plan.Disk.Bytes, err)
		}
		return s.Machine.RAM, s.Streams
	}
	without, _ := room(0)
	with, streams := room(64)
	const chunks = hybrid.Rooms + 3 // one is packed while two are read
	if got, want := without-with, chunks*streams[0].Bytes; got != want || want == 0 {
		t.Errorf("sending takes %d bytes of the room, want %d", got, want)
	}
}
