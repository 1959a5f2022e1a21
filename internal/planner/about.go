package planner

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// An Outline is what is known of a model without its file.
type Outline struct {
	Bytes int64   // bytes of its weights
	Read  float64 // share of Bytes that a token reads; less than 1: experts or neurons are chosen
	KV    int64   // bytes of keys and values
}

// outlineLayers and outlineUnits are the numbers of layers and of experts in each that an outline is planned with. They
// only say how finely it may be divided between processors.
const (
	outlineLayers = 32
	outlineUnits  = 32
)

// model returns the outline as layers that are alike. Of a model that reads a part of its weights, half of that part is
// read for every token: attention and what is shared.
func (o *Outline) model() placement.Model {
	layer := o.Bytes / outlineLayers
	dense := layer / 2
	units := placement.Units{Sometimes: make([]float64, outlineUnits)}
	if o.Read < 1 {
		dense = int64(o.Read / 2 * float64(layer))
		units.InOrder = true
	}
	units.Size = (layer - dense) / outlineUnits
	if o.Read < 1 {
		for i := range units.Sometimes {
			units.Sometimes[i] = float64(dense) / outlineUnits
		}
	} else {
		units.Always = units.Size
	}
	y := placement.Layer{Attention: dense, KV: o.KV / outlineLayers, Units: units, Experts: o.Read < 1}
	m := placement.Model{}
	for range outlineLayers {
		m.Layers = append(m.Layers, y)
	}
	return m
}

// About estimates, from an outline of a model, how many tokens per second the machine generates, and how much RAM the
// model takes in addition to GPU memory.
func (m *Machine) About(o Outline) (rate float64, ram int64, err error) {
	of := o.model()
	const row = 4096 // bytes of a neuron's row in a model of usual width
	on := m.on(row, "")
	plan, err := placement.Solve(of, on)
	if err != nil {
		return 0, 0, err
	}
	return 1 / plan.Seconds, plan.RAM, nil
}

// aboutBeside is what computing is taken to need of RAM where nothing is known of a model but an outline.
const aboutBeside = 1 << 30

// AboutOnDisk is About for a model that does not fit in free bytes of RAM: its experts stay on the disk. rate is 0 if
// the model has no experts, or if the rest of it does not fit either.
func (m *Machine) AboutOnDisk(o Outline, free int64) (rate float64, err error) {
	if !(o.Read < 1) {
		return 0, nil
	}
	of := o.model()
	used := 0.0 // experts of a layer
	for _, b := range of.Layers[0].Units.Sometimes {
		used += b / float64(of.Layers[0].Units.Size)
	}
	kept := modelcost.CachedUses(outlineUnits, max(1, int(math.Round(used))))
	for l := range of.Layers {
		of.Layers[l].Units.Stay, of.Layers[l].Units.Kept = true, kept
	}
	const row = 4096 // as About's
	on := m.on(row, "")
	on.Disk, on.RAM = m.diskRate(usualPiece), ramOf(uint64(free)).OnDisk-aboutBeside
	plan, err := placement.Solve(of, on)
	if err != nil || plan.Disk.Lacks > 0 {
		return 0, err
	}
	return 1 / plan.Seconds, nil
}

// usualPiece is about the bytes of a matrix of an expert.
const usualPiece = 2 << 20
