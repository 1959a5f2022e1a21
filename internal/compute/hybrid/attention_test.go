package hybrid_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// attentionAgrees is the largest difference of an element to the scalar device's, which computes in float64; keys and
// values are halves in both.
const attentionAgrees = 1e-4

// attended returns the outputs of attention with a window, a cap of the scores and sinks in each layer, with different
// sinks, for a prompt and the token after it. After these come the outputs of each layer with selected positions.
// [steps][2·layers][tokens·heads·dim]
func attended(t *testing.T, dev compute.Device, places []compute.Place, seed uint64) (all [][][]float32) {
	t.Helper()
	defer dev.Close()
	const kv, group, dim, prompt, selected = 2, 3, 32, 20, 4
	rng := rand.New(rand.NewPCG(seed, 0))
	bytes := func(rows, cols int, scale float64) []byte {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(scale * rng.NormFloat64())
		}
		b := make([]byte, 4*len(x))
		quant.Encode(quant.F32, b, x)
		return b
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	table := func(cols int) *compute.Matrix {
		m, err := dev.Matrix(compute.Source{Name: "table", Type: quant.F32, Rows: prompt + 1, Cols: cols, Data: bytes(prompt+1, cols, 1)}, compute.Lookup)
		must(err)
		return m
	}
	tensor := func(cols int) compute.Tensor {
		x, err := dev.Tensor(prompt, cols)
		must(err)
		return x
	}
	queries, keys, values, indices := table(kv*group*dim), table(kv*dim), table(kv*dim), table(dim)
	q, k, v, index := tensor(kv*group*dim), tensor(kv*dim), tensor(kv*dim), tensor(dim)
	spec := compute.CacheSpec{Layers: slices.Repeat([]compute.KVShape{{Heads: kv, Key: dim, Value: dim}}, layers), Pages: 1}
	for l := range layers { // index keys
		spec.Layers, spec.Further = append(spec.Layers, compute.KVShape{Heads: 1, Key: dim, Value: dim, Within: true}), append(spec.Further, l)
	}
	cache, err := dev.Cache(spec)
	must(err)
	blocks := tensor(kv * (1 + selected))
	var outs []compute.Tensor
	var sinks, slopes []*compute.Vector
	for l := range layers {
		s, err := dev.Vector(compute.Source{Name: "sinks", Type: quant.F32, Rows: 1, Cols: kv * group, Data: bytes(1, kv*group, 3), Split: places[l].Split})
		must(err)
		fall, err := dev.Vector(compute.Source{Name: "slopes", Type: quant.F32, Rows: 1, Cols: kv * group, Data: bytes(1, kv*group, 0.1), Split: places[l].Split})
		must(err)
		outs, sinks, slopes = append(outs, tensor(kv*group*dim)), append(sinks, s), append(slopes, fall)
	}
	for range layers {
		outs = append(outs, tensor(kv*group*dim))
	}
	for _, step := range [][2]int{{0, prompt}, {prompt, prompt + 1}} {
		n := step[1] - step[0]
		p := compute.Params{Pages: [][]int32{{0}}, Seq: make([]int32, n)}
		for pos := step[0]; pos < step[1]; pos++ {
			p.Tokens, p.Pos = append(p.Tokens, int32(pos)), append(p.Pos, int32(pos))
		}
		must(dev.Run(compute.Segment{Name: "attention", Rows: n}, &p, func(verbs compute.Verbs) {
			verbs.Embed(q.First(n), queries)
			verbs.Embed(k.First(n), keys)
			verbs.Embed(v.First(n), values)
			verbs.Embed(index.First(n), indices)
			for l := range layers {
				verbs.StoreKV(cache, l, k.First(n), v.First(n))
				verbs.Attend(outs[l].First(n), q.First(n), cache, l, compute.Attention{
					Scale: float32(1 / math.Sqrt(dim)), Window: 11 + l, SoftCap: float32(1 + l), Slopes: slopes[l], Sinks: sinks[l], Later: l == 1,
				})
				how := compute.Selection{Groups: kv, Block: 1 + l, Top: selected, Local: l}
				verbs.StoreKV(cache, layers+l, index.First(n), compute.Tensor{})
				verbs.Select(compute.Select{Blocks: blocks.First(n), Q: q.First(n), Cache: cache, Layer: layers + l, How: how})
				verbs.Attend(outs[layers+l].First(n), q.First(n), cache, l, compute.Attention{Scale: 0.1, Seen: how.Seen(blocks.First(n))})
			}
		}))
		var rows [][]float32
		for _, out := range outs {
			var row []float32
			for i := range n {
				x, err := dev.Read(out, i)
				must(err)
				row = append(row, x...)
			}
			rows = append(rows, row)
		}
		all = append(all, rows)
	}
	return all
}

// TestAttentionOfSeveral: each layer's parameters of attention apply on a GPU, on another one and in RAM, as the scalar
// device defines them.
func TestAttentionOfSeveral(t *testing.T) {
	on := func(gpu compute.Tier, attention bool) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu}, Attention: attention}
	}
	plans := map[string][layers + 1]compute.Place{
		"one GPU":          {on(0, true), on(0, true), on(0, true)},
		"a layer in RAM":   {on(0, true), on(0, false), on(0, true)},
		"all in RAM":       {on(0, false), on(0, false), on(0, false)},
		"two GPUs":         {on(0, true), on(1, true), on(1, true)},
		"two GPUs and RAM": {on(0, true), on(1, false), on(1, true)},
		"GPUs, to and fro": {on(1, true), on(0, true), on(1, true)},
	}
	t.Run("tapes", func(t *testing.T) {
		attentionOfSeveral(t, plans, func() hybrid.GPU { return newTapes(host(t), false) })
	})
	t.Run("lavapipe", func(t *testing.T) {
		const name = "two GPUs and RAM" // one plan, because a device takes seconds to compile its pipelines
		attentionOfSeveral(t, map[string][layers + 1]compute.Place{name: plans[name]}, func() hybrid.GPU {
			d, err := vulkan.Open(vulkan.Options{Device: vulkan.Software})
			if errors.Is(err, vulkan.ErrNone) || err != nil && strings.Contains(err.Error(), "no device is called") {
				testenv.Missing(t, "vulkan", err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			return d
		})
	})
}

func attentionOfSeveral(t *testing.T, plans map[string][layers + 1]compute.Place, gpu func() hybrid.GPU) {
	t.Helper()
	const seed = 5
	var none [layers + 1]compute.Place
	want := attended(t, ref.New(), none[:], seed)
	for name, plan := range plans {
		got := attended(t, deviceOf(t, plan, false, gpu), plan[:], seed)
		for s := range want {
			for l := range want[s] {
				worst := 0.0
				for i, w := range want[s][l] {
					worst = max(worst, math.Abs(float64(w-got[s][l][i])))
				}
				if !(worst <= attentionAgrees) {
					t.Errorf("%s, step %d, layer %d: an element differs by %.2g, more than %g (seed %d)", name, s, l, worst, attentionAgrees, seed)
				}
			}
		}
	}
	for l := 1; l < 2*layers; l++ {
		if slices.Equal(want[0][0], want[0][l]) {
			t.Errorf("layers 0 and %d give the same, so that nothing shows which parameters were taken", l)
		}
	}
}

// TestPages: a page of a cache with layers on several devices is read as it was written, also if layers differ in
// shape.
func TestPages(t *testing.T) {
	const seed = 6
	rng := rand.New(rand.NewPCG(seed, 0))
	spec := compute.CacheSpec{
		Layers: []compute.KVShape{{Heads: 1, Key: 16, Value: 8}, {Heads: 2, Key: 32, Value: 32}, {Heads: 3, Key: 8, Value: 16}, {State: 24}, {State: 40}}, Further: []int{0, 2},
		Pages: 4, States: 4,
	}
	on := func(gpu compute.Tier, attention bool) compute.Place {
		return compute.Place{Split: compute.Split{Tier: gpu}, Attention: attention}
	}
	for name, plan := range map[string][layers + 1]compute.Place{
		"a layer in RAM":   {on(0, true), on(0, false), on(0, true)},
		"GPUs, to and fro": {on(1, true), on(0, true), on(1, true)},
		"two GPUs and RAM": {on(0, true), on(1, false), on(1, true)},
	} {
		dev := device(t, plan, false)
		c, err := dev.Cache(spec)
		if err != nil {
			t.Fatal(err)
		}
		const positions = 50
		want, got := make([][]byte, len(spec.Layers)), make([][]byte, len(spec.Layers))
		for l, shape := range spec.Layers {
			n := positions*shape.PositionBytes() + shape.StateBytes()
			want[l], got[l] = make([]byte, n), make([]byte, n)
			for i := range want[l] {
				want[l][i] = byte(rng.Uint32())
			}
		}
		from, to := compute.Page{Far: 2, Near: -1, State: 3}, compute.Page{Far: 1, Near: -1, State: 2}
		err = dev.WritePage(c, from, want)
		if err == nil {
			dev.CopyPage(c, to, from)
			err = dev.ReadPage(c, to, got)
		}
		if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]byte]) {
			t.Errorf("%s: what is read is not what was written (seed %d): %v", name, seed, err)
		}
	}
}
