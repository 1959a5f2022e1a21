package hybrid

import (
	"context"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Bundle implements compute.UnitKeeper. The host keeps the units that are not on the GPU.
func (d *Device) Bundle(prior []float64, parts ...*compute.Matrix) error {
	return bundle(d.host, prior, parts)
}

// Keep implements compute.UnitKeeper.
func (d *Device) Keep(ctx context.Context, progress func(done, total int64)) error {
	lend(d.host, d)
	return keep(d.host, ctx, progress)
}

// Step implements compute.UnitKeeper.
func (d *Device) Step(tokens int) { step(d.host, tokens) }

// UnitUse implements compute.UnitUser.
func (d *Device) UnitUse() compute.UnitUse { return unitUse(d.host) }

// Bundle implements compute.UnitKeeper.
func (f *MultiGPU) Bundle(prior []float64, parts ...*compute.Matrix) error {
	return bundle(f.host(), prior, parts)
}

// Keep implements compute.UnitKeeper.
func (f *MultiGPU) Keep(ctx context.Context, progress func(done, total int64)) error {
	lend(f.host(), f.pairs...)
	return keep(f.host(), ctx, progress)
}

// Step implements compute.UnitKeeper.
func (f *MultiGPU) Step(tokens int) { step(f.host(), tokens) }

// UnitUse implements compute.UnitUser.
func (f *MultiGPU) UnitUse() compute.UnitUse { return unitUse(f.host()) }

// bundle bundles the host's parts. The first units may be on a GPU.
func bundle(host compute.Host, prior []float64, parts []*compute.Matrix) error {
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
	keeper, ok := host.(compute.UnitKeeper)
	if !ok {
		return fmt.Errorf("%s cannot compute with weights on disk", host.Name())
	}
	if prior != nil {
		prior = slices.Clone(prior[max(0, len(prior)-units):])
		if m := mem(parts[0]); m.slots {
			clear(prior[:m.hot*units/parts[0].Rows]) // the GPU has these
		}
	}
	return keeper.Bundle(prior, on...)
}

// lend makes the host reserve RAM for the chunks that are sent to GPUs for prompts; GPUs take turns. If it has too little
// RAM, the host computes prompts itself.
func lend(host compute.Host, pairs ...*Device) {
	most := int64(0)
	for _, d := range pairs {
		if d.experts && d.streaming.Experts > 0 {
			most = max(most, d.streaming.Bytes)
		}
	}
	lender, ok := host.(compute.UnitLender)
	if !ok || most == 0 || !lender.Lend(1+fetchedAhead, most) {
		return
	}
	for _, d := range pairs {
		d.lender = lender
	}
}

func keep(host compute.Host, ctx context.Context, progress func(done, total int64)) error {
	if keeper, ok := host.(compute.UnitKeeper); ok {
		return keeper.Keep(ctx, progress)
	}
	return nil
}

func step(host compute.Host, tokens int) {
	if keeper, ok := host.(compute.UnitKeeper); ok {
		keeper.Step(tokens)
	}
}

func unitUse(host compute.Host) compute.UnitUse {
	if user, ok := host.(compute.UnitUser); ok {
		return user.UnitUse()
	}
	return compute.UnitUse{}
}
