package model

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// UsualMaxKLD bounds the mean KL divergence of a document from dense in mode Threshold unless options say otherwise, in
// nats a token.
const UsualMaxKLD = AutoDivergence

// Bound is what a setting has to keep.
type Bound = prepared.Bound

// Choice is how a model is computed to keep a bound.
type Choice struct {
	Mode  SparseMode
	Point *prepared.Point // a point of the file's curve; nil if the mode needs none
	Said  string          // a line about the choice and its expected cost; empty if there was no choice
}

// Choose returns the fastest way of computing c that keeps b according to the file's curve. A mode limits the choice:
// Auto allows all ways. Predict and Threshold allow themselves and, if they do not keep b, the ways that change
// nothing. Modes Off and Exact leave no choice, and neither does a bound that is not set, except in mode Threshold,
// which then uses UsualMaxKLD.
func (c *Config) Choose(asked SparseMode, b Bound) (Choice, error) {
	if err := b.Check(); err != nil {
		return Choice{}, err
	}
	if asked == Threshold {
		of := *c
		if c.Curve != nil && c.Curve.Way == prepared.ByMagnitude {
			of.Magnitudes = c.Curve.Points[0].Magnitudes
		}
		if _, err := of.Resolve(asked); err != nil {
			return Choice{}, err
		}
		if !b.IsSet() {
			b.KLD = UsualMaxKLD
		}
	}
	if c.Experts.Count > 0 && b.IsSet() && asked != Predict {
		if asked == Auto { // which might predict neurons, and that was not measured
			asked = c.safe()
		}
		mode, err := c.Resolve(asked)
		return c.chooseExperts(mode, b), err
	}
	if !b.IsSet() || asked == Off || asked == Exact {
		mode, err := c.Resolve(asked)
		return Choice{Mode: mode}, err
	}
	if asked == Predict {
		if _, err := c.Resolve(asked); err != nil {
			return Choice{}, err
		}
	}
	return c.chooseBy(asked, b), nil
}

// chooseBy chooses by the file's curve.
func (c *Config) chooseBy(asked SparseMode, b Bound) Choice {
	safe, curve := c.safe(), c.curveOf(asked)
	if curve == nil {
		return Choice{Mode: safe, Said: c.unmeasured(safe)}
	}
	p := curve.Within(b)
	switch {
	case p == nil:
		return Choice{Mode: safe, Said: fmt.Sprintf("no setting that was measured keeps %s in 19 of 20 documents, the nearest %s: computing %s, which keeps it",
			b, nearest(&curve.Points[0], b), safe.all())}
	case curve.ExactBytes > 0 && p.Bytes >= curve.ExactBytes:
		return Choice{Mode: safe, Said: fmt.Sprintf("computing %s, since within %s no setting reads less than %s of feed-forward weights a token", safe.all(), b, megabytes(curve.ExactBytes))}
	}
	mode, setting := Predict, fmt.Sprintf("mode predict with a threshold of %g", p.Setting)
	if curve.Way == prepared.ByMagnitude {
		mode, setting = Threshold, fmt.Sprintf("mode threshold, which leaves out %.1f %% of activations", 100*p.Setting)
	}
	return Choice{Mode: mode, Point: p, Said: fmt.Sprintf(
		"within %s: %s; expected of a document are a KL divergence of %.4f (19 of 20: at most %.4f), the same top token for %.1f %% of tokens (at least %.1f %%), and %s of feed-forward weights a token instead of %s",
		b, setting, p.KLDivergence, p.MostKLD, 100*p.SameTop, 100*p.LeastSameTop, megabytes(p.Bytes), megabytes(curve.DenseBytes))}
}

// chooseExperts chooses which experts may be left out by the file's curve. Neurons are computed as a mode says.
func (c *Config) chooseExperts(mode SparseMode, b Bound) Choice {
	curve := c.Curve
	if curve == nil || curve.Way != prepared.ByWeight {
		return Choice{Mode: mode, Said: "what leaving experts out costs this model was not measured: none is left out; measure it with: powerinfer profile MODEL --measure -f TEXT -o STATISTICS"}
	}
	p := curve.Within(b)
	if p == nil {
		return Choice{Mode: mode, Said: fmt.Sprintf("no expert is left out: no setting that was measured keeps %s in 19 of 20 documents, the nearest %s", b, nearest(&curve.Points[0], b))}
	}
	return Choice{Mode: mode, Point: p, Said: fmt.Sprintf(
		"within %s: experts after the %d highest ranked of a token, with less than %.3g %% of its weights, are left out where they would be read from the disk; if all of those are, %.1f %% of uses, expected of a document are a KL divergence of %.4f (19 of 20: at most %.4f) and the same top token for %.1f %% of tokens (at least %.1f %%)",
		b, curve.Rank, 100*p.Setting, 100*(1-p.Active), p.KLDivergence, p.MostKLD, 100*p.SameTop, 100*p.LeastSameTop)}
}

// Left returns the share of experts' uses that are left out if no expert is in RAM, by the file's curve; 0: it was not
// measured.
func (c *Config) Left() float64 {
	if c.Skip.After == 0 || c.Curve == nil || c.Curve.Way != prepared.ByWeight || c.Curve.Rank != c.Skip.After {
		return 0
	}
	for i := range c.Curve.Points {
		if p := &c.Curve.Points[i]; p.Setting == c.Skip.Below {
			return 1 - float64(p.Active)
		}
	}
	return 0
}

// ExpertBytes returns the bytes of experts of the model in f that a token reads.
func (c *Config) ExpertBytes(f *gguf.File) (n float64) {
	for _, t := range f.Tensors {
		if p, loaded := c.Purpose(t.Name); loaded && p.Role == nn.OfExperts {
			n += float64(t.Bytes()) / float64(c.Experts.Count) * float64(c.Experts.Used)
		}
	}
	return n
}

// TakeSkip makes c leave out the experts that s names. It checks s, unless that is the zero value.
func (c *Config) TakeSkip(s compute.Skip) error {
	switch {
	case s == compute.Skip{}:
		return nil
	case c.Experts.Count == 0:
		return fmt.Errorf("the model has no experts that could be left out")
	case s.After < 1 || s.After >= c.Experts.Used || !(s.Below > 0 && s.Below <= 1):
		return fmt.Errorf("experts after the %d highest ranked with less than %g of the weights cannot be left out: a token uses %d; give fewer that stay, 1 or more, and a share above 0 and up to 1", s.After, s.Below, c.Experts.Used)
	}
	c.Skip = s
	return nil
}

// all names the neurons that a mode which changes nothing computes.
func (s SparseMode) all() string {
	if s == Exact {
		return "all neurons that are not zero (mode exact)"
	}
	return "all neurons (mode off)"
}

// curveOf returns the file's curve, if it is one of the mode asked for and was measured with the activation in use.
func (c *Config) curveOf(asked SparseMode) *prepared.Curve {
	switch {
	case c.Curve == nil:
		return nil
	case c.Curve.Way == prepared.ByMagnitude:
		if asked == Predict || c.Act.Kind != compute.SiLU && c.Act.Kind != compute.GELU {
			return nil
		}
	case c.Curve.Way == prepared.ByWeight:
		return nil
	case !c.Predictors || asked == Threshold || c.Prepared != nil && !c.ownActivation():
		return nil
	}
	return c.Curve
}

// unmeasured says that the cost of leaving out more than the safe mode does was not measured, and how to measure it.
func (c *Config) unmeasured(safe SparseMode) string {
	said := fmt.Sprintf("what leaving neurons out costs this model was not measured: computing %s, which keeps any bound", safe.all())
	switch {
	case c.Prepared != nil && c.Predictors:
		return said + "; measure it with: powerinfer prepare MODEL --measure -f TEXT -o FILE"
	case c.Experts.Count > 0 || c.Predictors:
		return said
	case c.Act.Kind == compute.SiLU || c.Act.Kind == compute.GELU:
		return said + "; measure it with: powerinfer prepare MODEL --sparse threshold -f TEXT -o FILE"
	case c.Act.Sparse():
		return said + "; prepare the model, which measures it: powerinfer prepare MODEL -f TEXT -o FILE"
	}
	return said
}

// nearest says how close a point comes to b.
func nearest(p *prepared.Point, b Bound) string {
	if b.KLD > 0 && p.MostKLD > float32(b.KLD) {
		return fmt.Sprintf("%.4f", p.MostKLD)
	}
	return fmt.Sprintf("%.1f %%", 100*p.LeastSameTop)
}

func megabytes(v float32) string { return fmt.Sprintf("%.3g MB", v/1e6) }

// Take applies a choice to c.
func (c *Config) Take(choice Choice) {
	c.Sparse = choice.Mode
	if p := choice.Point; p != nil && c.Curve != nil && c.Curve.Way == prepared.ByWeight {
		c.Skip = compute.Skip{After: c.Curve.Rank, Below: p.Setting}
	} else if p != nil {
		c.Magnitudes = p.Magnitudes
		if choice.Mode == Predict {
			c.Threshold = p.Setting
		}
	}
}

// takeThresholds sets Magnitudes to v.
func (c *Config) takeThresholds(v []float32) error {
	c.Magnitudes = v
	if len(v) != c.Layers {
		return fmt.Errorf("%d thresholds for %d layers", len(v), c.Layers)
	}
	for l, t := range v {
		if !(t >= 0) || math.IsInf(float64(t), 0) {
			return fmt.Errorf("layer %d: %g is not a threshold", l, t)
		}
	}
	return nil
}
