package placement

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// large returns a model of the shape of a 70B one in Q4_0 where units is 28672.
func large(layers, units int) (Model, Machine) {
	var m Model
	for l := range layers {
		y := Layer{Attention: 85 << 20, KV: 16 << 20, Predictor: 20 << 20, Units: Units{Size: 3 * 4608 * 28672 / int64(units)}}
		for _, v := range PowerLaw(units, 0.05+0.1*float64(l)/float64(layers), 0.35) {
			y.Units.Sometimes = append(y.Units.Sometimes, float64(v)*float64(y.Units.Size))
		}
		m.Layers = append(m.Layers, y)
	}
	m.Head = 150 << 20
	return m, Machine{Stream: 50e9, Rows: 30e9, HandOff: 40e-6, GPUs: []GPU{{Read: 900e9, Launch: 20e-6, Budget: 12 << 30, Overhead: 300 << 20}}}
}

// least returns what no placement on one GPU is faster than, by Lagrangian duality and nothing of the solver's: for any
// price of a byte, every layer by itself at its least time plus price, less the price of the whole budget. Moves
// between layers are left out.
func least(m Model, on Machine, price float64) float64 {
	g := on.GPUs[0]
	sum := math.Min(float64(m.Head)/on.Stream, float64(m.Head)*(1/g.Read+price)+g.Launch)
	for l := range m.Layers {
		y := &m.Layers[l]
		attention := float64(y.Attention + y.KV)
		inRAM, onGPU := attention/on.Stream, attention*(1/g.Read+price)
		predictorRAM, predictorGPU := float64(y.Predictor)/on.Stream, float64(y.Predictor)*(1/g.Read+price)
		n := len(y.Units.Sometimes)
		var hot, cold float64
		for _, b := range y.Units.Sometimes {
			cold += math.Min(float64(y.Units.Always)/on.Stream+b/on.Rows, float64(y.Units.Size)/on.Stream)
		}
		best := inRAM + predictorRAM + cold // no GPU at all
		for k := 0; ; k++ {
			units := math.Max(hot, cold) + price*float64(y.Units.Size)*float64(k)
			third := 0.0
			if y.Predictor > 0 {
				third = on.HandOff
			}
			best = math.Min(best, units+g.Launch+onGPU+on.HandOff+math.Min(predictorRAM, predictorGPU))
			best = math.Min(best, units+g.Launch+inRAM+2*on.HandOff+math.Min(predictorRAM+third, predictorGPU))
			if k == n {
				best = math.Min(best, units+g.Launch+onGPU+predictorGPU)
				break
			}
			b := y.Units.Sometimes[k]
			hot += (float64(y.Units.Always) + b) / g.Read
			cold -= math.Min(float64(y.Units.Always)/on.Stream+b/on.Rows, float64(y.Units.Size)/on.Stream)
		}
		sum += best
	}
	return sum - price*math.Max(float64(g.Budget-g.Overhead), 0)
}

// greatest returns the largest value of a function with one summit, by golden sections.
func greatest(f func(float64) float64, low, high float64) float64 {
	const golden = 0.6180339887498949
	for range 60 {
		if f(high-golden*(high-low)) > f(low+golden*(high-low)) {
			high = low + golden*(high-low)
		} else {
			low = high - golden*(high-low)
		}
	}
	return f((low + high) / 2)
}

// Models too large for exhaustive search are held to the bound, which is below the best placement.
func TestNearBoundAt80Layers(t *testing.T) {
	testenv.Thorough(t)
	r := rand.New(rand.NewPCG(seed, 3))
	m, on := large(80, 512)
	for range 12 {
		on.GPUs[0].Budget = int64(1.1 * r.Float64() * float64(m.Bytes()))
		on.HandOff = 200e-6 * r.Float64() * r.Float64()
		on.GPUs[0].Read = 100e9 + 900e9*r.Float64()
		p, err := Solve(m, on)
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, seed, m, on, p)
		bound := greatest(func(x float64) float64 { return least(m, on, math.Exp(x)) }, math.Log(1e-18), math.Log(1e-7))
		if gap := p.Seconds/bound - 1; gap > nearBest {
			t.Errorf("seed %d: budget %d: %g s, %.2f %% above the bound", seed, on.GPUs[0].Budget, p.Seconds, 100*gap)
		} else {
			t.Logf("budget %5.1f GiB, hand-off %3.0f µs: %.2f ms, at most %.3f %% above the best", float64(on.GPUs[0].Budget)/(1<<30), 1e6*on.HandOff, 1e3*p.Seconds, 100*gap)
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	m, on := large(80, 28672)
	for b.Loop() {
		if _, err := Solve(m, on); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSolveTwoGPUs(b *testing.B) {
	m, on := large(80, 28672)
	on.GPUs = append(on.GPUs, on.GPUs[0])
	for b.Loop() {
		if _, err := Solve(m, on); err != nil {
			b.Fatal(err)
		}
	}
}
