package train

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Judge applies a predictor of neurons to samples that it was not trained on. The quality is that of the whole layer:
// neurons outside of neurons count as always predicted.
func Judge(s *Samples, p *Predictor, neurons []int32, workers *pool.Pool) (Quality, error) {
	if err := s.check(); err != nil {
		return Quality{}, err
	}
	if len(p.FC1) != p.Rank*s.Embd || len(p.FC2) != len(neurons)*p.Rank {
		return Quality{}, fmt.Errorf("a predictor of rank %d with %d and %d weights is not for %d inputs and %d neurons", p.Rank, len(p.FC1), len(p.FC2), s.Embd, len(neurons))
	}
	mul, err := gemm.NewMultiplier(workers, "")
	if err != nil {
		return Quality{}, err
	}
	k, err := kernel.New("")
	if err != nil {
		return Quality{}, err
	}
	l := &layer{s: s, pool: workers, mul: mul, vec: k.Vector, embd: s.Embd, n: len(neurons), neurons: neurons, scale: ones(s.Embd), row: make([]int32, s.FF)}
	for i := range l.row {
		l.row[i] = -1
	}
	for i, n := range neurons {
		l.row[n] = int32(i)
	}
	return l.judge(&weights{p.Rank, p.FC1, p.FC2}), nil
}

// verdict is the judgement of one sample.
type verdict struct {
	tally
	all float64 // mass
}

func (l *layer) judge(w *weights) Quality {
	rows := max(1, min(evalRows, evalLogits/l.n))
	x, hidden, logits := make([]float32, rows*l.embd), make([]float32, rows*w.rank), make([]float32, rows*l.n)
	samples, verdicts := make([]int32, l.s.Len()), make([]verdict, l.s.Len())
	for i := range samples {
		samples[i] = int32(i)
	}
	for at := 0; at < len(samples); at += rows {
		n := min(rows, len(samples)-at)
		l.load(x, samples[at:at+n])
		l.forward(w, x, hidden, logits, n)
		l.pool.Run(n, func(i, _ int) { verdicts[at+i] = l.sentence(at+i, logits[i*l.n:][:l.n]) })
	}
	var q Quality
	predicted, hits, mass, all := 0, 0, 0.0, 0.0
	for _, v := range verdicts {
		predicted, hits = predicted+v.predicted, hits+v.hits
		mass, all = mass+v.mass, all+v.all
	}
	pairs := float64(len(samples)) * float64(l.s.FF)
	active := len(l.s.Active)
	q.MassRecall, q.Recall, q.Precision = ratio(mass, all), ratio(float64(hits), float64(active)), ratio(float64(hits), float64(predicted))
	q.Accuracy = 1 - ratio0(float64(predicted-hits)+float64(active-hits), pairs)
	q.PredictedShare, q.ActiveShare, q.Samples = ratio0(float64(predicted), pairs), ratio0(float64(active), pairs), len(samples)
	return q
}

// sentence compares one sample's logits [n] with its active set.
func (l *layer) sentence(sample int, logits []float32) verdict {
	v := verdict{tally: tally{predicted: l.s.FF - l.n}}
	for _, z := range logits {
		if z >= 0 {
			v.predicted++
		}
	}
	mass := l.s.mass(sample)
	for j, a := range l.s.active(sample) {
		m := float64(quant.F32FromBF16(mass[j]))
		v.all += m
		if row := l.row[a]; row < 0 || logits[row] >= 0 {
			v.hits++
			v.mass += m
		}
	}
	return v
}

// ratio returns a/b, or 1 if b is 0: nothing could be missed.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}

// ratio0 is a/b, 0 of nothing.
func ratio0(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
