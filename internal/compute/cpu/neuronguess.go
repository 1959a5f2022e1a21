package cpu

import (
	"cmp"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// neuronGuess is the state of a guess at the next layer's neurons.
type neuronGuess struct {
	g     compute.Guess // FC1 is nil: there is no guess
	set   *set          // g's set is this layer's
	units []int32
	score []float32 // [n_ff] for each of units: its largest logit, less the threshold, plus 1; for others 0
	pays  guessPay
}

// guessPay finds out whether guesses make steps faster. A guess takes the time of a predictor. If the disk is fast, or
// few neurons are read, it saves less than that. Steps of one token are timed with guesses and without. Steps differ in
// the number of neurons to read, so guessPay compares the time per neuron.
type guessPay struct {
	without bool          // the step makes no guesses
	took    time.Duration // until neurons were in RAM, in all layers of the step
	read    int64         // neurons that RAM did not have before they were guessed or needed, in all layers of the step
	mean    [2]float64    // seconds for each of read, in recent steps with guesses and without; 0: unknown
	steps   int
}

const (
	payRecent = 8  // steps that a mean covers
	payTrials = 16 // one of payTrials steps tries the other way
	payMost   = 4  // a step counts as at most payMost times the mean
	// Guesses end if a neuron takes less than payShare of the time without them. On a busy machine means of a few steps
	// differ by more than a tenth by chance.
	payShare = 0.8
)

// step begins a step.
func (p *guessPay) step() {
	if p.took == 0 {
		return
	}
	mean := &p.mean[0]
	if p.without {
		mean = &p.mean[1]
	}
	each := p.took.Seconds() / float64(max(1, p.read))
	if *mean == 0 {
		*mean = each
	}
	each = min(each, payMost**mean) // the machine may have slept
	*mean += (each - *mean) / payRecent
	p.took, p.read = 0, 0
	p.steps++
	p.without = p.mean[1] > 0 && p.mean[1] < payShare*p.mean[0]
	if p.steps%payTrials == payTrials-1 {
		p.without = !p.without
	}
}

// Foresee implements compute.Foreseer, for neurons on disk.
func (d *Device) Foresee(g compute.Guess) {
	if mem(g.Weights.Down).disk != nil && !d.neuronGuess.pays.without {
		d.neuronGuess.g = g
	}
}

// guessNeurons begins to read neurons that the next layer will probably need, if there is a guess. The guess is computed
// while this layer's neurons are read.
func (d *Device) guessNeurons() {
	g := &d.neuronGuess.g
	if g.FC1 == nil {
		return
	}
	if b := mem(g.Weights.Down).disk.bundle; b.class.cache.Guesses() > 0 {
		d.units.guess(b, d.neuronGuess.list(d, b))
	}
	*g = compute.Guess{}
}

// list returns the neurons that the next layer's predictor chooses and RAM does not have, by falling logit.
func (y *neuronGuess) list(d *Device, b *bundle) []int32 {
	g, in := &y.g, y.g.X
	if g.Norm != nil {
		in = g.H
		d.parts.RMSNorm(in, g.X, g.Norm, g.Eps)
	}
	rows, all := g.X.Rows, g.Set.N
	if y.set == nil || y.set.stride < all+kernel.ChooseSlack || len(y.set.count) < rows {
		y.set = newSet(rows, all)
	}
	of := d.sparse.s
	d.parts.Predict(compute.Set{Rows: rows, N: all, Mem: y.set}, in, g.Hidden, g.Logits, g.FC1, g.FC2)
	d.sparse.s = of
	score, always := grown(&y.score, all), int32(all-g.FC2.Rows)
	y.units = y.units[:0]
	for t := range rows {
		logits := row(g.Logits, t)
		for _, n := range y.set.token(t) {
			if n < always || b.slot(n) != residency.Absent {
				continue
			}
			if score[n] == 0 {
				y.units = append(y.units, n)
			}
			score[n] = max(score[n], logits[n-always]-d.p.Threshold+1)
		}
	}
	slices.SortFunc(y.units, func(n, m int32) int { return cmp.Or(cmp.Compare(score[m], score[n]), cmp.Compare(n, m)) })
	for _, n := range y.units {
		score[n] = 0
	}
	return y.units
}
