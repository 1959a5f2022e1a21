package placement

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Whole places the last n layers whole on the GPUs and the others in RAM, as llama.cpp's -ngl does: one more than there are
// layers takes the head too, and any higher number means the same. GPUs are filled in order; it fails where they are too small.
func Whole(m Model, on Machine, n int) (Plan, error) {
	places, err := wholePlaces(&m, &on, n)
	if err != nil {
		return Plan{}, err
	}
	return Price(&m, &on, places)
}

func wholePlaces(m *Model, on *Machine, n int) ([]compute.Place, error) {
	n = min(max(n, 0), len(m.Layers)+1)
	places := make([]compute.Place, len(m.Layers)+1)
	for l := range places {
		places[l].Tier = compute.RAM
	}
	first := max(len(m.Layers)-n, 0)
	last := len(m.Layers)
	if n > len(m.Layers) {
		last++
	}
	gpu, left := -1, int64(0)
	for l := first; l < last; l++ {
		y := m.layer(l)
		for y.Bytes() > left {
			if gpu++; gpu >= len(on.GPUs) {
				what := fmt.Sprintf("layer %d", l)
				if l == len(m.Layers) {
					what = "the head"
				}
				return nil, fmt.Errorf("%d layers, the head counted as one, do not fit: %s takes %.1f MiB and there are %.1f left", n, what, float64(y.Bytes())/(1<<20), float64(max(left, 0))/(1<<20))
			}
			left = on.GPUs[gpu].Budget - on.GPUs[gpu].Overhead
		}
		left -= y.Bytes()
		places[l] = compute.Place{Split: compute.Split{Tier: compute.Tier(gpu), Bound: len(y.Units.Sometimes)}, Attention: true, Predictor: y.Predictor > 0}
	}
	return places, nil
}

// MostWhole returns the largest n that Whole can place, and its plan: the best that placing by layers does.
func MostWhole(m Model, on Machine) (int, Plan, error) {
	for n := len(m.Layers) + 1; ; n-- {
		places, err := wholePlaces(&m, &on, n)
		if err == nil || n == 0 {
			p, err := Price(&m, &on, places)
			return n, p, err
		}
	}
}
