package vulkan

import (
	"errors"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Counter returns a device without a GPU that counts memory. It takes weights by their shapes and ignores their data;
// Used returns what the GPU that info describes would have in use. It runs the allocation code of the GPU's device.
// Segments can be recorded with Record, not run. If info is described and not from Devices, the GPU is assumed to be
// one that needs the most memory.
func Counter(info Info) *Device {
	g := driver.Described(info)
	d := counting(g)
	for i := range d.long.checked { // they are taken to pass
		d.long.checked[i] = true
	}
	none := errors.New("there are none")
	if g.Matrices.M == 0 {
		d.long.failed[Matrices] = none
	}
	if len(g.Workgroup.Shapes) == 0 {
		d.long.failed[Groups] = none
	}
	return d
}

// counting returns a device that counts, for a GPU that is not open.
func counting(g *driver.GPU) *Device {
	d := &Device{gpu: g, bindings: &bindings{}, segments: map[compute.Segment]*segment{}, scratches: map[string]driver.View{}, sizes: map[string]int64{}}
	d.mem = driver.Memory{GPU: g, Budget: math.MaxInt64}
	d.maxBinding = g.Span()
	d.reset()
	return d
}

// count runs body as record does, for what its scratch takes.
func (d *Device) count(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) {
	d.inputs.restart()
	d.results.restart()
	r := &recorder{d: d, now: p, seg: d.newSegment(seg, p), err: errSizing}
	body(compute.NewVerbs(r))
	r.flush()
	d.free(r.seg)
}
