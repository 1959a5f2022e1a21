package placement

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// routed returns a random model that has mostly layers with experts, on a machine with a disk and too little RAM for
// all of them.
func routed(r *rand.Rand, layers, units int) (Model, Machine) {
	m, on := small(r, layers, units)
	rest := m.Head
	for l := range m.Layers {
		y := &m.Layers[l]
		rest += y.Bytes()
		if r.IntN(5) == 0 {
			continue
		}
		y.Predictor, y.Experts = 0, true
		y.Units.Always, y.Units.InOrder, y.Units.Stay = 0, true, true
		for i := range y.Units.Sometimes {
			y.Units.Sometimes[i] = min(y.Units.Sometimes[i], float64(y.Units.Size))
		}
		if r.IntN(3) == 0 { // all are used equally, by texts that each favour some
			sum := 0.0
			for _, b := range y.Units.Sometimes {
				y.Units.Kept = append(y.Units.Kept, b/float64(y.Units.Size))
				sum += b
			}
			y.Units.Sometimes = slices.Repeat([]float64{sum / float64(len(y.Units.Sometimes))}, len(y.Units.Sometimes))
		}
		rest -= y.Units.Size * int64(len(y.Units.Sometimes))
	}
	on.Disk = Rate{Start: 1e-6 * r.Float64(), Read: on.Stream * (0.02 + 0.3*r.Float64())}
	on.GPUs[0].Budget /= 3
	on.RAM = int64((0.6 + 0.4*r.Float64()) * float64(rest))
	on.RAM += int64(0.6 * r.Float64() * float64(m.Bytes()-rest))
	return m, on
}

// TestDiskNearExhaustive: with units on the disk a plan is near the best of all placements.
func TestDiskNearExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 5))
	price := func(m Model, on Machine, at []compute.Place) float64 {
		p, err := Price(&m, &on, at)
		if err != nil || p.Disk.Lacks > 0 {
			return math.Inf(1)
		}
		return p.Seconds
	}
	worst, sum, exact, onDisk := 0.0, 0.0, 0, 0
	const tries = 100
	for try := range tries {
		layers := 1 + r.IntN(3)
		m, on := routed(r, layers, []int{0, 40, 9, 4}[layers])
		p, err := Solve(m, on)
		if err != nil {
			t.Fatal(err)
		}
		if p.Disk.Bytes > 0 {
			onDisk++
		}
		best := exhaustiveBy(m, on, price)
		if math.IsInf(best, 1) != (p.Disk.Lacks > 0) {
			t.Errorf("try %d: %+v, and the best placement takes %g s", try, p.Disk, best)
		}
		if math.IsInf(best, 1) {
			continue
		}
		gap := p.Seconds/best - 1
		if gap < -1e-9 {
			t.Fatalf("try %d: %g s is below the best placement's %g", try, p.Seconds, best)
		}
		if gap > nearBestDisk {
			t.Errorf("try %d: %d layers, %.2f %% above the best placement", try, layers, 100*gap)
		}
		worst = max(worst, gap)
		sum += gap
		if gap < 1e-9 {
			exact++
		}
	}
	if mean := sum / tries; mean > nearBest {
		t.Errorf("plans are %.2f %% above the best placements on average", 100*mean)
	}
	if onDisk < tries/3 {
		t.Errorf("only %d of %d plans leave units on the disk", onDisk, tries)
	}
	t.Logf("%d of %d exact, the worst %.3f %% above the best; %d leave units on the disk", exact, tries, 100*worst, onDisk)
}

// nearBestDisk is the largest allowed distance between a plan that leaves units on the disk and the best placement; on
// average it is nearBest. Which units RAM keeps depends on all layers at once, which the search follows by a price of a
// byte in RAM; it misses some placements of a few units that just fit.
const nearBestDisk = 0.25

// TestDiskByHand checks a plan's figures of units on the disk.
func TestDiskByHand(t *testing.T) {
	y := Layer{Attention: 1000, Experts: true, Units: Units{Size: 100, InOrder: true, Guessed: true, Stay: true, Sometimes: slices.Repeat([]float64{50}, 4)}}
	m := Model{Layers: []Layer{y, y}, Head: 500}
	on := Machine{Stream: 1e6, Rows: 1e6, Disk: Rate{Start: 30e-6, Read: 0.5e6}}
	at := slices.Repeat([]compute.Place{{Split: compute.Split{Tier: compute.RAM}}}, 3)
	price := func(ram int64) Plan {
		t.Helper()
		on.RAM = ram
		p, err := Price(&m, &on, at)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// 2·(1000+200) + 500 bytes at 1 MB/s: all fits.
	if p := price(3300); !near(p.Seconds, 2900*µs) || p.RAM != 3300 || p.Disk != (Tier{}) {
		t.Errorf("%+v", p)
	}
	// RAM has room for 4 of 8 units. What a cache answers is not for this package to say.
	p := price(2900)
	hits := residency.Predict(4, slices.Repeat([]float64{0.5}, 8))
	if hits < 0.3 || hits > 0.6 {
		t.Fatalf("half of the units answer %g of the uses", hits)
	}
	d := p.Disk
	if d.Bytes != 400 || d.Kept != 400 || p.RAM != 2900 || !near(d.Hits, hits) || !near(d.Units, 4*(1-hits)*(1+guessedWrong)) || !near(d.Read, 400*(1-hits)*(1+guessedWrong)) || d.Lacks != 0 {
		t.Errorf("%+v of %+v", d, p)
	}
	// A token uses two of a layer's units: none, one or both are missing. They take 200 µs in RAM, half of it meanwhile
	// if one is there, and 30 + 200 or 30 + 400 µs on the disk. Predictions have brought some that would be missing: in
	// the 1000 µs of attention the disk has time for all of them.
	miss := (1 - hits) * (1 - guessedRight)
	layer := (1-miss)*(1-miss)*200 + 2*miss*(1-miss)*(230+100) + miss*miss*(430+200)
	for l := range 2 {
		if got := p.Layers[l]; !near(got.ColdTime, layer*µs) || !near(got.Seconds, (1000+layer)*µs) || got.RAM != 1200 || got.Disk != 200 || !near(got.ReadDisk, 200*(1-hits)*(1+guessedWrong)) {
			t.Errorf("layer %d: %+v, want %g µs", l, got, layer)
		}
	}
	if !near(p.Seconds, (2500+2*layer)*µs) {
		t.Errorf("%g µs", p.Seconds/µs)
	}
	// Half of the missing uses of units that may be left out are not read.
	for l := range m.Layers {
		m.Layers[l].Units.Left = 0.5
	}
	if d := price(2900).Disk; !near(d.Hits, hits) || !near(d.Units, 2*(1-hits)*(1+guessedWrong)) {
		t.Errorf("%+v", d)
	}
	for l := range m.Layers {
		m.Layers[l].Units.Left = 0
	}
	// No room at all, and less than what must be in RAM.
	if p := price(2500); p.Disk.Hits != 0 || p.Disk.Bytes != 800 || p.Disk.Lacks != 0 {
		t.Errorf("%+v", p.Disk)
	}
	if p := price(2400); p.Disk.Lacks != 100 {
		t.Errorf("%+v", p.Disk)
	}
	// Units that cannot stay there are in RAM.
	m.Layers[0].Units.Stay = false
	if p := price(3100); p.Disk.Bytes != 200 || p.Layers[0].Disk != 0 || p.Layers[1].Disk != 200 {
		t.Errorf("%+v", p)
	}
}

// TestGuessesByHand: a disk busy with urgent reads has little time for predictions, and some layers are not predicted
// at all.
func TestGuessesByHand(t *testing.T) {
	d, u := Rate{Read: 1e6}, Units{Size: 100, Guessed: true, Stay: true, InOrder: true}
	// Two units are needed, and both are missing: reading them takes 200 µs, and 100 µs of computing remain. In 50 µs
	// of attention and these 100 µs the disk reads 1.5 units of the 1.28 that would be predicted.
	if right, wrong := d.guesses(&u, 50*µs, 100*µs, 2, 2); !near(right, 2*guessedRight) || !near(wrong, 2*guessedWrong) {
		t.Errorf("%g and %g", right, wrong)
	}
	// With half a unit's computing, in 64 µs in all, it reads half of them.
	if right, wrong := d.guesses(&u, 14*µs, 50*µs, 2, 2); !near(right, guessedRight) || !near(wrong, guessedWrong) {
		t.Errorf("%g and %g", right, wrong)
	}
	u.Guessed = false
	if right, wrong := d.guesses(&u, 50*µs, 100*µs, 2, 2); right != 0 || wrong != 0 {
		t.Errorf("units that nobody guesses: %g and %g", right, wrong)
	}
}

// Where nobody has counted uses, RAM answers what texts usually find there: the shares are a cache's own.
func TestPriorHits(t *testing.T) {
	y := Layer{Attention: 1000, Experts: true, Units: Units{Size: 100, InOrder: true, Guessed: true, Stay: true, Sometimes: slices.Repeat([]float64{50}, 4), Kept: []float64{1, 0.5, 0.3, 0.2}}}
	m := Model{Layers: []Layer{y, y}, Head: 500}
	on := Machine{Stream: 1e6, Rows: 1e6, RAM: 2900, Disk: Rate{Read: 0.5e6}}
	p, err := Price(&m, &on, slices.Repeat([]compute.Place{{Split: compute.Split{Tier: compute.RAM}}}, 3))
	if err != nil || !near(p.Disk.Hits, 0.75) {
		t.Errorf("%+v, %v; want three of four uses answered", p.Disk, err)
	}
}
