package bench

import (
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// Neurons is what feed-forward layers computed. In mode off nothing is counted: they compute all.
type Neurons struct {
	Mode string // how the model is computed: off, exact or predict; single layers may run exact in a model that predicts
	// (token, neuron) pairs of all layers.
	Pairs, Predicted, Active int64
	// Bytes of feed-forward weights read, with predictors, and those that the same steps would have read without
	// skipping neurons. A step reads a weight once for all of its tokens, so a long prompt's step reads nearly all of
	// them.
	Bytes, Dense int64
	Steps        int64 // of the whole model
}

func (n *Neurons) add(use []model.NeuronUse) {
	var steps int64
	for _, u := range use {
		n.Pairs += u.Tokens * int64(u.Neurons)
		n.Predicted += u.Predicted
		n.Active += u.Active
		n.Bytes += u.Bytes
		n.Dense += u.Steps * u.Dense
		steps = max(steps, u.Steps)
	}
	n.Steps += steps
}

// ratio is a/b, 0 where nothing was counted.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// sum returns the sum of samples.
func sum(samples []int64) (n int64) {
	for _, v := range samples {
		n += v
	}
	return n
}
