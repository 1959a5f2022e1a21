package placement

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// token returns the formula of docs/placement.md, written out again: the time of a token with every layer where at
// says.
func token(m Model, on Machine, at []compute.Place) float64 {
	var sum float64
	home := compute.RAM
	for l, p := range at {
		var y Layer
		if l < len(m.Layers) {
			y = m.Layers[l]
		} else {
			y.Attention = m.Head
		}
		host, gpu := Speeds{Attention: Rate{0, on.Stream}, Predictor: Rate{0, on.Stream}, Dense: Rate{0, on.Stream}, Sparse: Rate{0, on.Rows}}, Speeds{}
		if on.Speeds != nil {
			host = *on.Speeds
		}
		launch := 0.0
		if p.Tier != compute.RAM {
			g := on.GPUs[p.Tier]
			gpu, launch = Speeds{Attention: Rate{0, g.Read}, Predictor: Rate{0, g.Read}, Dense: Rate{0, g.Read}, Sparse: Rate{0, g.Read}}, g.Launch
			if g.Speeds != nil {
				gpu, launch = *g.Speeds, 0
			}
		}
		on1 := func(onGPU bool) Speeds {
			if onGPU {
				return gpu
			}
			return host
		}
		part := func(bytes int64, r Rate) float64 {
			if bytes == 0 {
				return 0
			}
			return r.Start + float64(bytes)/r.Read
		}
		before := on1(p.Attention).Attention
		if len(y.Units.Sometimes) == 0 { // the head
			before = on1(p.Attention).Dense
		}
		dense := part(y.Attention+y.KV, before) + part(y.Predictor, on1(p.Predictor).Predictor)
		var hot, cold float64
		whole := y.Units.InOrder || y.Units.Always == y.Units.Size
		unit := func(b float64, s Speeds) float64 {
			if whole {
				return (float64(y.Units.Always) + b) / s.Dense.Read
			}
			return math.Min(float64(y.Units.Always)/s.Dense.Read+b/s.Sparse.Read, float64(y.Units.Size)/s.Dense.Read)
		}
		start := func(s Speeds) float64 {
			if whole {
				return s.Dense.Start
			}
			return s.Sparse.Start
		}
		var every float64
		for i, b := range y.Units.Sometimes {
			if i < p.Bound {
				hot += unit(b, gpu)
				down := b / float64(y.Units.Size-y.Units.Always) * float64(y.Units.Size-y.Units.Rows)
				every += (float64(y.Units.Rows) + down) / gpu.EveryRow.Read
			} else {
				cold += unit(b, host)
			}
		}
		if p.Bound > 0 {
			hot += start(gpu)
			if y.Units.Rows > 0 && gpu.EveryRow.Read > 0 {
				hot = math.Min(hot, every+gpu.EveryRow.Start)
			}
		}
		if p.Bound < len(y.Units.Sometimes) {
			cold += start(host)
		}
		usesGPU := p.Attention || p.Bound > 0 || p.Predictor && y.Predictor > 0
		usesCPU := !p.Attention || p.Bound < len(y.Units.Sometimes)
		sum += dense + math.Max(hot, cold)
		if usesGPU {
			sum += launch
			if usesCPU {
				sum += on.HandOff
			}
			if !p.Attention { // its norm is on the GPU
				sum += on.HandOff
				if y.Predictor > 0 && !p.Predictor { // so is the predictor's
					sum += on.HandOff
				}
			}
		}
		to := compute.RAM
		if p.Attention {
			to = p.Tier
		}
		if to != home {
			sum += on.HandOff / 2
			if to != compute.RAM && home != compute.RAM {
				sum += on.HandOff / 2
			}
		}
		home = to
	}
	if home != compute.RAM {
		sum += on.HandOff / 2
	}
	return sum
}

// exhaustive tries every placement: attention and predictor anywhere that pins allow, every hot count, layers on GPUs
// in the GPUs' order. It is infinite if there is none.
func exhaustive(m Model, on Machine) float64 { return exhaustiveBy(m, on, token) }

// exhaustiveBy is exhaustive by another time of a token.
func exhaustiveBy(m Model, on Machine, token func(Model, Machine, []compute.Place) float64) float64 {
	at := slices.Repeat([]compute.Place{{Split: compute.Split{Tier: compute.RAM}}}, len(m.Layers)+1)
	best := math.Inf(1)
	left := make([]int64, len(on.GPUs))
	for j, g := range on.GPUs {
		left[j] = g.Budget - g.Overhead
	}
	var try func(l, gpu int)
	try = func(l, gpu int) {
		if l == len(at) {
			best = math.Min(best, token(m, on, at))
			return
		}
		if ram := (compute.Place{Split: compute.Split{Tier: compute.RAM}}); pinned(m, l, ram) {
			at[l] = ram
			try(l+1, gpu)
		}
		for j := gpu; j < len(on.GPUs); j++ {
			for _, p := range layerPlaces(m, l) {
				p.Tier = compute.Tier(j)
				if !pinned(m, l, p) {
					continue
				}
				bytes := onGPUBytes(m, l, p)
				if bytes > left[j] {
					continue
				}
				at[l] = p
				left[j] -= bytes
				try(l+1, j)
				left[j] += bytes
			}
		}
	}
	try(0, 0)
	return best
}

// pinned reports whether a place is as layer l's pins say.
func pinned(m Model, l int, p compute.Place) bool {
	y := Layer{Pins: m.HeadPins}
	if l < len(m.Layers) {
		y = m.Layers[l]
	}
	holds := func(pin Pin, none, all bool) bool {
		return pin == Anywhere || pin == InRAM && none || pin == OnGPU && all && p.Tier == y.Pins.GPU
	}
	n := len(y.Units.Sometimes)
	return holds(y.Pins.Attention, !p.Attention, p.Attention) && (n == 0 || holds(y.Pins.Units, p.Bound == 0, p.Bound == n)) &&
		(y.Predictor == 0 || holds(y.Pins.Predictor, !p.Predictor, p.Predictor))
}

// layerPlaces returns all places of layer l on a GPU, except for a predictor alone.
func layerPlaces(m Model, l int) (list []compute.Place) {
	if l == len(m.Layers) {
		return []compute.Place{{Attention: true}}
	}
	n := len(m.Layers[l].Units.Sometimes)
	for k := 0; k <= n; k++ {
		list = append(list, compute.Place{Split: compute.Split{Bound: k}, Attention: true, Predictor: true}, compute.Place{Split: compute.Split{Bound: k}})
		if k > 0 {
			list = append(list, compute.Place{Split: compute.Split{Bound: k}, Predictor: true})
		}
	}
	return append(list, compute.Place{Attention: true})
}

func onGPUBytes(m Model, l int, p compute.Place) int64 {
	if l == len(m.Layers) {
		return m.Head
	}
	y := m.Layers[l]
	bytes := y.Units.Size * int64(p.Bound)
	if p.Attention {
		bytes += y.Attention + y.KV
	}
	if p.Predictor {
		bytes += y.Predictor
	}
	return bytes
}

// small returns a random model of a few layers of a few units, in bytes that make hand-offs matter.
func small(r *rand.Rand, layers, units int) (Model, Machine) {
	var m Model
	for range layers {
		y := Layer{Attention: int64(r.IntN(4000)), KV: int64(r.IntN(2000)), Units: Units{Size: int64(100 + r.IntN(900))}}
		if r.IntN(2) == 0 {
			y.Predictor = int64(r.IntN(1500))
		}
		if r.IntN(2) == 0 {
			y.Units.Always = y.Units.Size / 3
			y.Units.Rows = 2 * y.Units.Always
		}
		y.Units.InOrder = r.IntN(4) == 0
		top, exponent := r.Float64(), 2*r.Float64()
		for i := range 1 + r.IntN(units) {
			f := top * math.Pow(float64(i+1), -exponent)
			y.Units.Sometimes = append(y.Units.Sometimes, f*float64(y.Units.Size-y.Units.Always))
		}
		m.Layers = append(m.Layers, y)
	}
	m.Head = int64(r.IntN(5000))
	on := Machine{Stream: 1e9, Rows: 3e8 + 7e8*r.Float64(), HandOff: 3e-6 * r.Float64() * r.Float64()}
	on.GPUs = []GPU{{
		Read: 1e9 * (0.5 + 20*r.Float64()), Launch: 2e-7 * r.Float64(), Overhead: int64(r.IntN(300)),
		Budget: int64(1.1 * r.Float64() * float64(m.Bytes())),
	}}
	if r.IntN(2) == 0 { // the processors' operations were measured
		on.Speeds = measured(r, on.Stream)
		on.GPUs[0].Speeds = measured(r, on.GPUs[0].Read)
	}
	return m, on
}

// measured returns rates of operations for memory that reads so many bytes per second.
func measured(r *rand.Rand, read float64) *Speeds {
	rate := func() Rate { return Rate{Start: 5e-7 * r.Float64(), Read: read * (0.3 + 0.7*r.Float64())} }
	return &Speeds{Attention: rate(), Predictor: rate(), Dense: rate(), Sparse: rate(), EveryRow: rate()}
}

// seed draws the same cases each time: the search is quick, not exact, and nothing bounds how far from the best it ends
// in some case. In a hundred times as many cases of other seeds it kept to a fifth of nearBest.
const seed uint64 = 1

// nearBest is the largest allowed distance between the plan and the best placement.
const nearBest = 0.01

func TestNearExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 1))
	worst, exact, tries := 0.0, 0, 0
	for range 400 {
		layers := 1 + r.IntN(3)
		m, on := small(r, layers, []int{0, 40, 9, 5}[layers])
		p, err := Solve(m, on)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkPlan(t, seed, m, on, p)
		best := exhaustive(m, on)
		gap := p.Seconds/best - 1
		if gap < -1e-9 {
			t.Fatalf("seed %d, try %d: %g s is below the best placement's %g", seed, tries, p.Seconds, best)
		}
		if gap > nearBest {
			t.Errorf("seed %d, try %d: %d layers, %.2f %% above the best placement", seed, tries, layers, 100*gap)
		}
		worst = max(worst, gap)
		if gap < 1e-9 {
			exact++
		}
		tries++
	}
	t.Logf("seed %d: %d of %d exact, the worst %.3f %% above the best", seed, exact, tries, 100*worst)
}

// Layers pass the GPUs in order; borders and splits are searched together.
func TestTwoGPUsNearExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 2))
	worst := 0.0
	for try := range 150 {
		m, on := small(r, 1+r.IntN(3), 3)
		second := on.GPUs[0]
		second.Read *= 0.3 + r.Float64()
		second.Budget = int64(0.6 * r.Float64() * float64(m.Bytes()))
		on.GPUs = append(on.GPUs, second)
		p, err := Solve(m, on)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkPlan(t, seed, m, on, p)
		gap := p.Seconds/exhaustive(m, on) - 1
		if gap < -1e-9 || gap > nearBest {
			t.Errorf("seed %d, try %d: %.2f %% above the best placement", seed, try, 100*gap)
		}
		worst = max(worst, gap)
	}
	t.Logf("seed %d: the worst %.3f %% above the best", seed, 100*worst)
}

// TestPinnedNearExhaustive: parts go where a user put them, and the others where they serve best.
func TestPinnedNearExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 3))
	none := 0
	for try := range 150 {
		m, on := small(r, 1+r.IntN(3), 3)
		on.GPUs = append(on.GPUs, on.GPUs[0])[:1+r.IntN(2)]
		for l := range m.Layers {
			y := &m.Layers[l]
			y.Pins = Pins{GPU: compute.Tier(r.IntN(len(on.GPUs)))}
			for _, p := range []*Pin{&y.Pins.Attention, &y.Pins.Units} {
				*p = []Pin{Anywhere, Anywhere, InRAM, InRAM, OnGPU}[r.IntN(5)]
			}
		}
		m.HeadPins.Attention = []Pin{Anywhere, Anywhere, InRAM, OnGPU}[r.IntN(4)]
		m.HeadPins.GPU = compute.Tier(len(on.GPUs) - 1)
		p, err := Solve(m, on)
		best := exhaustive(m, on)
		if math.IsInf(best, 1) != (err != nil) {
			t.Fatalf("seed %d, try %d: %v, and the best placement takes %g s", seed, try, err, best)
		}
		if err != nil {
			none++
			continue
		}
		checkPlan(t, seed, m, on, p)
		for l, at := range p.Places() {
			if !pinned(m, l, at) {
				t.Fatalf("seed %d, try %d: layer %d lies at %+v", seed, try, l, at)
			}
		}
		if gap := p.Seconds/best - 1; gap < -1e-9 || gap > nearBest {
			t.Errorf("seed %d, try %d: %.2f %% above the best placement", seed, try, 100*gap)
		}
	}
	t.Logf("seed %d: %d could not be placed", seed, none)
}

// checkPlan checks a plan against the formula and the budgets.
func checkPlan(t *testing.T, seed uint64, m Model, on Machine, p Plan) {
	t.Helper()
	var at []compute.Place
	used := make([]int64, len(on.GPUs))
	var ram int64
	for l, y := range p.Layers {
		at = append(at, y.Place)
		if y.Tier != compute.RAM {
			used[y.Tier] += y.VRAM
		} else if y.VRAM != 0 {
			t.Fatalf("seed %d: layer %d has %d bytes on no GPU", seed, l, y.VRAM)
		}
		ram += y.RAM
	}
	if want := token(m, on, at); math.Abs(p.Seconds-want) > 1e-9*want {
		t.Fatalf("seed %d: a plan of %g s costs %g", seed, p.Seconds, want)
	}
	for j, g := range on.GPUs {
		if used[j] > 0 {
			used[j] += g.Overhead
		}
		if used[j] != p.VRAM[j] || used[j] > g.Budget {
			t.Fatalf("seed %d: GPU %d: %d bytes, said to be %d, in a budget of %d", seed, j, used[j], p.VRAM[j], g.Budget)
		}
		ram += p.VRAM[j]
		if used[j] > 0 {
			ram -= g.Overhead
		}
	}
	if ram != m.Bytes() {
		t.Fatalf("seed %d: %d bytes lie somewhere, the model has %d", seed, ram, m.Bytes())
	}
}
