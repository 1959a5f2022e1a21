package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Alone is one layer that skips as in a setting, while the others compute every neuron that is not zero.
type Alone struct {
	Layer        int    `json:"layer"`
	KLDivergence Figure `json:"kl_divergence"` // from dense
	SameTop      Figure `json:"same_top"`
	Neurons      Layer  `json:"neurons"` // what its tokens needed
}

// Sensitivity says which layers bear a setting best.
type Sensitivity struct {
	Name    string  `json:"setting"` // the sparsest one of its mode
	Windows int     `json:"windows"`
	All     Figure  `json:"kl_divergence"` // of all layers at once, in the same number of windows
	Layers  []Alone `json:"layers"`        // the layers that skip something
}

// Sum returns the sum of all layers' divergences. It is near the divergence of all layers at once if layers do not
// amplify one another's errors.
func (s *Sensitivity) Sum() (sum float64) {
	for _, y := range s.Layers {
		sum += y.KLDivergence.Value
	}
	return sum
}

// sparsest returns the settings to measure layer by layer: for each of the modes predict and threshold, the one that
// skips most.
func (r *run) sparsest() (all []Setting) {
	of := map[string]int{} // numbers in all
	for _, s := range r.settings {
		if s.AlwaysOn > 0 || s.Budget > 0 || s.Mode != model.Predict.String() && s.Mode != model.Threshold.String() {
			continue
		}
		i, ok := of[s.Mode]
		switch {
		case !ok:
			of[s.Mode] = len(all)
			all = append(all, s)
		case s.Threshold != nil && *s.Threshold > *all[i].Threshold || s.Share > all[i].Share:
			all[i] = s
		}
	}
	return all
}

// alone returns the change of session options with which only layer l skips in a setting; ok is false if the layer
// skips nothing.
func (r *run) alone(s Setting, l int) (adjust func(o *session.Options), ok bool, err error) {
	c := r.config
	if s.Mode == model.Predict.String() {
		if c.Prepared == nil {
			return nil, false, nil
		}
		c.Sparse = model.Predict
		only := make([]bool, c.Layers)
		only[l] = true
		return func(o *session.Options) { o.Engine.Predicting = only }, c.LayerMode(l) == model.Predict, nil
	}
	choice, err := c.Choose(model.Threshold, model.Bound{KLD: s.MaxKLD})
	if err != nil || choice.Point == nil {
		return nil, false, err
	}
	only := make([]float32, c.Layers)
	only[l] = choice.Point.Magnitudes[l]
	return func(o *session.Options) { o.Engine.Magnitudes = only }, only[l] > 0, nil
}

// layer compares with dense a model that leaves something out in one layer only.
func (l *lab) layer(ctx context.Context, s Setting, layer int, adjust func(*session.Options), told func(float64)) (_ any, err error) {
	if err := l.room(l.of(s)); err != nil {
		return nil, err
	}
	m, err := l.load(ctx, s, adjust)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	q, err := l.compare(ctx, m, l.layerWindows(), told)
	if err != nil {
		return nil, err
	}
	return Alone{layer, q.KLDivergence, q.SameTop, q.Layers[layer]}, nil
}

// layerShare is the part of the text that every layer is measured on by itself.
const layerShare = 4

func (l *lab) layerWindows() int { return max(2, l.count/layerShare) }

func keyLayer(s Setting, layer int) string { return fmt.Sprintf("layer %d alone, %s", layer, s.Name()) }

// layers returns the work of the layers by themselves.
func (r *run) layers(p pace) (all []work, err error) {
	if !r.o.Layers {
		return nil, nil
	}
	l := &r.lab
	for _, s := range r.sparsest() {
		for layer := range r.config.Layers {
			adjust, ok, err := r.alone(s, layer)
			if err != nil {
				return nil, err
			}
			if ok {
				all = append(all, work{
					keyLayer(s, layer), partLayers, fmt.Sprintf("layer %d alone", layer), float64(l.layerWindows())*p.window + p.load,
					func(ctx context.Context, told func(float64)) (any, error) {
						return l.layer(ctx, s, layer, adjust, told)
					},
				})
			}
		}
	}
	return all, nil
}

// sensitivities collects what was measured of layers by themselves.
func (r *run) sensitivities(points []Point) (all []Sensitivity, err error) {
	for _, s := range r.sparsest() {
		of := Sensitivity{Name: s.Name(), Windows: r.lab.layerWindows()}
		for layer := range r.config.Layers {
			var y Alone
			if ok, err := r.journal.get(keyLayer(s, layer), &y); err != nil {
				return nil, err
			} else if ok {
				of.Layers = append(of.Layers, y)
			}
		}
		for i := range points {
			if p := &points[i]; p.Name == of.Name && p.Quality != nil {
				of.All = p.Quality.first(of.Windows)
			}
		}
		if len(of.Layers) > 0 {
			all = append(all, of)
		}
	}
	return all, nil
}
