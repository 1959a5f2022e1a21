// Package train learns a layer's predictor: which neurons an input will activate.
//
// A predictor is logits = fc2·relu(fc1·x), and a neuron is predicted active if its logit is at least 0. It starts from
// a low-rank approximation of the layer's gate matrix (start.go) and is trained on recorded samples by AdamW with a
// binary cross-entropy that weights active neurons by their mass (network.go, adam.go). After each epoch its logits are
// shifted so that exactly the target share of held-out mass is predicted (quality.go), and the weight of active neurons
// follows that shift. The rank is searched by short trials (rank.go).
//
// Everything is deterministic: results depend on samples, options and the CPU's instruction set, not on threads, nor on
// where a run was interrupted and resumed.
package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// ErrInactive is wrapped by the error of a training that finds no active neuron to learn from, or to judge by.
var ErrInactive = errors.New("none of the neurons to be predicted is active")

// ErrDiverged is the error of a training with weights that are no longer numbers: the samples hold numbers too large to
// learn from, or their inputs have no common part that could serve as a bias.
var ErrDiverged = errors.New("training diverged: the inputs are too large, or have nothing in common")

// RankStep divides all ranks.
const RankStep = 32

// Options are the choices of a training. Zero values mean defaults, except for Pool.
type Options struct {
	Neurons    []int32    // to be predicted, in the order of fc2's rows; nil: all of the layer's
	MassRecall float64    // target share of held-out mass that is predicted; 0.99
	Accuracy   float64    // target share of right decisions; 0.95
	HeldOut    float64    // share of samples, by whole documents, that judge; 0.1
	Rank       int        // of the hidden layer, a multiple of RankStep; 0: searched
	MaxRank    int        // bounds the search; 0: n_embd
	Epochs     int        // at most; 12
	Type       quant.Type // of the stored weights: they are rounded to it before they are judged; F32
	Seed       uint64
	Pool       *pool.Pool

	// Bytes returns what a token reads with a predictor of the given rank that predicts the given share of Neurons: the
	// search minimises it. Nil: one byte for each weight of fc1, fc2 and the predicted gate rows.
	Bytes func(rank int, predicted float64) float64
	// Gate writes the row [n_embd] that decides about a neuron: it is active if the product with the predictor's input,
	// plus the returned offset, is positive. Several goroutines call it, once for each of Neurons. Nil: the start is
	// random, and the result worse.
	Gate func(row []float32, neuron int) (offset float32)
	// Progress is called after each trial and each epoch.
	Progress func(Progress)
	// Save is given a checkpoint after each trial and each epoch; it may keep the slice.
	Save func(checkpoint []byte) error
	// Resume is a checkpoint of the same samples and options: training continues from it, to the same bytes.
	Resume []byte
}

// Progress says how far a training is.
type Progress struct {
	Rank          int
	Trial         bool // the rank is being searched: Epoch counts trials, Epochs is 0
	Epoch, Epochs int
	Quality       Quality
}

// Predictor is a trained predictor, for inputs as they were recorded.
type Predictor struct {
	Rank int
	FC1  []float32 // [rank, n_embd]
	FC2  []float32 // [len(Neurons), rank]
}

// batchRows returns the number of samples in a step: large matrices are updated less often, since that costs as much as
// multiplying them.
func batchRows(params int) int {
	if params < 1<<20 {
		return 256
	}
	return 512
}

// Train trains a predictor on s. If the accuracy cannot be reached, the predictor is the best one found; its quality
// shows that. The recall of mass is always reached, except for the last digits if Type is coarse.
func Train(ctx context.Context, s *Samples, o Options) (*Predictor, Quality, error) {
	if err := o.complete(s); err != nil {
		return nil, Quality{}, err
	}
	l, err := newLayer(s, &o)
	if err != nil {
		return nil, Quality{}, err
	}
	r := &run{layer: l, o: &o}
	if o.Resume != nil {
		if err := r.resume(o.Resume); err != nil {
			return nil, Quality{}, err
		}
	}
	if r.Rank == 0 {
		rank := o.Rank
		if rank == 0 {
			if rank, err = r.search(ctx); err != nil {
				return nil, Quality{}, err
			}
		}
		r.begin(rank, o.Epochs)
	}
	for {
		p, q, err := r.train(ctx)
		if err != nil || q.Accuracy >= o.Accuracy || o.Rank != 0 || r.Rank+RankStep > o.MaxRank {
			return p, q, err
		}
		r.begin(r.Rank+RankStep, o.Epochs) // the trials promised too much
	}
}

// complete fills in defaults and checks the options.
func (o *Options) complete(s *Samples) error {
	if err := s.check(); err != nil {
		return err
	}
	if o.Pool == nil {
		return errors.New("training needs a pool of workers")
	}
	for _, d := range []struct {
		name string
		v    *float64
		def  float64
	}{{"recall of mass", &o.MassRecall, 0.99}, {"accuracy", &o.Accuracy, 0.95}, {"share held out", &o.HeldOut, 0.1}} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if !(*d.v > 0 && *d.v < 1) {
			return fmt.Errorf("%s of %g: give a number between 0 and 1", d.name, *d.v)
		}
	}
	if o.Neurons == nil {
		for i := range s.FF {
			o.Neurons = append(o.Neurons, int32(i))
		}
	}
	seen := make([]bool, s.FF)
	for _, n := range o.Neurons {
		if n < 0 || int(n) >= s.FF || seen[n] {
			return fmt.Errorf("neuron %d to be predicted: not one of %d, or twice", n, s.FF)
		}
		seen[n] = true
	}
	if len(o.Neurons) == 0 {
		return errors.New("no neuron is to be predicted")
	}
	if o.MaxRank == 0 {
		o.MaxRank = max(RankStep, s.Embd/RankStep*RankStep)
	}
	if o.Epochs == 0 {
		o.Epochs = 12
	}
	for _, r := range []int{o.Rank, o.MaxRank} {
		if r%RankStep != 0 || r < 0 || r > maxFF {
			return fmt.Errorf("rank %d: give a multiple of %d", r, RankStep)
		}
	}
	if b := o.Type.BlockElems(); !o.Type.Known() || s.Embd%b != 0 || RankStep%b != 0 {
		return fmt.Errorf("a predictor of %d inputs cannot be stored in %s: its blocks do not divide the rows", s.Embd, o.Type)
	}
	if o.Bytes == nil {
		n, embd := float64(len(o.Neurons)), float64(s.Embd)
		o.Bytes = func(rank int, predicted float64) float64 { return float64(rank)*(embd+n) + predicted*n*embd }
	}
	return nil
}
