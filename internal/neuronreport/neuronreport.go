// Package neuronreport draws the neurons of a model, or its experts: cumulative curves, ranks and a heat map as PNG,
// the figures as a table, and all of it as one HTML page that needs nothing else.
package neuronreport

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// Report is a model's neurons and facts about them.
type Report struct {
	Model      string // name of the model or its file; it comes from outside
	Stats      *neuron.Stats
	Figures    []Figures   // [layer]
	Facts      []Fact      // more lines at the head of the report
	Predictors []Predictor // [layer]; nil if the model has none

	// For a model with experts Stats and Figures are of its experts, in the layers that have some; else these are nil.
	Use     *neuron.Experts
	Experts []ExpertFigures // [figures]
}

// Fact is a line of the report's head. Both come from outside.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Predictor describes how a layer is predicted. Shares are 0…1.
type Predictor struct {
	Mode      string  `json:"mode"` // predict or exact
	Rank      int     `json:"rank"`
	AlwaysOn  int     `json:"always_on"`
	Bytes     int64   `json:"bytes"`     // of the predictor's weights
	Measured  bool    `json:"measured"`  // on held-out text; else the following are nothing
	Recall    float64 `json:"recall"`    // of activation mass
	Found     float64 `json:"found"`     // recall of active neurons by count
	Precision float64 `json:"precision"` // of predicted neurons
	Accuracy  float64 `json:"accuracy"`  // of all (token, neuron) pairs
}

// AlwaysOnShare is the share of tokens from which on a neuron counts as always on.
const AlwaysOnShare = 0.99

// quantiles are the shares of activations for which neurons are counted.
var quantiles = []float64{0.5, 0.8, 0.9, 0.99}

// Figures describe a layer. Shares are 0…1.
type Figures struct {
	Layer    int             `json:"layer"`
	Neurons  int             `json:"neurons"`
	Sparsity float64         `json:"sparsity"` // inactive (token, neuron) pairs
	Share50  float64         `json:"share_50"` // neurons that make 50 % of activations
	Share80  float64         `json:"share_80"`
	Share90  float64         `json:"share_90"`
	Share99  float64         `json:"share_99"`
	AlwaysOn int             `json:"always_on"` // neurons active for at least AlwaysOnShare of tokens
	Dead     int             `json:"dead"`      // neurons never active
	Law      neuron.PowerLaw `json:"power_law"`
}

// New checks s and computes its figures.
func New(model string, s *neuron.Stats) (*Report, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if len(s.Layers) == 0 || s.Tokens == 0 {
		return nil, fmt.Errorf("no activations were counted: %d layers, %d tokens", len(s.Layers), s.Tokens)
	}
	p := &Report{Model: printable(model), Stats: s, Figures: make([]Figures, len(s.Layers))}
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for l := range next {
				p.Figures[l] = figures(s, l)
			}
		})
	}
	for l := range s.Layers {
		next <- l
	}
	close(next)
	wg.Wait()
	return p, nil
}

func figures(s *neuron.Stats, l int) Figures {
	shares := s.Shares(l, quantiles...)
	f := Figures{
		Layer: l, Neurons: len(s.Layers[l]), Sparsity: s.Sparsity(l), AlwaysOn: s.AlwaysOn(l, AlwaysOnShare), Law: s.Fit(l),
		Share50: shares[0], Share80: shares[1], Share90: shares[2], Share99: shares[3],
	}
	for _, c := range s.Layers[l] {
		if c == 0 {
			f.Dead++
		}
	}
	return f
}

// Overall returns the figures of all layers: sums of counts, means of shares, and the sparsity of all pairs. It has no
// power law.
func (p *Report) Overall() Figures {
	all := Figures{Layer: -1, Sparsity: p.Stats.Overall()}
	n := float64(len(p.Figures))
	for _, f := range p.Figures {
		all.Neurons += f.Neurons
		all.AlwaysOn += f.AlwaysOn
		all.Dead += f.Dead
		all.Share50 += f.Share50 / n
		all.Share80 += f.Share80 / n
		all.Share90 += f.Share90 / n
		all.Share99 += f.Share99 / n
	}
	return all
}

// ranked returns a layer's frequencies, hottest first.
func ranked(s *neuron.Stats, layer int) []float32 {
	f := s.Frequencies(layer)
	slices.Sort(f)
	slices.Reverse(f)
	return f
}
