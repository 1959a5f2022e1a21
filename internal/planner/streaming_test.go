package planner

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// TestStreamingTokens: how many tokens pay for sending a layer follows from the time of its turns, one after the other:
// in each the cores pack a chunk and the bus copies the one before, and both together take no less than RAM needs. The
// bus carries rows as the GPU has them; the cores pack them as the file has them.
func TestStreamingTokens(t *testing.T) {
	const products, upload, packs, ram = 4e11, 1e10, 8e9, 25e9 // a second
	const budget = 8 << 30
	const chunk = float64(budget / budgetOfChunks)
	// streaming takes a layer's last chunk for as large as the others.
	const partialChunk = 0.06
	for _, c := range []struct {
		model     string
		file, gpu float64 // bytes for 256 elements
		bytes     float64 // of a layer's neurons or experts, in the file
		experts   float64 // of a layer for each that a token uses; 0: no experts
	}{
		{"llama-7b,layers=1,type=q4_0", 144, 144, 3 * 11008 * 4096 * 144 / 256, 0},
		{"llama-7b,layers=1,type=q8_0", 272, 272, 3 * 11008 * 4096 * 272 / 256, 0},
		{"llama-7b,layers=1,type=iq1_s", 50, 106, 3 * 11008 * 4096 * 50 / 256, 0},   // two bits of code and one of sign an element, and the scales
		{"llama-7b,layers=1,type=iq3_s", 110, 138, 3 * 11008 * 4096 * 110 / 256, 0}, // three bits of code
		{"qwen3-30b-a3b,layers=1,type=q8_0", 272, 272, 128 * 3 * 768 * 2048 * 272 / 256, 128.0 / 8},
	} {
		b, err := modelcost.Described(c.model, modelcost.Options{Context: 4096})
		if err != nil {
			t.Fatal(err)
		}
		m := On(measure.Machine{
			Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: ram}}, Products: products, Packs: packs,
			GPUs: []measure.GPU{{ID: measure.ID{Name: "a GPU"}, Read: 400e9, Upload: upload, Download: 10e9, HandOff: 40e-6}},
		}, []vulkan.Info{{Name: "a GPU", Kind: vulkan.Discrete, Free: 8 << 30}})

		var seconds, copied float64 // copied: of the file, in the turn before
		for left := c.bytes; left > 0 || copied > 0; {
			packed := min(left, chunk*c.file/c.gpu)
			sent := copied * c.gpu / c.file
			seconds += max(packed/packs, sent/upload, (2*packed+sent)/ram)
			left, copied = left-packed, packed
		}
		want := seconds / (c.bytes / c.file * 256) * products
		s := m.streaming(0, nil, &b, budget)
		got := float64(s.Tokens)
		if c.experts > 0 {
			want, got = want*c.experts, float64(s.Experts)
		}
		if math.Abs(got-want) > partialChunk*want+1 {
			t.Errorf("%s is sent from %g tokens on, not %.1f", c.model, got, want)
		}
		t.Logf("%s: %g tokens, by turns %.1f", c.model, got, want)
	}
}

// TestSending: a layer that is sent in one chunk takes packing and copying one after the other; one of very many takes
// what the slowest of cores, bus and RAM needs.
func TestSending(t *testing.T) {
	for _, c := range []struct {
		w      sending
		chunks float64
		want   float64
	}{
		{sending{3, 2, 4}, 0, 5},
		{sending{3, 2, 4}, 1, 5},
		{sending{3, 2, 4}, math.Inf(1), 5}, // a GPU without a budget has room for no chunk
		{sending{3, 2, 4}, 2, 4.5},
		{sending{3, 2, 4}, 1e9, 4},
		{sending{3, 2, 1}, 1e9, 3},
		{sending{3, 6, 1}, 1e9, 6},
	} {
		if got := c.w.seconds(c.chunks); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v in %g chunks takes %g, not %g", c.w, c.chunks, got, c.want)
		}
	}
}
