package model

import (
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// What keeps the bound and reads least is chosen; what was not measured is not.
func TestChoose(t *testing.T) {
	predictors := func() *prepared.Curve {
		return &prepared.Curve{Way: prepared.ByPredictor, DenseBytes: 100, ExactBytes: 60, Points: []prepared.Point{
			{Setting: -1, MostKLD: 0.001, LeastSameTop: 0.99, Bytes: 65}, {Setting: 0, MostKLD: 0.01, LeastSameTop: 0.95, Bytes: 50},
		}}
	}
	magnitudes := func() *prepared.Curve {
		return &prepared.Curve{Way: prepared.ByMagnitude, DenseBytes: 100, Points: []prepared.Point{{Setting: 0.5, Magnitudes: []float32{1}, MostKLD: 0.02, Bytes: 70}}}
	}
	relu := Config{Layers: 1, Act: compute.Activation{Kind: compute.ReLU}, Predictors: true, Prepared: &prepared.Info{Activation: "relu"}}
	silu := Config{Layers: 1, Act: compute.Activation{Kind: compute.SiLU}}
	for name, c := range map[string]struct {
		config Config
		curve  *prepared.Curve
		asked  SparseMode
		bound  Bound
		mode   SparseMode
		said   string // a part of the message; empty: there is none
		fails  string
	}{
		"fastest":             {relu, predictors(), Auto, Bound{KLD: 0.01}, Predict, "with a threshold of 0", ""},
		"reads more":          {relu, predictors(), Auto, Bound{KLD: 0.002}, Exact, "no setting reads less", ""},
		"same top":            {relu, predictors(), Auto, Bound{SameTop: 0.97}, Exact, "the same top token for 97 % of tokens", ""},
		"both":                {relu, predictors(), Auto, Bound{KLD: 0.01, SameTop: 0.95}, Predict, "and the same top token for 95 % of tokens", ""},
		"none keeps it":       {relu, predictors(), Predict, Bound{KLD: 0.0001}, Exact, "the nearest 0.0010", ""},
		"not measured":        {relu, nil, Predict, Bound{KLD: 1}, Exact, "powerinfer prepare MODEL --measure", ""},
		"other activation":    {Config{Act: compute.Activation{Kind: compute.ReLU}, Predictors: true, Prepared: &prepared.Info{Activation: "drelu"}}, predictors(), Auto, Bound{KLD: 1}, Exact, "was not measured", ""},
		"unbound":             {relu, predictors(), Predict, Bound{}, Predict, "", ""},
		"exact":               {relu, predictors(), Exact, Bound{KLD: 1}, Exact, "", ""},
		"magnitude":           {silu, magnitudes(), Auto, Bound{KLD: 0.02}, Threshold, "leaves out 50.0 % of activations", ""},
		"never by itself":     {silu, magnitudes(), Auto, Bound{}, Off, "", ""},
		"usual bound":         {silu, magnitudes(), Threshold, Bound{}, Off, "a KL divergence of 0.01", ""},
		"stock":               {silu, nil, Auto, Bound{KLD: 1}, Off, "prepare MODEL --sparse threshold", ""},
		"stock by thresholds": {silu, nil, Threshold, Bound{KLD: 1}, Off, "", "needs thresholds"},
		"no predictors":       {silu, magnitudes(), Predict, Bound{KLD: 1}, Off, "", "needs predictors"},
		"no bound":            {relu, predictors(), Auto, Bound{SameTop: 2}, Off, "", "no share of tokens"},
	} {
		c.config.Curve = c.curve
		got, err := c.config.Choose(c.asked, c.bound)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || got.Mode != c.mode || !strings.Contains(got.Said, c.said) || c.said == "" && got.Said != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if (got.Point != nil) != (c.bound.IsSet() && (got.Mode == Predict || got.Mode == Threshold)) {
			t.Errorf("%s: point %+v", name, got.Point)
		}
	}
}
