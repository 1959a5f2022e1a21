package placement

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// multiGPU places a model on all GPUs of a machine: consecutive layers on each, as a token passes them, the head with
// the last.
type multiGPU struct {
	m      *Model
	on     *Machine
	curves [][]curve // [GPU][layers+1]
	solved map[stretch]solution
	bounds map[stretch]float64
}

// stretch is layers [from, to) on a GPU.
type stretch struct{ gpu, from, to int }

type solution struct {
	modes   assignment
	hot     []int
	seconds float64
}

func newMultiGPU(m *Model, on *Machine) *multiGPU {
	f := &multiGPU{m: m, on: on, solved: map[stretch]solution{}, bounds: map[stretch]float64{}}
	for j := range on.GPUs {
		var list []curve
		for l := range len(m.Layers) + 1 {
			y := m.layer(l)
			if l > 0 && y.Units.same(&list[l-1].y.Units) {
				list = append(list, list[l-1].like(y))
				continue
			}
			list = append(list, newCurve(y, on, j))
		}
		f.curves = append(f.curves, list)
	}
	return f
}

func (f *multiGPU) solve(t stretch) solution {
	if s, ok := f.solved[t]; ok {
		return s
	}
	var s solution
	s.modes, s.hot, s.seconds = newSolver(f.on, t.gpu, f.curves[t.gpu][t.from:t.to]).solve()
	f.solved[t] = s
	return s
}

// bound returns what no placement of the stretch is faster than.
func (f *multiGPU) bound(t stretch) float64 {
	if b, ok := f.bounds[t]; ok {
		return b
	}
	b := newSolver(f.on, t.gpu, f.curves[t.gpu][t.from:t.to]).bound()
	f.bounds[t] = b
	return b
}

// errPinned is the error of parts that are held to GPUs.
var errPinned = errors.New("what must lie on GPUs does not fit there, or is not in the order of the GPUs; put less there, or give more of their memory")

// places returns the best ones found. [layers+1]
func (f *multiGPU) places() ([]compute.Place, error) {
	layers := len(f.m.Layers) + 1
	out := make([]compute.Place, layers)
	for l := range out {
		out[l].Tier = compute.RAM
	}
	if len(f.on.GPUs) == 0 {
		for l := range out {
			if f.m.layer(l).Pins.OnGPU() {
				return nil, errPinned
			}
		}
		return out, nil
	}
	borders := f.borders(layers)
	if borders == nil {
		return nil, errPinned
	}
	for j := range f.on.GPUs {
		t := stretch{j, borders[j], borders[j+1]}
		s := f.solve(t)
		if math.IsInf(s.seconds, 1) {
			return nil, errPinned
		}
		for l := t.from; l < t.to; l++ {
			out[l] = modes[s.modes[l-t.from]].place(&f.curves[j][l], compute.Tier(j), s.hot[l-t.from])
		}
	}
	return out, nil
}

// borders[j] is the first layer of GPU j. A coarse choice by bounds comes first. Then each border moves to the best
// place between its neighbours, for as long as that saves time. [GPUs+1]; nil if parts are pinned to GPUs in another
// order than that of the GPUs
func (f *multiGPU) borders(layers int) []int {
	b := f.coarse(layers)
	if b == nil {
		return nil
	}
	for changed := true; changed; {
		changed = false
		for j := 1; j < len(b)-1; j++ {
			if at := f.border(j, b[j-1], b[j], b[j+1]); at != b[j] {
				b[j], changed = at, true
			}
		}
	}
	return b
}

// coarseBorders is the number of places that coarse tries for each border.
const coarseBorders = 32

// coarse returns the borders with the least sum of bounds, out of evenly spaced places. [GPUs+1]
func (f *multiGPU) coarse(layers int) []int {
	type prefix struct { // layers [0, at) on the first GPUs
		seconds float64
		borders []int
	}
	var at []int
	step := (layers + coarseBorders - 1) / coarseBorders
	for l := range layers {
		if l%step == 0 || f.turns(l) {
			at = append(at, l)
		}
	}
	at = append(at, layers)
	last := len(f.on.GPUs) - 1
	before := []prefix{{0, []int{0}}} // by at
	for j := range f.on.GPUs {
		next := make([]prefix, len(at))
		for i, to := range at {
			next[i].seconds = math.Inf(1)
			if j == last && to < layers {
				continue
			}
			for k, p := range before[:min(i+1, len(before))] {
				if t := p.seconds + f.bound(stretch{j, at[k], to}); t < next[i].seconds {
					next[i] = prefix{t, append(slices.Clone(p.borders), to)}
				}
			}
		}
		before = next
	}
	return before[len(at)-1].borders
}

// turns reports whether layer l is pinned to a GPU and the layer before it is not pinned to the same one.
func (f *multiGPU) turns(l int) bool {
	if l == 0 {
		return false
	}
	a, b := f.m.layer(l-1).Pins, f.m.layer(l).Pins
	return a.OnGPU() != b.OnGPU() || b.OnGPU() && a.GPU != b.GPU
}

// border returns the best first layer of GPU j, if GPU j-1 begins at from and GPU j ends before to. now is the present
// border. Places are solved in the order of their bounds until the next bound is no better than the best solution.
func (f *multiGPU) border(j, from, now, to int) int {
	type candidate struct {
		at    int
		bound float64
	}
	var list []candidate
	for at := from; at <= to; at++ {
		list = append(list, candidate{at, f.bound(stretch{j - 1, from, at}) + f.bound(stretch{j, at, to})})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.bound, b.bound) })
	seconds := func(at int) float64 {
		return f.solve(stretch{j - 1, from, at}).seconds + f.solve(stretch{j, at, to}).seconds
	}
	best := seconds(now)
	for _, c := range list {
		if c.bound >= best*(1-nearEnough) {
			break
		}
		if t := seconds(c.at); t < best {
			now, best = c.at, t
		}
	}
	return now
}

// nearEnough is the share of a token's time below which no better border is looked for.
const nearEnough = 1e-3
