package train

import (
	"cmp"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// calibrations bounds how often rounded weights are shifted again.
const calibrations = 8

// export turns the best weights into a predictor of unscaled inputs, rounds it to its type, and shifts it until the
// rounded predictor meets the target.
func (r *run) export(o *Options) (*Predictor, Quality) {
	w := r.unscaled()
	scale := r.layer.scale
	r.layer.scale = ones(r.embd)
	defer func() { r.layer.scale = scale }()
	var p weights
	var q Quality
	for i := range calibrations {
		p = w.clone()
		r.round(o.Type, p.fc1, r.embd)
		r.round(o.Type, p.fc2, p.rank)
		r.margins(&p, r.eval)
		q = r.quality(r.eval, 0)
		if i > 0 && q.MassRecall >= o.MassRecall {
			break
		}
		// Rounding makes shifts uneven: each time a little more is asked for.
		s := r.shift(r.eval, o.MassRecall+(1-o.MassRecall)*0.01*float64(i))
		for j := range r.n {
			w.fc2[j*w.rank] -= s
		}
	}
	return &Predictor{Rank: p.rank, FC1: p.fc1, FC2: p.fc2}, q
}

// unscaled returns the best weights for the recorded inputs. Hidden units get a mean square of 1 and follow the
// constant one, ordered by their contribution, least first: blocks of quantised types then hold weights of similar
// size.
func (r *run) unscaled() weights {
	b := &r.best
	squares := make([]float64, b.rank)
	samples := r.eval.samples[:min(evalRows, len(r.eval.samples))]
	r.load(r.eval.x, samples)
	r.layer.forward(b, r.eval.x, r.eval.hidden, r.eval.logits, len(samples))
	for i := range samples {
		for k, h := range r.eval.hidden[i*b.rank:][:b.rank] {
			squares[k] += float64(h) * float64(h)
		}
	}
	size, contribution, order := make([]float32, b.rank), make([]float64, b.rank), make([]int, b.rank)
	for k := range size {
		order[k], size[k] = k, 1
		if s := squares[k] / float64(len(samples)); s > 1e-20 {
			size[k] = float32(math.Sqrt(s))
		}
		for i := range r.n {
			v := float64(b.fc2[i*b.rank+k] * size[k])
			contribution[k] += v * v
		}
	}
	slices.SortStableFunc(order[1:], func(x, y int) int { return cmp.Compare(contribution[x], contribution[y]) })
	w := weights{b.rank, make([]float32, len(b.fc1)), make([]float32, len(b.fc2))}
	for to, from := range order {
		row := w.fc1[to*r.embd:][:r.embd]
		copy(row, b.fc1[from*r.embd:])
		r.vec.Mul(row, r.layer.scale)
		r.vec.Scale(row, row, 1/size[from])
		for i := range r.n {
			w.fc2[i*b.rank+to] = b.fc2[i*b.rank+from] * size[from]
		}
	}
	return w
}

// round rounds rows of cols weights to what t can hold.
func (r *run) round(t quant.Type, w []float32, cols int) {
	if t == quant.F32 {
		return
	}
	r.pool.Run(len(w)/cols, func(i, _ int) {
		row := w[i*cols:][:cols]
		b := make([]byte, t.RowBytes(cols))
		quant.Encode(t, b, row)
		quant.Decode(t, row, b)
	})
}
