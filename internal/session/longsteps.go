package session

import (
	"context"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// LongSteps chooses between p and what plan returns for steps of a whole batch, for the model in f and this much room.
// It returns the planner and the UBatch. Such steps are faster if units stay on the disk. GPUs have room for them only
// if the plan sets it aside, and must then still hold nearly as much of the model.
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

// planLongSteps is LongSteps with the plans of o. With GPUs, it sets o.Engine.UBatch. Without, the engine chooses the
// steps by the memory that is free when it loads the model.
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

// PlanOn plans for a machine that need not be this one. cost returns the model's cost with steps of that UBatch; the steps
// are as long as an engine takes them that has e's batches and budget.
func PlanOn(m *planner.Machine, e engine.Options, o planner.Options, cost func(ubatch int) (modelcost.Cost, error)) (*planner.Planner, error) {
	available := int64(math.MaxInt64)
	if m.Memory > 0 {
		available = int64(m.Memory)
	}
	room := engine.RoomIn(available, e.RAM)
	told := map[string]bool{} // both plans tell the same
	with := func(ubatch int) (*planner.Planner, error) {
		b, err := cost(ubatch)
		if err != nil {
			return nil, err
		}
		e.Context, e.UBatch, e.Sequences, e.Neurons = b.Context, ubatch, b.Outputs, engine.Neurons{Activation: b.Activation, Sparse: b.Mode}
		need, err := e.Least(b.File, placement.Layout{})
		if err != nil {
			return nil, err
		}
		own := o
		if m.Memory > 0 || e.RAM != nil {
			own.RAM = planner.RAM{Whole: room.Whole, OnDisk: room.OnDisk, Beside: need.Activations + need.Process + need.Reading}
		}
		own.Notice = func(line string) {
			if !told[line] && o.Notice != nil {
				o.Notice(line)
			}
			told[line] = true
		}
		return planner.With(m, b, own), nil
	}
	p, err := with(e.UBatch)
	if err != nil || e.Fits(p.Cost().File, placement.Layout{}, room.Whole) {
		return p, err
	}
	short := e
	p, _, err = LongSteps(&short, p.Cost().File, room, p, with)
	return p, err
}
