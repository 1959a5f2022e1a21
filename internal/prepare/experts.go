package prepare

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// checkExperts refuses options that do not apply to a model with experts: its file stays an ordinary one, without
// predictors.
func (r *run) checkExperts() error {
	switch path := r.f.Path; {
	case r.o.Original:
		return fmt.Errorf("%s: the original PowerInfer runs no models with experts", path)
	case r.o.SetType:
		return fmt.Errorf("%s: no predictors are made for neurons inside experts", path)
	case len(r.o.EvalFiles) > 0:
		return fmt.Errorf("%s: nothing is measured of a model with experts, since it computes the same when its experts are sorted", path)
	}
	if t := r.fixedDown(); t != "" && !r.o.profileOnly {
		r.o.note("neurons inside experts stay where they are, because down projections like %q are quantised in blocks of neurons; --allow-requantize moves them, or prepare the model before it is quantised", t)
	}
	return nil
}

// fixedDown returns the name of a down projection with columns that cannot be moved, in a model with neurons to be
// sorted; "" if there is none.
func (r *run) fixedDown() string {
	for l := range r.c.Layers {
		if r.c.Act.Sparse() && r.c.Blocks[l].Experts && !r.neuronsMove(l) {
			return downExperts(l)
		}
	}
	return ""
}

func downExperts(l int) string { return fmt.Sprintf("blk.%d.ffn_down_exps.weight", l) }

// neuronsMove reports whether the neurons inside layer l's experts may be sorted.
func (r *run) neuronsMove(l int) bool {
	t := r.f.Tensor(downExperts(l))
	return t != nil && (t.Type.BlockElems() == 1 || r.o.AllowRequantize && slices.Contains(quant.OutTypes(), t.Type))
}

// observeExperts generates the calibration text if none was given, and counts the used experts.
func (r *run) observeExperts(ctx context.Context) error {
	idle := &expertCounter{paused: true} // until the documents are known
	v, err := r.observer(idle)
	if err != nil {
		return err
	}
	defer v.close()
	if err := v.announce(ctx); err != nil {
		return err
	}
	if err := v.generate(ctx); err != nil {
		return err
	}
	names, texts := divideTexts(r.texts.calibration, r.o.Files)
	*idle = *newExpertCounter(r.c, names, texts)
	steps := v.steps()
	steps[holdingOut] = nil // it is measured, not counted
	if err := v.profile(ctx, steps); err != nil {
		return err
	}
	r.experts = idle.x
	if err := r.experts.Check(); err != nil {
		return fmt.Errorf("the uses of the model's experts cannot be counted: %w", err)
	}
	return nil
}

// announce reports the estimate, once.
func (v *observer) announce(ctx context.Context) error {
	if _, ok, err := v.w.read(filePlan); ok || err != nil || v.o.Estimate == nil {
		return err
	}
	e, err := v.runner(ctx)
	if err != nil {
		return err
	}
	stages, err := v.estimate(e, 0)
	if err != nil {
		return err
	}
	v.o.Estimate(stages)
	return v.w.write(filePlan, []byte("{}"))
}

// orders returns how experts and the neurons inside them are to be stored: hottest first.
func (r *run) orders() []neuron.ExpertOrder {
	orders := make([]neuron.ExpertOrder, r.c.Layers)
	for l := range orders {
		y := &r.experts.Layers[l]
		if y.Count() == 0 {
			continue
		}
		orders[l].Experts = y.Order(r.c.Experts.Routing.Groups)
		for e := 0; e < len(y.Active) && r.neuronsMove(l); e++ {
			orders[l].Neurons = append(orders[l].Neurons, y.Neurons(e))
		}
	}
	return orders
}

// prepareExperts counts, and writes the model with its experts sorted.
func (r *run) prepareExperts(ctx context.Context) (*Report, error) {
	if err := r.observe(ctx); err != nil {
		return nil, err
	}
	text := r.counted()
	plan := prepared.ExpertPlan{Use: r.experts, SHA256: text.SHA256, Orders: r.orders()}
	if err := prepared.WriteExperts(ctx, r.w.path(fileModel), r.f, plan, r.o.bytes(StageWrite)); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rep := &Report{Experts: r.experts, Calibration: text, Generated: r.texts.generate > 0}
	return rep, r.finish(ctx)
}

// division identifies the texts with separate counts of experts, as far as they follow from the given files: a resumed
// run must have the same.
func (r *run) division() string {
	if r.c.Experts.Count == 0 || len(r.o.Files) < 2 || r.o.Measure && !r.o.profileOnly {
		return ""
	}
	names, texts := divideTexts(r.texts.calibration, r.o.Files)
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %v", names, texts)))
}
