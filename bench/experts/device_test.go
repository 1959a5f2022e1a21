package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// The model of these tests, and how many of its experts a GPU holds.
const (
	realLayers, realExperts, realUsed = 2, 16, 4
	realHeld                          = 5
	realTokens                        = 60
)

// countingGPU counts the bytes of experts' rows that are copied to it.
type countingGPU struct {
	*vulkan.Device
	copied int64
}

type countingStage struct {
	compute.RowStage
	gpu *countingGPU
}

func (g *countingGPU) RowStage(bytes int64) (compute.RowStage, error) {
	s, err := g.Device.RowStage(bytes)
	return countingStage{s, g}, err
}

func (s countingStage) Put(m *compute.Matrix, first int, src compute.Source) {
	s.gpu.copied += int64(src.Rows) * int64(src.Type.RowBytes(src.Cols))
	s.RowStage.Put(m, first, src)
}

// real is what a model did on lavapipe and the processor.
type real struct {
	trace  trace
	use    compute.SlotUse
	copied int64 // bytes of experts that went to the GPU
	read   int64 // bytes of experts that were read
	ram    int64 // of these, by the processor
}

// runReal evaluates random tokens one by one, the same every time, on slots that go by s.
func runReal(t *testing.T, f *gguf.File, s hybrid.Slots) (r real) {
	t.Helper()
	dev, err := vulkan.Open(vulkan.Options{Device: vulkan.Software})
	if errors.Is(err, vulkan.ErrNone) || err != nil && strings.Contains(err.Error(), "no device is called") {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	host, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.AtOnce = true
	s.Watch = func(layer, _ int, uses []int32) {
		if layer == 0 {
			r.trace = append(r.trace, nil)
		}
		var u use
		for e, n := range uses {
			for range n {
				u = append(u, int32(e))
			}
		}
		last := &r.trace[len(r.trace)-1]
		*last = append(*last, u)
	}
	gpu := &countingGPU{Device: dev}
	d := hybrid.New(gpu, host, slices.Repeat([]bool{true}, realLayers))
	defer d.Close()
	d.FollowUse(s)
	m, err := model.Load(t.Context(), f, d, model.Options{Batch: 1, Outputs: 1, Cache: compute.CacheSpec{Pages: 4}, Neurons: model.Neurons{Sparse: model.Off}, Places: realPlaces(true)})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range realTokens + 1 { // a step's uses are counted when the next one begins
		p := compute.Params{Tokens: []int32{int32(random.IntN(320))}, Pages: [][]int32{{0, 1, 2, 3}}, Seq: []int32{0}, Pos: []int32{int32(i)}, Out: []int32{0}, Decode: 1}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		if i == realTokens-1 {
			for _, u := range m.Neurons() {
				r.read, r.ram = r.read+u.Bytes, r.ram+u.RAM
			}
		}
	}
	r.use, r.copied = d.Usage().Slots, gpu.copied
	return r
}

func realPlaces(slots bool) []compute.Place {
	y := compute.Place{Split: compute.Split{Bound: realHeld, Slots: slots}, Attention: true}
	return append(slices.Repeat([]compute.Place{y}, realLayers), compute.Place{Attention: true})
}

// realModel is small; in F32 the processor keeps its short rows as a file has them, without padding.
func realModel(t *testing.T) *gguf.File {
	return synthtest.File(t, synth.Spec{
		Arch: "qwen3moe", Type: quant.F32, Layers: realLayers, Embd: 64, FF: 32, Heads: 4, Experts: realExperts, Used: realUsed, Vocab: 320, Mixing: synth.Mixing{ExpertLaw: 0.8}, Seed: 3,
	})
}

// TestSimulatedIsReal compares the simulator with a model on lavapipe, for the same recorded uses: hits, copies and
// their bytes are equal, because the same code decides. There, too, a copy is over when the next token begins.
func TestSimulatedIsReal(t *testing.T) {
	testenv.Thorough(t)
	f := realModel(t)
	speeds, tuning := residency.Speeds{RAM: 60e9, GPU: 600e9, Bus: math.Inf(1)}, residency.Tuned()
	tuning.Doubt = 0.5 // the text is short
	r := runReal(t, f, hybrid.Slots{Speeds: speeds, Tuning: tuning})
	b, err := modelcost.Of(f, modelcost.Options{Neurons: model.Neurons{Sparse: model.Off}, Law: modelcost.UsualLaw()})
	if err != nil {
		t.Fatal(err)
	}
	c := &setting{
		shape: shape{Layers: realLayers, Experts: realExperts, Used: realUsed, Expert: b.Model.Layers[0].Units.Size},
		on:    machine{Machine: placement.Machine{Stream: speeds.RAM, GPUs: []placement.GPU{{Read: speeds.GPU}}}, Bus: speeds.Bus, Stage: math.Inf(1)},
		prior: make([][]float64, realLayers),
	}
	var p placement.Plan
	for range realLayers {
		c.order = append(c.order, []int32{0, 1, 2, 3, 4})
	}
	for _, place := range realPlaces(false) {
		p.Layers = append(p.Layers, placement.Priced{Place: place, Seconds: 1})
	}
	got, err := c.adaptive(&p, r.trace, tuning)
	if err != nil {
		t.Fatal(err)
	}
	uses := float64(len(r.trace) * realLayers * realUsed)
	hits, copied := int64(math.Round(got.hits*uses)), int64(math.Round(got.copied*float64(len(r.trace))))
	if len(r.trace) < realTokens || r.use.Promotions < 5 {
		t.Fatalf("%d tokens, %+v: too little to compare", len(r.trace), r.use)
	}
	if hits != r.use.Hits || int64(uses)-hits != r.use.Misses || copied != r.use.Bytes || copied != r.copied || copied != r.use.Promotions*c.Expert {
		t.Errorf("simulated: %d hits of %g uses, %d bytes copied; in fact: %+v, and %d bytes went to the GPU", hits, uses, copied, r.use, r.copied)
	}
	t.Logf("%d hits, %+v", hits, r.use)
}

// asPlanned bounds the difference of hits and bytes between a plan and the text on which its frequencies were counted.
const asPlanned = 0.05

// TestPlannedIsReal: a model with experts counted and sorted on a text, with the same text and without moves, does what
// plan prints.
func TestPlannedIsReal(t *testing.T) {
	testenv.Thorough(t)
	still := residency.Tuned()
	still.Margin = math.Inf(1)
	s := hybrid.Slots{Speeds: residency.Speeds{RAM: 1, GPU: 10, Bus: 1}, Tuning: still}
	f := realModel(t)
	counted := neuron.NewExperts([]string{"text"}, slices.Repeat([]int{realExperts}, realLayers), 0)
	for _, token := range runReal(t, f, s).trace {
		counted.Texts[0].Tokens++
		for l, u := range token {
			for _, e := range u {
				counted.Layers[l].Uses[0][e]++
			}
		}
	}
	plan := prepared.ExpertPlan{Use: counted, SHA256: strings.Repeat("0", 64)}
	for l := range counted.Layers {
		plan.Orders = append(plan.Orders, neuron.ExpertOrder{Experts: counted.Layers[l].Order(1)})
	}
	path := filepath.Join(t.TempDir(), "sorted.gguf")
	if err := prepared.WriteExperts(t.Context(), path, f, plan, nil); err != nil {
		t.Fatal(err)
	}
	sorted, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer sorted.Close()
	b, err := modelcost.Of(sorted, modelcost.Options{Neurons: model.Neurons{Sparse: model.Off}, Law: modelcost.UsualLaw()})
	if err != nil {
		t.Fatal(err)
	}
	on := placement.Machine{Stream: 60e9, Rows: 60e9, GPUs: []placement.GPU{{Read: 600e9, Budget: gib}}}
	priced, err := placement.Price(&b.Model, &on, realPlaces(false))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := placement.Price(&b.Model, &on, append(slices.Repeat([]compute.Place{{Attention: true}}, realLayers), compute.Place{Attention: true}))
	if err != nil {
		t.Fatal(err)
	}
	r := runReal(t, sorted, s)
	ram, _ := b.Model.Reads(&priced)
	all, _ := b.Model.Reads(&bare)
	for _, v := range []struct {
		what       string
		plan, fact float64
	}{
		{"hits", b.Model.Hits(&priced), float64(r.use.Hits) / float64(r.use.Hits+r.use.Misses)},
		{"bytes of experts that a token reads in the GPU's memory", all - ram, float64(r.read-r.ram) / realTokens},
		{"bytes of experts that a token reads in RAM", ram, float64(r.ram) / realTokens},
	} {
		if math.Abs(v.plan-v.fact) > asPlanned*v.fact {
			t.Errorf("%s: planned %g, in fact %g", v.what, v.plan, v.fact)
		}
		t.Logf("%s: planned %g, in fact %g", v.what, v.plan, v.fact)
	}
	if r.use.Promotions > 0 {
		t.Errorf("experts moved: %+v", r.use)
	}
}
