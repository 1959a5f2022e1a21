package placement

import (
	"math/rand/v2"
	"testing"
)

// spareGPU is by how much a plan may be slower than one for fewer of its GPUs: what the search for borders gives away.
const spareGPU = 0.02

// TestSpareGPUs: a useless GPU is left out: no plan is slower than those for fewer of the GPUs.
func TestSpareGPUs(t *testing.T) {
	r := rand.New(rand.NewPCG(seed, 4))
	m, on := large(24, 64)
	machines := [][]GPU{{
		{Read: 850e9, Budget: 4 << 30}, {Read: 850e9, Budget: 4 << 30}, {Read: 340e9, Budget: 2 << 30}, {Read: 340e9, Budget: 2 << 30},
	}, {
		{Read: 340e9, Budget: 2 << 30}, {Read: 850e9, Budget: 4 << 30}, {Read: 340e9, Budget: 2 << 30}, {Read: 850e9, Budget: 4 << 30},
	}}
	for range 8 {
		var gpus []GPU
		for range 2 + r.IntN(3) {
			gpus = append(gpus, GPU{Read: 100e9 + 900e9*r.Float64(), Launch: 40e-6 * r.Float64(), Budget: int64(0.8 * r.Float64() * float64(m.Bytes())), Overhead: 100 << 20})
		}
		machines = append(machines, gpus)
	}
	for _, gpus := range machines {
		on.GPUs = gpus
		all, err := Solve(m, on)
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, seed, m, on, all)
		for chosen := range 1<<len(gpus) - 1 {
			on.GPUs = nil
			for j, g := range gpus {
				if chosen&(1<<j) != 0 {
					on.GPUs = append(on.GPUs, g)
				}
			}
			some, err := Solve(m, on)
			if err != nil {
				t.Fatal(err)
			}
			if all.Seconds > some.Seconds*(1+spareGPU) {
				t.Errorf("seed %d: %.3f ms with all of %+v, %.3f ms with %+v", seed, 1e3*all.Seconds, gpus, 1e3*some.Seconds, on.GPUs)
			}
		}
	}
}
