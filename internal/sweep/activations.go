package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// usualShares are the parts of a ReLU model's active neurons, the weakest, that fatrelu is tried to leave out. A model
// that has predictors is not made sparser in this way unless it is asked for.
var usualShares = []float64{0.1, 0.25, 0.5, 0.75}

// countedWindows of the text say how strong activations are.
const countedWindows = 2

// keyActivations is the key of the activations that were chosen.
const keyActivations = "activations"

// findActivations adds settings of mode exact with FATReLU thresholds that leave out usual shares of the active
// neurons, if the user asked for none.
func (r *run) findActivations(ctx context.Context) error {
	exact := slices.IndexFunc(r.settings, func(s Setting) bool { return s.Mode == model.Exact.String() })
	c := &r.config
	switch {
	case exact < 0 || r.o.Grid.Activations != nil || c.Act.Kind != compute.ReLU || c.Predictors || c.Transposed || c.Experts.Count > 0:
		return nil
	case slices.ContainsFunc(c.Blocks, func(b model.Block) bool { return b.FF != c.FF || b.TopK != nil }): // which an observer does not see
		return nil
	}
	var list []string
	known, err := r.journal.get(keyActivations, &list)
	if err != nil {
		return err
	}
	if !known {
		if list, err = r.lab.activations(ctx); err != nil {
			return err
		}
		if err := r.journal.add(keyActivations, list); err != nil {
			return err
		}
	}
	var more []Setting
	for _, a := range list {
		more = append(more, Setting{Mode: model.Exact.String(), Activation: a})
	}
	r.settings = slices.Insert(r.settings, exact+1, more...)
	return nil
}

// activations returns fatrelu with thresholds that leave usualShares out.
func (l *lab) activations(ctx context.Context) (list []string, err error) {
	counts := strengths{neuron.NewMagnitudes(1)}
	m, err := l.load(ctx, Setting{Mode: model.Off.String()}, func(o *session.Options) { o.Engine.Observer = counts })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for i := range min(countedWindows, l.count) {
		if err := l.read(m, i); err != nil {
			return nil, err
		}
	}
	for _, share := range usualShares {
		const digits = 3
		if t := counts.Threshold(0, share); t > 0 {
			list = append(list, fmt.Sprintf("%s:%s", compute.FATReLU, strconv.FormatFloat(float64(t), 'g', digits, 32)))
		}
	}
	return slices.Compact(list), nil
}

// strengths counts how strong the active neurons of all layers are.
type strengths struct{ *neuron.Magnitudes }

// FeedForward is model.Observer.
func (c strengths) FeedForward(int, model.FFNStep) {}

// Gates is model.GateObserver.
func (c strengths) Gates(_ int, s model.GateStep) {
	var active []float32
	for i := range s.Params.Tokens {
		active = active[:0]
		for _, g := range s.Gates(i) {
			if g > 0 {
				active = append(active, g)
			}
		}
		c.Add(0, active)
	}
}
