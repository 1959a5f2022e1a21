package train

import (
	"context"
	"fmt"
	"math"
)

// run is one search and training: the content of a checkpoint, and its working memory.
type run struct {
	*layer
	o *Options
	state
	b    *batch
	eval *evaluation
}

// state is the point from which a training continues.
type state struct {
	Trials   []trial
	Rank     int // 0 while it is searched
	Epochs   int // planned
	Epoch    int // done
	Step     int
	Positive float32 // weight of active neurons
	Stale    int     // epochs since the best

	w            weights
	adam1, adam2 adam

	best        weights
	bestQuality Quality
}

// trial is a rank's promise after a short training.
type trial struct {
	Rank    int
	Quality Quality
}

const (
	// patience is the share of the planned epochs without progress after which training stops. Early epochs may fall
	// behind the start, because their rate is high.
	patience = 0.5
	// steadied bounds by how much the weight of active neurons follows the shift of logits in one epoch.
	steadied = 0.7
)

// begin sets the state to the start of a training.
func (r *run) begin(rank, epochs int) {
	w := r.start(rank)
	r.state = state{Trials: r.Trials, Rank: rank, Epochs: epochs, w: w, adam1: newAdam(w.fc1, w.fc1[r.embd:]), adam2: newAdam(w.fc2, w.fc2)}
	r.Positive = float32(1 / r.active) // as if there were as many active neurons as inactive ones
	r.b, r.eval = nil, nil
}

// train trains from the state to the end.
func (r *run) train(ctx context.Context) (*Predictor, Quality, error) {
	if err := r.epochs(ctx, r.layer.train, r.held, true); err != nil {
		return nil, Quality{}, err
	}
	p, q := r.export(r.o)
	return p, q, nil
}

// epochs trains on some samples and judges on others until the planned epochs are over or progress ends.
func (r *run) epochs(ctx context.Context, train, held []int32, save bool) error {
	rows := min(batchRows(r.Rank*(r.embd+r.n)), len(train))
	r.b, r.eval = r.newBatch(rows, r.Rank), r.newEvaluation(held, r.Rank)
	if r.eval.pairs == 0 {
		return fmt.Errorf("%w in the samples held out: more samples are needed", ErrInactive)
	}
	if r.Epoch == 0 {
		if err := r.judge(); err != nil {
			return err
		}
	}
	for r.Epoch < r.Epochs && float64(r.Stale) < max(3, patience*float64(r.Epochs)) {
		if err := r.epoch(ctx, train); err != nil {
			return err
		}
		if err := r.judge(); err != nil {
			return err
		}
		if !save {
			continue
		}
		if r.o.Progress != nil {
			r.o.Progress(Progress{Rank: r.Rank, Epoch: r.Epoch, Epochs: r.Epochs, Quality: r.bestQuality})
		}
		if err := r.save(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// epoch passes once over the samples in a random order.
func (r *run) epoch(ctx context.Context, train []int32) error {
	order := permuted(train, r.seed, streamEpoch+uint64(r.Epoch))
	steps := (len(order) + r.b.rows - 1) / r.b.rows
	for s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.gradients(&r.w, r.b, order[s*len(order)/steps:(s+1)*len(order)/steps], r.Positive)
		r.Step++
		rate := schedule(float64(r.Epoch)+float64(s)/float64(steps), r.Epochs)
		r.update(&r.adam1, r.w.fc1, r.b.grad1, r.embd, r.Step, rate)
		r.update(&r.adam2, r.w.fc2, r.b.grad2, 0, r.Step, rate)
	}
	r.Epoch++
	return nil
}

// judge shifts the logits so that the target is met exactly, lets the weight of active neurons follow, and remembers
// the predictor that needs the fewest neurons.
func (r *run) judge() error {
	r.margins(&r.w, r.eval)
	s := r.shift(r.eval, r.o.MassRecall)
	q := r.quality(r.eval, s)
	for i := range r.n {
		r.w.fc2[i*r.Rank] -= s
	}
	if math.IsNaN(float64(rms(r.w.fc2))) || math.IsNaN(float64(rms(r.w.fc1))) {
		return ErrDiverged
	}
	if r.Epoch > 0 {
		r.Positive *= float32(math.Exp(min(max(-float64(s), -steadied), steadied)))
	}
	r.Stale++

	if r.best.rank != r.Rank || r.Epoch == 0 || q.better(r.bestQuality, r.o.MassRecall) {
		r.best, r.bestQuality, r.Stale = r.w.clone(), q, 0
	}
	return nil
}

// better prefers who meets the target, then who predicts fewer neurons.
func (q Quality) better(than Quality, target float64) bool {
	if met := q.MassRecall >= target; met != (than.MassRecall >= target) {
		return met
	}
	return q.PredictedShare < than.PredictedShare
}
