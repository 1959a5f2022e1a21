package train

import (
	"context"
	"math"
)

const (
	trialSamples = 4096
	trialHeld    = 1024
	trialEpochs  = 3
	// trialWrong is the share of a trial's wrong decisions that full training leaves; measured on the embedded model.
	trialWrong = 0.65
	// bitsPerUnit is the part of a set's entropy that a hidden unit is assumed to represent where the search begins.
	bitsPerUnit = 4
)

// search finds the rank with the fewest bytes that promises the accuracy: from what the layer's sparsity and skew
// suggest, by doubling and halving, then by ever smaller steps around the best. Trials in a checkpoint are not
// repeated.
func (r *run) search(ctx context.Context) (int, error) {
	best := r.bound(int(r.bits / bitsPerUnit))
	consider := func(rank int) (bool, error) {
		rank = r.bound(rank)
		if rank == best {
			return false, nil
		}
		b, err := r.try(ctx, best)
		if err != nil {
			return false, err
		}
		t, err := r.try(ctx, rank)
		if err != nil || !r.preferred(t, b) {
			return false, err
		}
		best = rank
		return true, nil
	}
	moved := false
	for _, next := range []func(int) int{func(k int) int { return 2 * k }, func(k int) int { return k / 2 }} {
		for !moved || best != r.bound(next(best)) {
			better, err := consider(next(best))
			if err != nil {
				return 0, err
			}
			if !better {
				break
			}
			moved = true
		}
		if moved { // the other way was come from
			break
		}
	}
	for step := best / 4; step >= RankStep/2; step /= 2 {
		up, err := consider(best + max(step, RankStep))
		if err != nil {
			return 0, err
		}
		if up {
			continue
		}
		if _, err := consider(best - max(step, RankStep)); err != nil {
			return 0, err
		}
	}
	return best, nil
}

// bound is rank as a multiple of RankStep within the bounds.
func (r *run) bound(rank int) int {
	return min(max((rank+RankStep/2)/RankStep, 1)*RankStep, r.o.MaxRank)
}

// preferred compares what full trainings promise: meeting the accuracy first, then bytes; if neither meets it,
// accuracy.
func (r *run) preferred(a, b trial) bool {
	wrongA, wrongB := trialWrong*(1-a.Quality.Accuracy), trialWrong*(1-b.Quality.Accuracy)
	metA, metB := 1-wrongA >= r.o.Accuracy, 1-wrongB >= r.o.Accuracy
	switch {
	case metA != metB:
		return metA
	case !metA:
		return wrongA < wrongB
	}
	return r.o.Bytes(a.Rank, a.Quality.PredictedShare) < r.o.Bytes(b.Rank, b.Quality.PredictedShare)
}

// try trains a rank for a short while on some of the samples, if that was not done yet.
func (r *run) try(ctx context.Context, rank int) (trial, error) {
	for _, t := range r.Trials {
		if t.Rank == rank {
			return t, nil
		}
	}
	short := &run{layer: r.layer, o: r.o}
	short.begin(rank, trialEpochs)
	if err := short.epochs(ctx, evenly(r.layer.train, trialSamples), evenly(r.held, trialHeld), false); err != nil {
		return trial{}, err
	}
	t := trial{rank, short.bestQuality}
	r.Trials = append(r.Trials, t)
	if r.o.Progress != nil {
		r.o.Progress(Progress{Rank: rank, Trial: true, Epoch: len(r.Trials), Quality: t.Quality})
	}
	return t, r.save()
}

// entropy of an event of probability p, in bits.
func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}
