package placement

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// two layers whose costs are round numbers: 1000 bytes of attention each, four units of 100 bytes that read 100, 50, 20
// and 0, RAM of 1 MB/s, a GPU ten times as fast, and a hand-off of 100 µs.
func round() (Model, Machine) {
	y := Layer{Attention: 1000, Units: Units{Size: 100, Sometimes: []float64{100, 50, 20, 0}}}
	return Model{Layers: []Layer{y, y}, Head: 500},
		Machine{Stream: 1e6, Rows: 1e6, HandOff: 100e-6, GPUs: []GPU{{Read: 10e6}}}
}

const µs = 1e-6

func solve(t *testing.T, m Model, on Machine) Plan {
	t.Helper()
	p, err := Solve(m, on)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Plan) places() (list []compute.Place) {
	for _, y := range p.Layers {
		list = append(list, y.Place)
	}
	return list
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func TestByHand(t *testing.T) {
	inRAM := compute.Place{Split: compute.Split{Tier: compute.RAM}}
	whole := compute.Place{Split: compute.Split{Bound: 4}, Attention: true}
	head := compute.Place{Attention: true}
	for name, c := range map[string]struct {
		budget  int64
		seconds float64
		want    []compute.Place
	}{
		// 2·(1000+170) + 500 bytes at 1 MB/s
		"nothing":    {0, 2840 * µs, []compute.Place{inRAM, inRAM, inRAM}},
		"too little": {99, 2840 * µs, []compute.Place{inRAM, inRAM, inRAM}},
		// The head alone saves 450 µs for two half hand-offs; a unit saves less than the hand-off.
		"the head": {500, (2340 + 50 + 100) * µs, []compute.Place{inRAM, inRAM, head}},
		// Attention of one layer: saves 900, costs two half hand-offs and one whole. Overlap the head it costs one half
		// more.
		"attention":           {1000, (2840 - 900 + 200) * µs, nil},
		"attention, the head": {1500, (1000 + 170 + 100 + 170 + 50 + 100 + 100) * µs, []compute.Place{inRAM, {Attention: true}, head}},
		// Everything: 2840 bytes at 10 MB/s, there and back once.
		"everything": {3300, (284 + 100) * µs, []compute.Place{whole, whole, head}},
		// One unit less: the unit that is never read stays out, and its layer pays a hand-off for it. The last unit
		// goes anywhere but nowhere is cheaper, so that layer has one unit in RAM that takes no time.
		"but one unit": {3299, (284 + 100 + 100) * µs, nil},
	} {
		m, on := round()
		on.GPUs[0].Budget = c.budget
		p := solve(t, m, on)
		if !near(p.Seconds, c.seconds) {
			t.Errorf("%s: %.1f µs, want %.1f; %+v", name, p.Seconds/µs, c.seconds/µs, p.places())
		}
		if c.want != nil && !slices.Equal(p.places(), c.want) {
			t.Errorf("%s: %+v, want %+v", name, p.places(), c.want)
		}
	}
}

// Everything that a plan says of a layer, by hand.
func TestPrice(t *testing.T) {
	m, on := round()
	m.Layers[0].KV, m.Layers[0].Predictor, m.Layers[0].Units.Always = 300, 200, 0
	on.Rows, on.GPUs[0].Overhead, on.GPUs[0].Launch = 0.5e6, 7, 5*µs
	p, err := Price(&m, &on, []compute.Place{
		{Split: compute.Split{Bound: 1}, Attention: true, Predictor: true},
		{Split: compute.Split{Tier: compute.RAM, Bound: 3}, Attention: true},
		{Split: compute.Split{Tier: compute.RAM}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// 50 bytes of a unit on scattered rows take as long as all its 100 in order; 20 take 40 µs.
	first := Priced{
		Place: compute.Place{Split: compute.Split{Bound: 1}, Attention: true, Predictor: true}, VRAM: 1600, RAM: 300,
		Dense: 155 * µs, HotTime: 10 * µs, ColdTime: 140 * µs, Wait: 150 * µs, Seconds: 445 * µs,
	}
	second := Priced{Place: compute.Place{Split: compute.Split{Tier: compute.RAM}}, RAM: 1400, Dense: 1000 * µs, ColdTime: 240 * µs, Wait: 50 * µs, Seconds: 1290 * µs}
	for l, want := range []Priced{first, second} {
		got := p.Layers[l]
		for name, v := range map[string][2]float64{
			"dense": {got.Dense, want.Dense}, "hot": {got.HotTime, want.HotTime}, "cold": {got.ColdTime, want.ColdTime},
			"wait": {got.Wait, want.Wait}, "seconds": {got.Seconds, want.Seconds},
		} {
			if math.Abs(v[0]-v[1]) > 1e-12 {
				t.Errorf("layer %d: %s %.1f µs, want %.1f", l, name, v[0]/µs, v[1]/µs)
			}
		}
		if got.Place != want.Place || got.VRAM != want.VRAM || got.RAM != want.RAM {
			t.Errorf("layer %d: %+v, want %+v", l, got, want)
		}
	}
	if !near(p.Seconds, (445+1290+500)*µs) || p.RAM != 2200 || !slices.Equal(p.VRAM, []int64{1607}) {
		t.Errorf("%+v", p)
	}
	if late := p.Late(); !near(late, 130*µs) { // no GPU waits for the second
		t.Errorf("late by %.1f µs, want 130", late/µs)
	}
	if s := p.HotCounts(); !slices.Equal(s, []int{1, 0}) {
		t.Errorf("split %v", s)
	}
}

// Attention and its KV cache too large for the GPU: it stays in RAM, and the GPU takes the neurons.
func TestAttentionThatDoesNotFit(t *testing.T) {
	m, on := round()
	for l := range m.Layers {
		m.Layers[l].KV = 1 << 20
		m.Layers[l].Units.Sometimes = slices.Clone(m.Layers[l].Units.Sometimes)
		for i := range m.Layers[l].Units.Sometimes {
			m.Layers[l].Units.Sometimes[i] *= 1e3
		}
		m.Layers[l].Units.Size *= 1e3
	}
	m.Head = 1 << 20
	on.GPUs[0].Budget = 300e3
	p := solve(t, m, on)
	for l, y := range p.Layers {
		if y.Attention {
			t.Errorf("layer %d: attention of %d bytes in a budget of %d", l, m.layer(l).Bytes(), on.GPUs[0].Budget)
		}
	}
	if p.Layers[0].Bound+p.Layers[1].Bound != 3 { // three of 100 kB: 100, 100 and 50 kB are read of them
		t.Errorf("%+v", p.places())
	}
}

// Dense layers are split by neuron where that wins: between two budgets for whole layers it beats both.
func TestDenseSplit(t *testing.T) {
	m, on := large(8, 64)
	dense := m.Dense()
	if dense.Bytes() != m.Bytes()-8*(20<<20) {
		t.Errorf("the dense model has %d bytes, %d with predictors", dense.Bytes(), m.Bytes())
	}
	on.GPUs[0].Budget = 2 << 30
	n, whole, err := MostWhole(dense, on)
	if err != nil || n == 0 || n > 8 {
		t.Fatalf("%d layers: %v", n, err)
	}
	if p := solve(t, dense, on); p.Seconds > whole.Seconds*0.97 {
		t.Errorf("split by neuron %g s, by layer %g s", p.Seconds, whole.Seconds)
	}
}

// TestNeverBelowWholeLayers: placing by layers is one of the placements, so placing neurons is never worse, dense or
// sparse, on one GPU or two.
func TestNeverBelowWholeLayers(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 4))
	for range 100 {
		m, on := small(r, 1+r.IntN(12), 20)
		if r.IntN(2) == 0 {
			second := on.GPUs[0]
			second.Budget = int64(0.5 * r.Float64() * float64(m.Bytes()))
			on.GPUs = append(on.GPUs, second)
		}
		if r.IntN(2) == 0 {
			m = m.Dense()
		}
		n, whole, err := MostWhole(m, on)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if p := solve(t, m, on); p.Seconds > whole.Seconds*(1+nearBest) {
			t.Errorf("seed %d: %g s, %d whole layers %g", seed, p.Seconds, n, whole.Seconds)
		}
	}
}

// As llama.cpp's -ngl: the last layers, then the head.
func TestWhole(t *testing.T) {
	m, on := round()
	on.GPUs[0].Budget = 3300
	for n, want := range map[int][]bool{0: {false, false, false}, 1: {false, true, false}, 2: {true, true, false}, 3: {true, true, true}, 99: {true, true, true}} {
		p, err := Whole(m, on, n)
		if err != nil {
			t.Fatal(err)
		}
		for l, y := range p.Layers {
			if y.Attention != want[l] || (y.Tier == 0) != want[l] || l < 2 && (y.Bound == 4) != want[l] {
				t.Errorf("-ngl %d: layer %d: %+v", n, l, y.Place)
			}
		}
	}
	on.GPUs[0].Budget = 2799
	if n, p, err := MostWhole(m, on); n != 1 || err != nil || p.VRAM[0] != 1400 {
		t.Errorf("%d layers in 2799 bytes, %v, %v", n, p.VRAM, err)
	}
	if _, err := Whole(m, on, 2); err == nil || !strings.Contains(err.Error(), "2 layers, the head counted as one, do not fit") {
		t.Errorf("%v", err)
	}
	// Two GPUs, one layer each; without any, nothing fits.
	on.GPUs[0].Budget = 1400
	on.GPUs = append(on.GPUs, GPU{Read: 1e6, Budget: 1900})
	if n, p, err := MostWhole(m, on); n != 3 || err != nil || !slices.Equal(p.VRAM, []int64{1400, 1900}) {
		t.Errorf("%d layers, %v, %v", n, p.VRAM, err)
	}
	on.GPUs = nil
	if n, _, err := MostWhole(m, on); n != 0 || err != nil {
		t.Errorf("%d layers on no GPU, %v", n, err)
	}
	if p := solve(t, m, on); !near(p.Seconds, 2840*µs) {
		t.Errorf("%g s without a GPU", p.Seconds)
	}
}

// More memory is never slower; as much as the model takes puts all of it on the GPU.
func TestBudgets(t *testing.T) {
	m, on := large(24, 256)
	last := math.Inf(1)
	for part := range 21 {
		on.GPUs[0].Budget = on.GPUs[0].Overhead + m.Bytes()*int64(part)/20
		p := solve(t, m, on)
		if p.Seconds > last*(1+nearBest) {
			t.Errorf("%d/20 of the model: %g s, with less memory %g", part, p.Seconds, last)
		}
		last = min(last, p.Seconds)
		if part == 20 && (p.RAM != 0 || p.VRAM[0] != on.GPUs[0].Budget) {
			t.Errorf("everything fits and %d bytes are in RAM", p.RAM)
		}
	}
}

func TestPowerLaw(t *testing.T) {
	for _, c := range []struct {
		n           int
		active, q80 float64
	}{{28672, 0.03, 0.26}, {28672, 0.18, 0.43}, {11008, 0.1, 0.3}, {1000, 0.5, 0.7}} {
		f := PowerLaw(c.n, c.active, c.q80)
		var sum float64
		for i, v := range f {
			sum += float64(v)
			if v < 0 || v > 1 || i > 0 && v > f[i-1] {
				t.Fatalf("%+v: neuron %d: %g", c, i, v)
			}
		}
		if got := sum / float64(c.n); math.Abs(got-c.active) > 1e-4 {
			t.Errorf("%+v: %g active", c, got)
		}
		var part float64
		for _, v := range f[:int(c.q80*float64(c.n))] {
			part += float64(v)
		}
		if math.Abs(part/sum-0.8) > 0.01 {
			t.Errorf("%+v: that share makes %g of the activations", c, part/sum)
		}
	}
	if f := PowerLaw(10, 1, 0.5); slices.Min(f) < 0.999 {
		t.Errorf("all active: %v", f)
	}
	if f := PowerLaw(10, 0, 0.5); slices.Max(f) > 1e-6 {
		t.Errorf("none active: %v", f)
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*Model, *Machine){
		"no layers":                 func(m *Model, _ *Machine) { m.Layers = nil },
		"layer 1: sizes":            func(m *Model, _ *Machine) { m.Layers[1].KV = -1 },
		"layer 0: sizes":            func(m *Model, _ *Machine) { m.Layers[0].Units.Always = 101 },
		"unit 1 is hotter":          func(m *Model, _ *Machine) { m.Layers[1].Units.Sometimes = []float64{1, 2} },
		"unit 0 reads 101":          func(m *Model, _ *Machine) { m.Layers[1].Units.Sometimes = []float64{101} },
		"unit 0 reads NaN":          func(m *Model, _ *Machine) { m.Layers[1].Units.Sometimes = []float64{math.NaN()} },
		"RAM of 0 bytes/s":          func(_ *Model, on *Machine) { on.Stream = 0 },
		"a hand-off of -1":          func(_ *Model, on *Machine) { on.HandOff = -1 },
		"GPU 0: +Inf bytes/s":       func(_ *Model, on *Machine) { on.GPUs[0].Read = math.Inf(1) },
		"a budget of -5 and an ove": func(_ *Model, on *Machine) { on.GPUs[0].Budget = -5 },
	} {
		m, on := round()
		change(&m, &on)
		if _, err := Solve(m, on); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	m, on := round()
	for _, places := range [][]compute.Place{
		nil,
		{{Split: compute.Split{Tier: 1}}, {}, {}},
		{{Split: compute.Split{Bound: 5}}, {}, {}},
		{{}, {}, {Split: compute.Split{Bound: 1}}},
	} {
		if _, err := Price(&m, &on, places); err == nil {
			t.Errorf("priced %+v", places)
		}
	}
}
