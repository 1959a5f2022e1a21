package hybrid

import (
	"context"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Bundle implements compute.Device. The host keeps the units that are not on the GPU.
func (d *Device) Bundle(prior []float64, parts ...*compute.Matrix) error {
	return d.bundle(prior, parts)
}

// Keep implements compute.Device.
func (d *Device) Keep(ctx context.Context, progress func(done, total int64)) error {
	lend(d.host, d)
	return d.host.Keep(ctx, progress)
}

// Step implements compute.Device.
func (d *Device) Step(tokens int) {
	if !d.rehearsal { // which uses no unit
		d.host.Step(tokens)
	}
}

// Bundle implements compute.Device.
func (f *MultiGPU) Bundle(prior []float64, parts ...*compute.Matrix) error {
	return f.pairs[mem(parts[0]).home].bundle(prior, parts)
}

// Keep implements compute.Device.
func (f *MultiGPU) Keep(ctx context.Context, progress func(done, total int64)) error {
	lend(f.host(), f.pairs...)
	return f.host().Keep(ctx, progress)
}

// Step implements compute.Device.
func (f *MultiGPU) Step(tokens int) { f.pairs[0].Step(tokens) }

// bundle bundles the host's parts. The first units may be on the GPU.
func (d *Device) bundle(prior []float64, parts []*compute.Matrix) error {
	var on []*compute.Matrix
	units, bytes := 0, int64(0)
	for _, p := range parts {
		if m := mem(p); m.units > 0 {
			on, units = append(on, m.host), m.units
			bytes += int64(m.host.Rows/units) * int64(p.Type.RowBytes(p.Cols))
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
	}
	if m := mem(parts[0]); m.slots {
		d.slots.unit = max(d.slots.unit, bytes)
		if prior == nil {
			prior = make([]float64, units)
		}
		for e := range m.hot * units / parts[0].Rows {
			prior[e] = -1 // the GPU has it: RAM first has the others
		}
	}
	return d.host.Bundle(prior, on...)
}

// chunksLent is the number of chunks of experts on disk that the host lends: one is packed while others are read.
const chunksLent = 1 + fetchedAhead

// Lent returns the bytes that the host takes from the memory of experts on disk for chunks that are sent to GPUs.
func Lent(streams []Streaming) int64 { return chunksLent * largestOfExperts(streams) }

// largestOfExperts returns the bytes of the largest chunk of experts that are sent; 0: none are.
func largestOfExperts(streams []Streaming) (most int64) {
	for _, s := range streams {
		if s.Experts > 0 {
			most = max(most, s.Bytes)
		}
	}
	return most
}

// lend makes the host reserve RAM for the experts that are copied to GPUs' slots, and for the chunks that are sent to
// GPUs for prompts. GPUs share the RAM for chunks, because they take turns. If there is too little RAM, experts stay where
// they are, and the host computes prompts itself.
func lend(host Host, pairs ...*Device) {
	var streams []Streaming
	for _, d := range pairs {
		d.slots.borrows = d.slots.unit > 0 && host.Lend(residency.Copies, d.slots.unit)
		if d.experts {
			streams = append(streams, d.streaming)
		}
	}
	most := largestOfExperts(streams)
	lends := most > 0 && host.Lend(chunksLent, most)
	for _, d := range pairs {
		d.lends = lends
	}
}
