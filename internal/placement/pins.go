package placement

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Pins say where parts of a layer must be stored. The zero value leaves everything to the search.
type Pins struct {
	Attention, Predictor Pin
	Units                Pin          // of all units
	GPU                  compute.Tier // the GPU of the parts with OnGPU; no other part of the layer is on another GPU
}

// Pin is where one part must be stored.
type Pin int8

// The places that a part can be held to.
const (
	Anywhere Pin = iota
	InRAM
	OnGPU
)

// allows reports whether a part may be, or may not be, on a GPU.
func (p Pin) allows(gpu bool) bool { return p == Anywhere || gpu == (p == OnGPU) }

// OnGPU reports whether any part must be on a GPU.
func (p *Pins) OnGPU() bool { return p.Attention == OnGPU || p.Predictor == OnGPU || p.Units == OnGPU }

// allow reports whether a layer on that GPU may be in mode m.
func (p *Pins) allow(m mode, gpu int, y *Layer) bool {
	if m != modes[inRAM] && p.OnGPU() && int(p.GPU) != gpu {
		return false
	}
	if !p.Attention.allows(m.attention) || y.Predictor > 0 && !p.Predictor.allows(m.predictor) {
		return false
	}
	return len(y.Units.Sometimes) == 0 || p.Units == Anywhere || m.units == all && p.Units == OnGPU || m.units == none && p.Units == InRAM
}

// Possible reports whether the layer can be placed as its pins say. For example, a predictor is on a GPU only together
// with another part of its layer.
func (y *Layer) Possible() bool {
	for _, m := range modes {
		if y.Pins.allow(m, int(y.Pins.GPU), y) {
			return true
		}
	}
	return false
}
