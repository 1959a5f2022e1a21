package devicetest

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// attended holds a script's queries, from which the error that halves may cause is derived.
type attended struct {
	heads          heads
	how            compute.Attention
	slopes, sinks  []float32 // how's slopes and sinks
	places         []token
	bounds         []compute.Bounds // see compute.Params
	q              []float32        // [tokens, kv·group·key]
	k, v           [2][]float32     // [sequence] [positions, kv·key], [positions, kv·value]
	roughly        float64          // share of a row's largest magnitude that is lost in addition
	last           [2]int           // position of a sequence in the step
	shares, spread []float64        // the softmax of one head, and the error allowed for each score
}

// bound bounds attention that rounds queries and exponentials to halves, each in its own range, and keys and values too
// if the cache stores blocks. Rounding errors of exponentials, keys and values are independent between positions; a
// query's rounding affects all of its scores.
func (a *attended) bound() bound {
	l := a.heads.shape()
	n := a.heads.kv * a.heads.group
	steps := make([]float64, l.Key)
	for _, p := range a.places {
		a.last[p.seq] = max(a.last[p.seq], int(p.pos))
	}
	return func(bounds []float64, want []float32, r int) {
		ofRow(a.roughly)(bounds, want, r)
		for h := range n {
			q, kv := a.q[(r*n+h)*l.Key:][:l.Key], h/a.heads.group
			clear(steps)
			halfSteps(steps, q, largest(q))
			from := a.weigh(r, h, q, steps)
			for c := range l.Value {
				at := h*l.Value + c
				independent, common := 0.0, 0.0
				for j, share := range a.shares {
					v := a.value(a.places[r].seq, from+j, kv, c)
					off := share * (v - float64(want[at]))
					square := off * off * (halfStep*halfStep + uniform*a.spread[2*j+1])
					if l.ValueType.Type().Quantised() {
						square += share * share * v * v * halfStep * halfStep
					}
					independent += square
					common += math.Abs(off) * math.Sqrt(a.spread[2*j])
				}
				bounds[at] += roundingSigmas * (math.Sqrt(independent/uniform) + common)
			}
		}
	}
}

// halfStep is the largest distance of two neighbouring halves, relative to the smaller one.
const halfStep = 1.0 / (1 << (halfBits - 1))

// key and value are elements of what a KV head stores of a position.
func (a *attended) key(seq int32, pos, kv int) []float32 {
	n := a.heads.dim
	return a.k[seq][(pos*a.heads.kv+kv)*n:][:n]
}

func (a *attended) value(seq int32, pos, kv, c int) float64 {
	if a.heads.within {
		return float64(a.key(seq, pos, kv)[c])
	}
	return float64(a.v[seq][(pos*a.heads.kv+kv)*a.heads.shape().Value+c])
}

// span returns the positions that row r sees.
func (a *attended) span(r int) (from, to int) {
	p := compute.Params{Pos: []int32{a.places[r].pos}}
	if a.bounds != nil {
		p.Bounds = a.bounds[r:]
	}
	return p.Span(0, &a.how, a.last[a.places[r].seq])
}

// weigh fills shares with the softmax of row r's head h, and spread with the variances that rounding q to steps and
// rounding the keys give its scores. It returns the first position.
func (a *attended) weigh(r, h int, q []float32, steps []float64) (from int) {
	p, kv := a.places[r], h/a.heads.group
	from, to := a.span(r)
	a.shares, a.spread = a.shares[:0], a.spread[:0]
	scale, top := float64(a.how.Scale), math.Inf(-1)
	if a.sinks != nil {
		top = float64(a.sinks[h])
	}
	for j := from; j < to; j++ {
		score, byQuery, byKey := 0.0, 0.0, 0.0
		for i, k := range a.key(p.seq, j, kv) {
			x := float64(q[i]) * float64(k)
			score += x
			byQuery += steps[i] * steps[i] * float64(k) * float64(k)
			byKey += x * x * halfStep * halfStep
		}
		if !a.heads.types.key.Type().Quantised() {
			byKey = 0
		}
		score *= scale
		if limit := float64(a.how.SoftCap); limit > 0 {
			score = limit * math.Tanh(score/limit)
		}
		if a.slopes != nil {
			score -= float64(a.slopes[h]) * math.Abs(float64(int(p.pos)-j))
		}
		top = max(top, score)
		a.shares = append(a.shares, score)
		a.spread = append(a.spread, scale*scale*byQuery/uniform, scale*scale*byKey/uniform)
	}
	sum := 0.0
	if a.sinks != nil {
		sum = math.Exp(float64(a.sinks[h]) - top)
	}
	for j, score := range a.shares {
		a.shares[j] = math.Exp(score - top)
		sum += a.shares[j]
	}
	for j := range a.shares {
		a.shares[j] /= sum
	}
	return from
}
