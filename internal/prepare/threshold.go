package prepare

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// Thresholds of magnitude, for models with activations that are never zero (Lee et al. 2024, CATS: Contextually-Aware
// Thresholding for Sparsity in Large Language Models). Every layer's threshold leaves out the same share of the
// activations of the calibration text. Measuring on the held-out text finds which share keeps the divergence from dense
// within the bound. Every measured share is a point of the file's curve.

const (
	// DefaultThresholdTokens is how much calibration text is read for thresholds: each token counts all of a layer's
	// activations.
	DefaultThresholdTokens = 8 << 10

	shareStep   = 1.0 / 64 // the resolution of shares
	leastShares = 5        // points of a curve
)

// checkThresholds refuses models that thresholds of magnitude are not meant for.
func (r *run) checkThresholds() error {
	path := r.f.Path
	if r.o.profileOnly {
		return r.takeThresholds()
	}
	switch {
	case r.c.Act.Kind != compute.SiLU && r.c.Act.Kind != compute.GELU:
		return fmt.Errorf("%s: thresholds are for SiLU and GELU, and its activation is %s", path, r.c.Act.Kind)
	case r.c.Experts.Count > 0:
		return fmt.Errorf("%s: thresholds are not for models with experts", path)
	case r.o.Original:
		return fmt.Errorf("%s: the original PowerInfer knows no thresholds of magnitude", path)
	case r.o.SetType:
		return fmt.Errorf("%s: thresholds of magnitude have no predictors; leave --predictor-type out", path)
	case len(r.o.Files) == 0:
		return fmt.Errorf("%s: what thresholds cost is measured on text; give some with -f", path)
	}
	return r.o.Bound.Check()
}

// takeThresholds makes profiling count the neurons with activations above the thresholds of the file's curve within the
// bound.
func (r *run) takeThresholds() error {
	choice, err := r.c.Choose(model.Threshold, r.o.Bound)
	if err != nil {
		return fmt.Errorf("%s: %w", r.f.Path, err)
	}
	if choice.Point == nil {
		return fmt.Errorf("%s: %s; give another --max-kld or --min-same-top", r.f.Path, choice.Said)
	}
	r.o.note("%s", choice.Said)
	r.o.magnitudes = choice.Point.Magnitudes
	return nil
}

// gateCounter counts the magnitudes of activations in dense steps.
type gateCounter struct {
	m       *neuron.Magnitudes
	act     compute.Activation
	threads int
	paused  bool
}

// FeedForward is model.Observer.
func (c *gateCounter) FeedForward(int, model.FFNStep) {}

// Gates is model.GateObserver.
func (c *gateCounter) Gates(layer int, s model.GateStep) {
	if c.paused {
		return
	}
	rows := make([][]float32, len(s.Params.Tokens))
	for i := range rows {
		rows[i] = s.Gates(i)
	}
	parts := make([]*neuron.Magnitudes, c.threads)
	var wait sync.WaitGroup
	for p := range parts {
		wait.Go(func() {
			part := neuron.NewMagnitudes(1)
			var a []float32
			for i := p; i < len(rows); i += c.threads {
				a = a[:0]
				for _, g := range rows[i] {
					a = append(a, smooth(c.act, g))
				}
				part.Add(0, a)
			}
			parts[p] = part
		})
	}
	wait.Wait()
	for _, part := range parts {
		for i, n := range part.Layers[0] {
			c.m.Layers[layer][i] += n
		}
	}
}

// smooth is SiLU or GELU of g.
func smooth(act compute.Activation, g float32) float32 {
	x := float64(g)
	if act.Kind == compute.GELU {
		return float32(0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))))
	}
	return float32(x / (1 + math.Exp(-x)))
}

func (c *gateCounter) step(r *runner, _ role, ws []window) error { return r.run(ws) }
func (c *gateCounter) pass(role, int)                            {}
func (c *gateCounter) pause(paused bool)                         { c.paused = paused }
func (c *gateCounter) close()                                    {}

// The state: steps done and the counts; sealed.

func (c *gateCounter) fields() (all []any) {
	for _, counts := range c.m.Layers {
		all = append(all, counts)
	}
	return all
}

func (c *gateCounter) save(w *work, steps int) error {
	return w.write(fileProfile, sealed(appendFields(appendFields(nil, uint64(steps)), c.fields()...)))
}

func (c *gateCounter) load(w *work) (steps int, err error) {
	b, ok, err := w.read(fileProfile)
	if !ok || err != nil {
		return 0, err
	}
	var done uint64
	if b, ok = unsealed(b); ok {
		b, ok = readFields(b, append([]any{&done}, c.fields()...)...)
	}
	if !ok || len(b) > 0 {
		return 0, w.damaged(fileProfile)
	}
	return int(done), nil
}

// prepareThresholds finds thresholds, and writes the model with their curve.
func (r *run) prepareThresholds(ctx context.Context) (*Report, error) {
	counter := &gateCounter{m: neuron.NewMagnitudes(r.c.Layers), act: r.c.Act, threads: r.o.Threads}
	v, err := r.observer(counter)
	if err != nil {
		return nil, err
	}
	defer v.close()
	if err := v.announce(ctx); err != nil {
		return nil, err
	}
	steps := v.steps()
	steps[holdingOut] = nil
	if err := v.profile(ctx, steps); err != nil {
		return nil, err
	}
	v.close()
	curve, err := r.search(ctx, counter.m)
	if err != nil {
		return nil, err
	}
	if err := prepared.WriteCurve(ctx, r.w.path(fileModel), r.f, curve, r.o.bytes(StageWrite)); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Report{Curve: curve, Calibration: curve.Calibration, HeldOut: curve.HeldOut}, r.finish(ctx)
}

// search measures shares until the largest that keeps the bound is known to a step, and around it until the curve has
// enough points.
func (r *run) search(ctx context.Context, counts *neuron.Magnitudes) (*prepared.Curve, error) {
	m, curve, err := r.newCurve(ctx, r.f, prepared.ByMagnitude)
	if err != nil {
		return nil, err
	}
	measure := func(share float64) (keeps bool, err error) {
		s := setting{mode: model.Threshold}
		for l := range counts.Layers {
			s.magnitudes = append(s.magnitudes, counts.Threshold(l, share))
		}
		p, err := m.point(ctx, share, s)
		if err != nil {
			return false, err
		}
		curve.Add(p)
		return p.Keeps(r.o.Bound), nil
	}
	below, above := 0.0, 1.0 // the bound is kept and is not
	for above-below > 1.5*shareStep {
		share := math.Round((below+above)/2/shareStep) * shareStep
		keeps, err := measure(share)
		if err != nil {
			return nil, err
		}
		if keeps {
			below = share
		} else {
			above = share
		}
	}
	if below == 0 {
		p := &curve.Points[0]
		return nil, fmt.Errorf("%s: no activations can be taken as zero within %s: without the smallest %.1f %% of them 19 of 20 documents have a KL divergence of at most %.4f and the same top token for at least %.1f %% of tokens; give another --max-kld or --min-same-top, or more text with --eval-file",
			r.f.Path, r.o.Bound, 100*p.Setting, p.MostKLD, 100*p.LeastSameTop)
	}
	for i := 1; len(curve.Points) < leastShares; i++ { // halves, quarters, … of the share that keeps it
		if share := below / float64(int(1)<<i); share > 0 {
			if _, err := measure(share); err != nil {
				return nil, err
			}
		}
	}
	return curve, nil
}
