package hybrid_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

const (
	layers = 3
	ff     = 1024
)

func host(t testing.TB) *cpu.Device {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2, Floats: true})
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// logits evaluates a prompt and some tokens more, twice, so that what was recorded is replayed.
func logits(t *testing.T, f *gguf.File, dev compute.Device, o model.Options) (out [][]float32, use []model.NeuronUse) {
	t.Helper()
	defer dev.Close()
	o.Batch, o.Outputs, o.Cache = 16, 16, compute.CacheSpec{Pages: 3}
	m, err := model.Load(t.Context(), f, dev, o)
	if err != nil {
		t.Fatal(err)
	}
	// No neuron of these is a close call: counts are the same in every split, however its sums are ordered.
	tokens := []int32{1, 40, 300, 17, 99, 261, 6, 500, 33, 78, 431, 12, 350, 7, 222, 80}
	for range 2 {
		out = nil
		for at := 0; at < len(tokens); {
			n := 1
			if at == 0 {
				n = 11
			}
			p := compute.Params{Tokens: tokens[at : at+n], Pages: [][]int32{{2, 0}}, Seq: make([]int32, n), Out: []int32{int32(n - 1)}}
			for i := range n {
				p.Pos = append(p.Pos, int32(at+i))
			}
			if err := m.Forward(&p); err != nil {
				t.Fatal(err)
			}
			row, err := m.Logits(0)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, row)
			out = cloned(out)
			at += n
		}
	}
	return out, m.Neurons()
}

// device returns as many GPUs as plan names, and a host. If streamed, prompts' cold neurons are sent, in several
// chunks, the last of them smaller.
func device(t *testing.T, plan [layers + 1]compute.Place, streamed bool) compute.Device {
	return padded(t, plan, streamed, false)
}

// padded returns such a device; pad gives its GPUs' steps padding.
func padded(t *testing.T, plan [layers + 1]compute.Place, streamed, pad bool) compute.Device {
	t.Helper()
	return deviceOf(t, plan, streamed, func() hybrid.GPU { return newTapes(host(t), pad) })
}

// deviceOf is device with GPUs of another kind.
func deviceOf(t *testing.T, plan [layers + 1]compute.Place, streamed bool, gpu func() hybrid.GPU) compute.Device {
	t.Helper()
	return deviceBeside(host(t), plan, streamed, gpu)
}

// deviceBeside is deviceOf with a host.
func deviceBeside(processor *cpu.Device, plan [layers + 1]compute.Place, streamed bool, gpu func() hybrid.GPU) compute.Device {
	gpus := 0
	for _, p := range plan {
		gpus = max(gpus, int(p.Tier)+1)
	}
	var pairs []*hybrid.Device
	var home []int
	for j := range gpus {
		var attention []bool
		for _, p := range plan[:layers] {
			if p.Tier == compute.Tier(j) {
				attention = append(attention, p.Attention)
			}
		}
		pair := hybrid.New(gpu(), processor, attention)
		if streamed {
			pair.Stream(hybrid.Streaming{Tokens: 8, Experts: 8, Bytes: 300 << 10, Pages: 1 << 20})
		}
		pairs = append(pairs, pair)
	}
	if gpus == 1 {
		return pairs[0]
	}
	for _, p := range plan[:layers] {
		home = append(home, int(p.Tier))
	}
	return hybrid.NewMultiGPU(pairs, home)
}

// agree is the largest difference of a logit between two splits, as a share of the largest logit: sums in another
// order, in floats.
const agree = 1e-4

// TestSplits: every placement of a model's parts gives the same results, and each split the same bytes again. Models take
// turns with two halves of the placements; exhaustive runs try all with each.
func TestSplits(t *testing.T) {
	place := func(attention, predictor bool, hot int) compute.Place {
		return compute.Place{Split: compute.Split{Bound: hot}, Attention: attention, Predictor: predictor}
	}
	on := func(gpu compute.Tier, attention, predictor bool, hot int) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu, Bound: hot}, Attention: attention, Predictor: predictor}
	}
	plans := map[string][layers + 1]compute.Place{
		"all in RAM":         {},
		"all on the GPU":     {place(true, true, ff), place(true, true, ff), place(true, true, ff), place(true, false, 0)},
		"hot":                {place(true, true, 160), place(true, true, 33), place(true, true, 1000), place(true, false, 0)},
		"head in RAM":        {place(true, true, 160), place(true, true, 0), place(true, true, ff), place(false, false, 0)},
		"predictor in RAM":   {place(true, false, 160), place(true, false, 0), place(true, false, ff), place(true, false, 0)},
		"attention in RAM":   {place(false, false, 160), place(false, true, 96), place(false, false, ff), place(true, false, 0)},
		"some layers":        {place(false, false, 0), place(true, true, ff), place(false, false, 0), place(true, false, 0)},
		"neurons alone":      {place(false, false, 0), place(false, false, 512), place(false, false, 0), place(false, false, 0)},
		"attention alone":    {place(true, false, 0), place(true, false, 0), place(true, false, 0), place(false, false, 0)},
		"last layer in part": {place(false, false, 0), place(false, false, 0), place(true, true, 64), place(true, false, 0)},

		"two GPUs":        {place(true, true, 160), place(true, true, 33), on(1, true, true, 1000), on(1, true, false, 0)},
		"all on two GPUs": {place(true, true, ff), on(1, true, true, ff), on(1, true, true, ff), on(1, true, false, 0)},
		"to and fro":      {on(1, true, true, 160), place(true, false, ff), on(1, false, true, 96), place(true, false, 0)},
		"three GPUs":      {on(2, true, true, 64), place(false, false, 160), on(1, true, false, 160), on(2, false, false, 0)},
		"neurons on two":  {on(1, false, false, 512), place(false, false, 512), on(1, false, false, 0), place(false, false, 0)},
		"a GPU's head":    {place(true, true, 160), place(true, true, 0), place(false, false, 0), on(1, true, false, 0)},
	}
	// Of these, what prompts need of RAM is sent to the GPU, too.
	sent := []string{"hot", "all in RAM", "attention in RAM", "neurons alone", "last layer in part", "two GPUs", "three GPUs"}
	var halves [2][]string
	for i, name := range slices.Sorted(maps.Keys(plans)) {
		halves[i%2] = append(halves[i%2], name)
	}
	turn := testenv.Turns(t, halves[0], halves[1])
	type split struct {
		spec synth.Spec
		mode model.SparseMode
	}
	for i, c := range testenv.Few(t, 2, []split{
		{synth.Spec{Arch: "llama", Type: quant.F32}, model.Exact},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "llama", Type: quant.F32}, model.Off},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "opt", Type: quant.F32}, model.Exact},
		{synth.Spec{Arch: "gemma2", Type: quant.F32}, model.Exact},
		{synth.Spec{Arch: "olmo2", Type: quant.F32}, model.Exact},
		{synth.Spec{Arch: "gemma3n", Type: quant.F32}, model.Off},
		{synth.Spec{Arch: "gemma4", Type: quant.F32}, model.Exact},
		{synth.Spec{Arch: "deepseek2", Type: quant.F32}, model.Off},
		{synth.Spec{Arch: "qwen2moe", Type: quant.F32, Experts: 170, Used: 3, FF: 32}, model.Off},       // plans split layers by expert, too
		{synth.Spec{Arch: "gemma4", Type: quant.F32, Experts: 170, Used: 3, FF: 32}, model.Off},         // and a feed-forward layer in parallel to the experts
		{synth.Spec{Arch: "smallthinker", Type: quant.F32, Experts: 170, Used: 3, FF: 32}, model.Exact}, // routers are read before attention, perhaps on another GPU
		{synth.Spec{Arch: "falcon", Type: quant.F16, Magic: "PWRI"}, model.Predict},
	}) {
		t.Run(fmt.Sprintf("%s %s", c.spec.Arch, c.mode), func(t *testing.T) {
			t.Parallel()
			f := synthtest.Sparse(t, c.spec, layers)
			want, wantUse := logits(t, f, host(t), model.Options{Neurons: model.Neurons{Sparse: c.mode}})
			for _, name := range slices.Concat(turn(i)...) {
				plan := plans[name]
				logitsOf := func(streamed bool) ([][]float32, []model.NeuronUse) {
					return logits(t, f, device(t, plan, streamed), model.Options{Neurons: model.Neurons{Sparse: c.mode}, Places: plan[:]})
				}
				got, use := logitsOf(false)
				if slices.Contains(sent, name) {
					streamed, streamedUse := logitsOf(true)
					if d := apart(streamed, want); !(d <= agree) {
						t.Errorf("%s, streamed: a logit differs by %.2g of the largest, more than %g", name, d, agree)
					}
					if name == "hot" {
						if again, _ := logitsOf(true); apart(again, streamed) != 0 {
							t.Error("another run gives other bytes where prompts are streamed")
						}
					}
					for l, u := range streamedUse {
						if w := use[l]; u.Tokens != w.Tokens || u.Steps != w.Steps || u.Predicted != w.Predicted || u.Active != w.Active || u.Gated != w.Gated {
							t.Errorf("%s, streamed: layer %d counted %+v, otherwise %+v", name, l, u, w)
						}
					}
				}
				if d := apart(got, want); !(d <= agree) {
					t.Errorf("%s: a logit differs by %.2g of the largest, more than %g", name, d, agree)
				}
				if name == "hot" || name == "two GPUs" {
					if again, _ := logitsOf(false); apart(again, got) != 0 {
						t.Error("another run gives other bytes")
					}
				}
				for l, u := range use {
					w := wantUse[l]
					if c.mode != model.Off && (u.Tokens != w.Tokens || u.Predicted != w.Predicted || u.Active != w.Active || u.Gated != w.Gated) {
						t.Errorf("%s: layer %d counted %+v, in RAM %+v", name, l, u, w)
					}
				}
			}
		})
	}
}

// TestFactors: matrices with factors in their blocks keep them when they are split by neuron or by expert, and when
// prompts send them to a GPU.
func TestFactors(t *testing.T) {
	const close = 2e-2 // of products of activations in eight bits, which sums in another order round otherwise
	for _, c := range []struct {
		spec  synth.Spec
		bound int
	}{
		{synth.Spec{Arch: "llama", Type: quant.NVFP4}, 192},
		{synth.Spec{Arch: "qwen3moe", Type: quant.NVFP4, Experts: 8, Used: 3, FF: 64}, 3},
	} {
		f := synthtest.Sparse(t, c.spec, layers)
		want, _ := logits(t, f, host(t), model.Options{Neurons: model.Neurons{Sparse: model.Off}})
		var plan [layers + 1]compute.Place
		for l := range layers {
			plan[l] = compute.Place{Split: compute.Split{Bound: c.bound}, Attention: true}
		}
		for _, streamed := range []bool{false, true} {
			got, _ := logits(t, f, device(t, plan, streamed), model.Options{Neurons: model.Neurons{Sparse: model.Off}, Places: plan[:]})
			if d := apart(got, want); !(d <= close) {
				t.Errorf("%s, streamed %t: a logit differs by %.2g of the largest, more than %g", c.spec.Arch, streamed, d, close)
			}
		}
	}
}

func apart(a, b [][]float32) float64 {
	worst, largest := 0.0, 0.0
	for i := range a {
		for j := range a[i] {
			worst = max(worst, math.Abs(float64(a[i][j]-b[i][j])))
			largest = max(largest, math.Abs(float64(b[i][j])))
		}
	}
	return worst / largest
}
