package train

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Quality measures a predictor on held-out samples, over the neurons that it predicts.
type Quality struct {
	MassRecall     float64 // share of the active neurons' mass Σ|a_i|·‖d_i‖ that is predicted
	Recall         float64 // share of active neurons that are predicted
	Precision      float64 // share of predicted neurons that are active
	Accuracy       float64 // share of right decisions
	PredictedShare float64 // share of neurons that are predicted
	ActiveShare    float64 // share of neurons that are active
	Samples        int     // that this was measured on
}

// evaluation keeps what judging on the same samples needs each time.
type evaluation struct {
	samples []int32
	active  [][]int32   // [sample] rows that are active
	mass    [][]float32 // [sample] their masses
	margins [][]float32 // [sample] their margins
	x       []float32   // [evalRows, n_embd]
	hidden  []float32   // [evalRows, rank]
	logits  []float32   // [samples, n]
	total   float64     // mass
	pairs   int         // active
	tally   []tally     // [sample]
}

// tally counts one sample's decisions.
type tally struct {
	predicted, hits int
	mass            float64
}

const (
	evalRows   = 512
	evalLogits = 1 << 25 // bounds the memory of logits: 128 MiB
)

func (l *layer) newEvaluation(samples []int32, rank int) *evaluation {
	samples = evenly(samples, max(1, evalLogits/l.n))
	e := &evaluation{samples: samples, x: make([]float32, evalRows*l.embd), hidden: make([]float32, evalRows*rank), logits: make([]float32, len(samples)*l.n), tally: make([]tally, len(samples))}
	for _, s := range samples {
		var rows []int32
		var masses []float32
		mass := l.s.mass(int(s))
		for j, a := range l.s.active(int(s)) {
			if row := l.row[a]; row >= 0 {
				m := quant.F32FromBF16(mass[j])
				rows, masses = append(rows, row), append(masses, m)
				e.total += float64(m)
			}
		}
		e.active, e.mass = append(e.active, rows), append(e.mass, masses)
		e.margins = append(e.margins, make([]float32, len(rows)))
		e.pairs += len(rows)
	}
	return e
}

// minUnit is the least value of the constant unit that can still move a logit.
const minUnit = 1e-3

// margins computes for every pair by how much column 0 of fc2 would have to be lowered to make its logit zero.
func (l *layer) margins(w *weights, e *evaluation) {
	for at := 0; at < len(e.samples); at += evalRows {
		n := min(evalRows, len(e.samples)-at)
		l.load(e.x, e.samples[at:at+n])
		l.forward(w, e.x, e.hidden, e.logits[at*l.n:], n)
		l.pool.Run(n, func(i, _ int) {
			unit, z := e.hidden[i*w.rank], e.logits[(at+i)*l.n:][:l.n]
			if unit >= minUnit {
				l.vec.Scale(z, z, 1/unit)
			} else {
				for j, v := range z {
					z[j] = float32(math.Copysign(math.MaxFloat32, float64(v)))
				}
			}
			for j, row := range e.active[at+i] {
				e.margins[at+i][j] = z[row]
			}
		})
	}
}

// shift returns the largest s such that neurons with a margin of at least s hold the target share of the mass: raising
// column 0 of fc2 by -s makes those the neurons with logits of at least 0.
func (l *layer) shift(e *evaluation, target float64) float32 {
	low, high := float32(math.MaxFloat32), float32(-math.MaxFloat32)
	for _, m := range e.margins {
		for _, v := range m {
			low, high = min(low, v), max(high, v)
		}
	}
	if e.pairs == 0 || l.massAt(e, low) < target*e.total {
		return 0
	}
	// low always holds the target; keys are ordered like the margins, so this ends at neighbours.
	a, b := key(low), key(high)+1
	for b-a > 1 {
		mid := a + (b-a)/2
		if l.massAt(e, unkey(mid)) >= target*e.total {
			a = mid
		} else {
			b = mid
		}
	}
	return unkey(a)
}

func (l *layer) massAt(e *evaluation, s float32) float64 {
	l.pool.Run(len(e.samples), func(i, _ int) {
		sum := 0.0
		for j, v := range e.margins[i] {
			if v >= s {
				sum += float64(e.mass[i][j])
			}
		}
		e.tally[i].mass = sum
	})
	sum := 0.0
	for i := range e.tally {
		sum += e.tally[i].mass
	}
	return sum
}

// key orders floats as integers.
func key(f float32) int64 {
	b := int64(int32(math.Float32bits(f)))
	if b < 0 {
		b = math.MinInt32 - b
	}
	return b
}

func unkey(k int64) float32 {
	if k < 0 {
		k = math.MinInt32 - k
	}
	return math.Float32frombits(uint32(int32(k)))
}

// quality judges the decisions margin >= s.
func (l *layer) quality(e *evaluation, s float32) Quality {
	mass := l.massAt(e, s)
	l.pool.Run(len(e.samples), func(i, _ int) {
		t := &e.tally[i]
		t.predicted, t.hits = 0, 0
		for _, v := range e.logits[i*l.n:][:l.n] {
			if v >= s {
				t.predicted++
			}
		}
		for _, v := range e.margins[i] {
			if v >= s {
				t.hits++
			}
		}
	})
	predicted, hits := 0, 0
	for _, t := range e.tally {
		predicted += t.predicted
		hits += t.hits
	}
	all := float64(len(e.samples)) * float64(l.n)
	wrong := float64(predicted-hits) + float64(e.pairs-hits)
	return Quality{
		MassRecall: ratio(mass, e.total), Recall: ratio(float64(hits), float64(e.pairs)), Precision: ratio(float64(hits), float64(predicted)),
		Accuracy: 1 - wrong/all, PredictedShare: float64(predicted) / all, ActiveShare: float64(e.pairs) / all, Samples: len(e.samples),
	}
}
