package planner

import (
	"errors"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// A plan that sets less memory aside for its step may put more on a GPU, and its step may then need more. A plan that
// sets more aside may divide layers in another way. So planning repeats, closerTries times at most. From the second
// time on it sets aside more than was needed: firstSlack bytes, and each time four times as much.
const (
	closerTries = 5
	firstSlack  = 1 << 20
)

// solve plans for a machine whose GPUs set memory aside.
type solve func(placement.Model, placement.Machine) (placement.Plan, error)

// fit plans, and sets aside on each GPU what this plan takes in addition to what it places there. on.GPUs' overheads
// bound what any plan may take.
func (m *Machine) fit(b *modelcost.Cost, on placement.Machine, streams []hybrid.Streaming, readAhead *bool, s solve) (placement.Plan, error) {
	with := func(given []int64) (placement.Plan, []int64, error) {
		on := on
		on.GPUs = slices.Clone(on.GPUs)
		for j := range on.GPUs {
			on.GPUs[j].Overhead = given[j]
		}
		p, err := s(b.Model, on)
		if err != nil {
			return p, nil, err
		}
		needs, err := m.overheads(b, &p, streams, ahead(readAhead, &p))
		return p, needs, err
	}
	if len(on.GPUs) == 0 {
		return s(b.Model, on)
	}
	given := make([]int64, len(on.GPUs)) // enough for any plan
	for j := range given {
		given[j] = on.GPUs[j].Overhead
	}
	p, need, err := with(given)
	next := need
	if err == nil && !within(need, given) {
		err = errors.New("no plan fits beside what its own step takes; give more of the GPUs' memory")
	}
	if next == nil { // whole layers, which may fit together with what they need
		next = make([]int64, len(on.GPUs))
	}
	for try := range closerTries {
		closer, needs, failed := with(next)
		if failed != nil {
			break
		}
		if within(needs, next) {
			p, need, given, err = closer, needs, next, nil
			break
		}
		for j := range next {
			if needs[j] > next[j] {
				next[j] = needs[j] + slack(try)
			}
		}
	}
	if err != nil {
		return p, err
	}
	for j := range p.VRAM {
		if p.VRAM[j] > 0 {
			p.VRAM[j] += need[j] - given[j]
		}
	}
	return p, nil
}

// slack returns what is set aside beyond what was needed, in bytes.
func slack(try int) int64 {
	if try == 0 {
		return 0
	}
	return firstSlack << (2 * (try - 1))
}

// overheads returns the memory that p takes on each GPU in addition to what is placed there.
func (m *Machine) overheads(b *modelcost.Cost, p *placement.Plan, streams []hybrid.Streaming, ahead hybrid.Ahead) ([]int64, error) {
	needs := make([]int64, len(m.gpus))
	plan, gpus := onto(p.Places(), p.VRAM, streams, ahead)
	if len(gpus) == 0 {
		return needs, nil
	}
	var infos []vulkan.Info
	for _, j := range gpus {
		infos = append(infos, m.gpus[j].info)
	}
	bytes, err := used(b, plan, infos)
	if err != nil {
		return nil, err
	}
	for i, j := range gpus {
		needs[j] = bytes[i]
	}
	for _, y := range p.Layers {
		if y.VRAM > 0 {
			needs[y.Tier] -= y.VRAM
		}
	}
	for j := range needs {
		needs[j] = max(0, needs[j])
	}
	return needs, nil
}

// most returns the most bytes that plans take on a GPU in addition to what they place there: those of a plan with every
// kind of layer, and all of the model except a few neurons, on one GPU. A plan that takes more is found when it is
// counted.
func (m *Machine) most(b *modelcost.Cost, j int, stream hybrid.Streaming) (int64, error) {
	most, err := m.mostWith(b, j, stream, 0)
	if err != nil || len(b.Model.Layers) != 2 {
		return most, err
	}
	// The last layer computes few rows of a prompt, so the first one is divided, too.
	other, err := m.mostWith(b, j, stream, 1)
	return max(most, other), err
}

// mostWith returns the same for a plan in which layer whole is whole, and the others are divided.
func (m *Machine) mostWith(b *modelcost.Cost, j int, stream hybrid.Streaming, whole int) (int64, error) {
	p := placement.Plan{VRAM: make([]int64, len(m.gpus))}
	streams := make([]hybrid.Streaming, len(m.gpus))
	streams[j] = stream
	for l := range b.Model.Layers {
		y := &b.Model.Layers[l]
		hot := len(y.Units.Sometimes)
		if l != whole { // whole blocks
			hot = max(0, hot-1) / blocks * blocks
		}
		p.Layers = append(p.Layers, placement.Priced{
			Place: compute.Place{Split: compute.Split{Tier: compute.Tier(j), Bound: hot}, Attention: true, Predictor: true},
			VRAM:  y.Attention + y.KV + y.Predictor + y.Units.Size*int64(hot),
		})
	}
	p.Layers = append(p.Layers, placement.Priced{Place: compute.Place{Split: compute.Split{Tier: compute.Tier(j)}, Attention: true}, VRAM: b.Model.Head})
	p.VRAM[j] = 1
	needs, err := m.overheads(b, &p, streams, hybrid.Never)
	if err != nil {
		return 0, err
	}
	return needs[j], nil
}

// The blocks of every element type divide blocks elements.
const blocks = 256

// within reports whether no element of a is more than b's.
func within(a, b []int64) bool {
	for j := range a {
		if a[j] > b[j] {
			return false
		}
	}
	return true
}
