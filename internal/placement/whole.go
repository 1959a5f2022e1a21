package placement

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Whole places the last n layers whole on the GPUs and the others in RAM, as llama.cpp's -ngl does: one more than there
// are layers takes the head too, and any higher number means the same. GPUs are filled in order; it fails where they
// are too small.
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
	first := max(len(m.Layers)-n, 0)
	gpu, left := -1, int64(0)
	for l := range places {
		y := m.layer(l)
		whole := l >= first && (l < len(m.Layers) || n > len(m.Layers))
		places[l] = y.whole(whole)
		if places[l].Tier == compute.RAM {
			continue
		}
		bytes := y.on(places[l])
		for bytes > left || y.Pins.OnGPU() && gpu < int(y.Pins.GPU) {
			if gpu++; gpu >= len(on.GPUs) {
				what := fmt.Sprintf("layer %d", l)
				if l == len(m.Layers) {
					what = "the head"
				}
				return nil, fmt.Errorf("%d layers, the head counted as one, do not fit: %s takes %.1f MiB and there are %.1f left", n, what, float64(bytes)/(1<<20), float64(max(left, 0))/(1<<20))
			}
			left = on.GPUs[gpu].Budget - on.GPUs[gpu].Overhead
		}
		if y.Pins.OnGPU() && gpu > int(y.Pins.GPU) {
			return nil, errPinned
		}
		left -= bytes
		places[l].Tier = compute.Tier(gpu)
	}
	return places, nil
}

// whole returns the place of a layer that is entirely on the first GPU, if gpu is set, or in RAM, except where its pins
// say otherwise.
func (y *Layer) whole(gpu bool) compute.Place {
	on := func(p Pin) bool { return p.allows(true) && (gpu || p == OnGPU) }
	at := compute.Place{Attention: on(y.Pins.Attention)}
	if on(y.Pins.Units) {
		at.Bound = len(y.Units.Sometimes)
	}
	if !at.Attention && at.Bound == 0 {
		at.Tier = compute.RAM
	}
	at.Predictor = at.Tier != compute.RAM && y.Predictor > 0 && on(y.Pins.Predictor)
	return at
}

// on returns the bytes of the layer that a place has on its GPU.
func (y *Layer) on(at compute.Place) int64 {
	bytes := y.Units.Size * int64(at.Bound)
	if at.Attention {
		bytes += y.Attention + y.KV
	}
	if at.Predictor {
		bytes += y.Predictor
	}
	return bytes
}

// MostWhole returns the largest n that Whole can place, and its plan: the best that placing by layers does.
func MostWhole(m Model, on Machine) (int, Plan, error) {
	for n := len(m.Layers) + 1; ; n-- {
		places, err := wholePlaces(&m, &on, n)
		switch {
		case err == nil:
			p, err := Price(&m, &on, places)
			return n, p, err
		case n == 0:
			return 0, Plan{}, err
		}
	}
}

// ExpertsInRAM returns llama.cpp's best way for a model with experts: -ngl layers, the last ones and then the head, on
// the GPUs, with the experts of the first n layers of the model computed in RAM: -ncmoe n. Both are those of the
// fastest placement that fits.
func ExpertsInRAM(m Model, on Machine) (layers, n int, best Plan, err error) {
	held := m.Free()
	best.Seconds = math.Inf(1)
	for ngl := len(m.Layers) + 1; ngl >= 0; ngl-- {
		for l := range held.Layers {
			held.Layers[l].Pins.Units = Anywhere
		}
		for k := 0; k <= len(m.Layers); k++ {
			if k > 0 {
				if !held.Layers[k-1].Experts {
					continue
				}
				held.Layers[k-1].Pins.Units = InRAM
			}
			places, full := wholePlaces(&held, &on, ngl)
			if full != nil {
				continue
			}
			p, err := Price(&held, &on, places)
			if err != nil {
				return 0, 0, p, err
			}
			if p.Seconds < best.Seconds {
				layers, n, best = ngl, k, p
			}
			break // fewer in RAM do not fit, and more are slower
		}
	}
	return layers, n, best, nil
}
