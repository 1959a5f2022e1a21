package hybrid

import (
	"context"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Bundle implements compute.Device. The host keeps the units that are not on the GPU.
func (d *Device) Bundle(prior []float64, parts ...*compute.Matrix) error {
	return bundle(d.host, prior, parts)
}

// Keep implements compute.Device.
func (d *Device) Keep(ctx context.Context, progress func(done, total int64)) error {
	lend(d.host, d)
	return d.host.Keep(ctx, progress)
}

// Step implements compute.Device.
func (d *Device) Step(tokens int) { d.host.Step(tokens) }

// Bundle implements compute.Device.
func (f *MultiGPU) Bundle(prior []float64, parts ...*compute.Matrix) error {
	return bundle(f.host(), prior, parts)
}

// Keep implements compute.Device.
func (f *MultiGPU) Keep(ctx context.Context, progress func(done, total int64)) error {
	lend(f.host(), f.pairs...)
	return f.host().Keep(ctx, progress)
}

// Step implements compute.Device.
func (f *MultiGPU) Step(tokens int) { f.host().Step(tokens) }

// bundle bundles the host's parts. The first units may be on a GPU.
func bundle(host Host, prior []float64, parts []*compute.Matrix) error {
	var on []*compute.Matrix
	units := 0
	for _, p := range parts {
		if m := mem(p); m.units > 0 {
			on, units = append(on, m.host), m.units
		}
	}
	switch {
	case len(on) == 0:
		return nil
	case len(on) < len(parts):
		return fmt.Errorf("tensor %q: it stays on disk, and others of its layer do not", on[0].Name)
	}
	if prior != nil {
		prior = slices.Clone(prior[max(0, len(prior)-units):])
		if m := mem(parts[0]); m.slots {
			clear(prior[:m.hot*units/parts[0].Rows]) // the GPU has these
		}
	}
	return host.Bundle(prior, on...)
}

// lend makes the host reserve RAM for the chunks that are sent to GPUs for prompts; GPUs take turns. If it has too little
// RAM, the host computes prompts itself.
func lend(host Host, pairs ...*Device) {
	most := int64(0)
	for _, d := range pairs {
		if d.experts && d.streaming.Experts > 0 {
			most = max(most, d.streaming.Bytes)
		}
	}
	lends := most > 0 && host.Lend(1+fetchedAhead, most)
	for _, d := range pairs {
		d.lends = lends
	}
}
