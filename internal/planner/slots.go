package planner

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// busOfRAM is the bandwidth of a bus to a GPU that was not measured, as a share of RAM's.
const busOfRAM = 1. / 3

// Where nobody says whether experts follow the text, they do where a token should take at least followGain less of its time, and all that RAM holds then
// takes at most followRAM of it.
const (
	followGain = 0.05
	followRAM  = 0.8
)

// pays reports whether experts should follow the text. Of experts whose uses the file tells, those that any text uses are on GPUs already.
func (p *Planner) pays(plan *Plan, s *Solution) bool {
	m, b := p.machine, &p.cost
	if !m.Predictable() || b.ExpertsUsed == 0 || b.ExpertsKnown || b.ExpertMode != model.Off || p.o.Tensors != nil || p.o.Layers != nil {
		return false
	}
	for _, j := range p.used {
		if k := m.gpus[j].known; k == nil || !(k.Upload > 0) {
			return false
		}
	}
	layers, bytes := p.slotted(plan)
	if ram := s.Plan.RAM + b.Rest + bytes; len(layers) == 0 || float64(ram) > followRAM*float64(m.Memory) {
		return false
	}
	following := b.Following()
	then, err := placement.Price(&following, &s.Machine, s.Plan.Places())
	return err == nil && then.Seconds <= (1-followGain)*s.Plan.Seconds
}

// follow gives layers whose experts lie partly on a GPU slots where the user asks for it, or where it pays, so that which of them lie there follows the text.
// RAM then holds these experts, too, so that no bytes of theirs are saved.
func (p *Planner) follow(plan *Plan, s *Solution) {
	most := int64(math.MaxInt64)
	if p.o.MoECache != nil {
		most = *p.o.MoECache
	} else if !p.pays(plan, s) {
		return
	}
	if most == 0 {
		return
	}
	if p.cost.ExpertMode != model.Off {
		p.o.notice("experts stay where they are: --sparse exact lays them out by neuron, so that none can be copied to a GPU; --sparse off has them follow the text")
		return
	}
	layers, bytes := p.slotted(plan)
	if bytes > most {
		p.shrink(plan, layers, most)
		layers, bytes = p.slotted(plan)
	}
	if len(layers) == 0 {
		p.o.notice("no experts follow the text: there is no layer of which a GPU has some experts, but not all, within %.0f MiB", mib(most))
		return
	}
	for _, l := range layers {
		plan.Places[l].Slots = true
	}
	plan.Bytes -= bytes
	for i := range plan.GPUs {
		j := p.used[i]
		speeds := residency.Speeds{RAM: s.Machine.Stream, GPU: s.Machine.GPUs[j].Read, Bus: busOfRAM * s.Machine.Stream}
		if k := p.machine.gpus[j].known; k != nil && k.Upload > 0 {
			speeds.Bus = k.Upload
		}
		plan.GPUs[i].Slots.Speeds, plan.GPUs[i].Slots.Tuning = speeds, residency.Tuned()
	}
}

// slotted returns the layers of which a GPU has some experts, and the bytes of these.
func (p *Planner) slotted(plan *Plan) (layers []int, bytes int64) {
	for l := range p.cost.Model.Layers {
		y, place := &p.cost.Model.Layers[l], &plan.Places[l]
		if y.Experts && place.Tier != compute.RAM && place.Bound > 0 && place.Bound < len(y.Units.Sometimes) {
			layers, bytes = append(layers, l), bytes+int64(place.Bound)*y.Units.Size
		}
	}
	return layers, bytes
}

// shrink takes experts from layers, of each the same share, until those that are left take at most so many bytes.
func (p *Planner) shrink(plan *Plan, layers []int, most int64) {
	_, bytes := p.slotted(plan)
	for _, l := range layers {
		y := &plan.Places[l]
		fewer := int(float64(y.Bound) * float64(most) / float64(bytes))
		freed := int64(y.Bound-fewer) * p.cost.Model.Layers[l].Units.Size
		y.Bound = fewer
		plan.Bytes -= freed
		plan.GPUs[y.Tier].Planned -= freed
	}
}
