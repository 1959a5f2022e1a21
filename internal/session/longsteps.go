package session

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// LongSteps returns the plan of the model in f that the engine takes in room, and the UBatch that it is for: p, or what
// plan returns for steps of a whole batch. Such steps are faster if units stay on the disk. GPUs have room for them only
// if that is planned, and must then still hold nearly as much of the model.
func LongSteps(e *engine.Options, f *gguf.File, room engine.Room, p *planner.Planner, plan func(ubatch int) (*planner.Planner, error)) (*planner.Planner, int, error) {
	short, err := p.Plan()
	if err != nil {
		return p, e.UBatch, err
	}
	on := short.Layout()
	step, err := e.LongStep(f, on, room)
	if err != nil || step == e.UBatch {
		return p, e.UBatch, err
	}
	q, err := plan(step)
	if err != nil {
		return p, e.UBatch, err
	}
	long, err := q.Plan()
	least := on.Bytes - on.Bytes/8
	if on = long.Layout(); err != nil || on.Bytes < least {
		return p, e.UBatch, nil
	}
	if again, err := e.LongStep(f, on, room); err != nil || again != step {
		return p, e.UBatch, err
	}
	return q, step, nil
}

// planLongSteps is LongSteps. With GPUs, o has the steps of the plan then; otherwise the engine chooses them by the
// memory that is free when it loads the model.
func (o *Options) planLongSteps(ctx context.Context, f *gguf.File, p *planner.Planner, room engine.Room) (*planner.Planner, error) {
	p, step, err := LongSteps(&o.Engine, f, room, p, func(ubatch int) (*planner.Planner, error) {
		with := *o
		with.Engine.UBatch = ubatch
		return with.plan(ctx, f)
	})
	if err != nil {
		return nil, err
	}
	if plan, err := p.Plan(); err == nil && plan != nil {
		o.Engine.UBatch = step
	}
	return p, nil
}
