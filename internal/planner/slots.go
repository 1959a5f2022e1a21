package planner

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// busOfRAM is the bandwidth of a bus to a GPU that was not measured, as a share of RAM's.
const busOfRAM = 1. / 3

// If the user does not say whether experts follow the text, they do if a token should take at least followGain less of
// its time, and if everything that RAM then holds takes at most followRAM of it, or some experts are on the disk.
const (
	followGain = 0.05
	followRAM  = 0.8
)

// Following returns the solution in which experts follow the text, in the layers that are partly on a GPU, and reports
// whether they should: if the user asks for it, or if it is faster than still, in which they stay. If the file lists
// how often experts are used, those that any text uses are on GPUs already.
func (p *Planner) Following(still *Solution) (s Solution, pays bool, err error) {
	m, b, asked := p.machine, p.cost, p.o.MoECache != nil
	switch {
	case b.ExpertsUsed == 0 && !asked, asked && *p.o.MoECache == 0, !asked && !p.mayFollow():
		return s, false, nil
	case b.ExpertMode != model.Off:
		p.o.notice("experts stay where they are: mode exact lays them out by neuron, so that none can be copied to a GPU; mode off has them follow the text")
		return s, false, nil
	}
	b.Model = b.Following()
	if s, err = p.once(&p.follow, &b); err != nil || asked {
		return s, err == nil, err
	}
	_, bytes := p.slotted(s.Plan.Places())
	ram := s.Plan.RAM + b.Rest + bytes
	fits := s.Plan.Disk.Bytes > 0 || float64(ram) <= followRAM*float64(m.Memory)
	return s, bytes > 0 && fits && s.Plan.Seconds <= (1-followGain)*still.Plan.Seconds, nil
}

// mayFollow reports whether experts may follow the text without being asked to.
func (p *Planner) mayFollow() bool {
	m, b := p.machine, &p.cost
	if !m.Predictable() || b.ExpertsKnown || b.ExpertMode != model.Off || len(p.o.Tensors) > 0 || p.o.Layers != nil {
		return false
	}
	for j, g := range m.gpus {
		if !p.failed[j] && (g.known == nil || !(g.known.Upload > 0)) {
			return false
		}
	}
	return true
}

// addSlots gives slots to layers with experts partly on a GPU, so that the text decides which of them are there. RAM
// then holds these experts, too, unless experts stay on the disk.
func (p *Planner) addSlots(plan *Plan, s *Solution) {
	most := int64(math.MaxInt64)
	if p.o.MoECache != nil {
		most = *p.o.MoECache
	}
	layers, bytes := p.slotted(plan.Places)
	if bytes > most {
		layers = p.within(plan, layers, most)
	}
	if len(layers) == 0 {
		p.o.notice("no experts follow the text: there is no layer of which a GPU has some experts, but not all, within %.0f MiB", mib(most))
		return
	}
	for _, l := range layers {
		y := &plan.Places[l]
		y.Slots = true
		gpu := &plan.GPUs[y.Tier]
		gpu.Expert = max(gpu.Expert, p.cost.Model.Layers[l].Units.Size)
	}
	for i := range plan.GPUs {
		j := p.used[i]
		speeds := residency.Speeds{RAM: s.Machine.Stream, GPU: s.Machine.GPUs[j].Read, Bus: busOfRAM * s.Machine.Stream}
		if k := p.machine.gpus[j].known; k != nil && k.Upload > 0 {
			speeds.Bus = k.Upload
		}
		plan.GPUs[i].Slots.Speeds, plan.GPUs[i].Slots.Tuning = speeds, residency.Tuned()
	}
}

// slotted returns the layers that have some of their experts on a GPU, and the bytes of those experts.
func (p *Planner) slotted(places []compute.Place) (layers []int, bytes int64) {
	for l := range p.cost.Model.Layers {
		y, place := &p.cost.Model.Layers[l], &places[l]
		if y.Experts && place.Tier != compute.RAM && place.Bound > 0 && place.Bound < len(y.Units.Sometimes) {
			layers, bytes = append(layers, l), bytes+int64(place.Bound)*y.Units.Size
		}
	}
	return layers, bytes
}

// within returns the first of layers with experts of at most that many bytes together. The experts of the others stay
// on their GPU. If the first layer alone takes more, it has slots for as many experts as fit.
func (p *Planner) within(plan *Plan, layers []int, most int64) (some []int) {
	bytes := int64(0)
	for _, l := range layers {
		y, size := &plan.Places[l], p.cost.Model.Layers[l].Units.Size
		if n := int((most - bytes) / size); len(some) == 0 && n > 0 && n < y.Bound {
			freed := int64(y.Bound-n) * size
			y.Bound = n
			plan.Bytes -= freed
			plan.GPUs[y.Tier].Planned -= freed
		}
		if n := int64(y.Bound) * size; bytes+n <= most {
			some, bytes = append(some, l), bytes+n
		}
	}
	return some
}
