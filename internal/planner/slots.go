package planner

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// busOfRAM is the bandwidth of a bus to a GPU that was not measured, as a share of RAM's.
const busOfRAM = 1. / 3

// follow gives layers whose experts lie partly on a GPU slots where the user asks for it, so that which of them lie there follows the text. RAM then holds
// these experts, too, so that no bytes of theirs are saved.
func (p *Planner) follow(plan *Plan, s *Solution) {
	most := p.o.MoECache
	if most == 0 {
		return
	}
	if p.cost.ExpertMode == model.Exact {
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
