package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// choice holds the experts of every token, whose numbers are always valid, and their weights. [rows, used] each
type choice struct {
	experts []int32
	weights []float32
}

// Choice allocates choices.
func (d *Device) Choice(rows, used, n int) (compute.Choice, error) {
	c := &choice{experts: make([]int32, rows*used), weights: make([]float32, rows*used)}
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: c}, nil
}

// FillChoice sets every token's experts and weights to chosen, which has each token's expert numbers and then their
// weights. An invalid number becomes expert 0 with the weight NaN.
func (d *Device) FillChoice(c compute.Choice, chosen []float32) {
	m := c.Mem.(*choice)
	for t := range c.Rows {
		of := chosen[t*2*c.Used:][:2*c.Used]
		experts, weights := m.experts[t*c.Used:][:c.Used], m.weights[t*c.Used:][:c.Used]
		copy(weights, of[c.Used:])
		for k, e := range of[:c.Used] {
			if !(e >= 0 && e < float32(c.N)) {
				e, weights[k] = 0, float32(math.NaN())
			}
			experts[k] = int32(e)
		}
	}
}

// ChoiceData writes every token's experts and weights to chosen, in the form that FillChoice reads.
func (d *Device) ChoiceData(c compute.Choice, chosen []float32) {
	m := c.Mem.(*choice)
	for t := range c.Rows {
		of := chosen[t*2*c.Used:][:2*c.Used]
		for k, e := range m.experts[t*c.Used:][:c.Used] {
			of[k] = float32(e)
		}
		copy(of[c.Used:], m.weights[t*c.Used:])
	}
}

// routeRows is the number of tokens that a worker routes at a time: some microseconds' work.
const routeRows = 16

// routing is the state of one Route; run is a method value made once, so that a call allocates nothing.
type routing struct {
	d       *Device
	chunkFn func(chunk, worker int)

	c       compute.Choice
	logits  compute.Tensor
	bias    []float32
	factors []float32
	chosen  compute.Tensor
	how     compute.Routing
}

func (r *routing) init(d *Device) {
	r.d = d
	r.chunkFn = r.chunk
}

// Route chooses the experts of every token.
func (d *Device) Route(o *compute.Route) {
	c := o.Choice
	if !o.Fits() {
		panic("cpu: Route of shapes that do not fit")
	}
	r := &d.routing
	r.c, r.logits, r.bias, r.factors, r.chosen, r.how = c, o.Logits, vector(o.Bias), vector(o.Factors), o.Chosen, o.How
	d.pool.Run((c.Rows+routeRows-1)/routeRows, r.chunkFn)
}

func (r *routing) chunk(chunk, worker int) {
	w := r.d.worker(worker)
	for t := chunk * routeRows; t < min(r.c.Rows, (chunk+1)*routeRows); t++ {
		r.token(t, w)
	}
}

// token chooses one token's experts.
func (r *routing) token(t int, w *workerScratch) {
	m, n, used := r.c.Mem.(*choice), r.c.N, r.c.Used
	experts, weights := m.experts[t*used:][:used], m.weights[t*used:][:used]
	logits := row(r.logits, t)
	buf := grown(&w.floats, 2*n+r.how.Groups)
	scores, rank, groups := buf[:n], buf[n:2*n], buf[2*n:]
	r.score(scores, logits)
	if r.chosen.Mem != nil {
		for i, e := range row(r.chosen, t) {
			experts[i] = min(max(int32(e), 0), int32(n-1))
		}
	} else {
		copy(rank, logits)
		if r.how.Ranked(r.bias != nil) {
			copy(rank, scores)
		}
		if r.bias != nil {
			r.d.k.Add(rank, r.bias)
		}
		numbers(rank)
		r.excludeGroups(rank, groups)
		highest(experts, rank)
	}
	for i, e := range experts {
		weights[i] = scores[e]
	}
	if r.how.Score == compute.SoftmaxChosen {
		softmax(r.d.k, weights, weights)
	}
	finishWeights(weights, &r.how)
	if r.factors != nil {
		for i, e := range experts {
			weights[i] *= r.factors[e]
		}
	}
	for _, l := range logits {
		if l != l {
			fill(weights, float32(math.NaN()))
			break
		}
	}
}

// score writes the scores of logits.
func (r *routing) score(scores, logits []float32) {
	switch r.how.Score {
	case compute.Softmax:
		softmax(r.d.k, scores, logits)
	case compute.Sigmoid:
		r.d.k.Scale(scores, logits, -1)
		r.d.k.Exp(scores, scores)
		for i, e := range scores {
			scores[i] = 1 / (1 + e)
		}
	case compute.SoftmaxChosen:
		copy(scores, logits)
	case compute.RootSoftplus:
		for i, l := range logits {
			x := float64(l)
			scores[i] = float32(math.Sqrt(max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))))
		}
	}
}

// excludeGroups sets the rank of experts in unused groups to -∞. sums is scratch. [groups]
func (r *routing) excludeGroups(rank, sums []float32) {
	if r.how.Groups == 0 {
		return
	}
	size := len(rank) / r.how.Groups
	for g := range sums {
		of := rank[g*size:][:size]
		var two [2]int32
		best := two[:r.how.GroupBest(size)]
		sums[g] = 0
		highest(best, of)
		for _, i := range best {
			sums[g] += of[i]
		}
	}
	for range r.how.GroupsUsed { // NaN marks the groups that are used, and highest ranks it last
		var best [1]int32
		highest(best[:], sums)
		sums[best[0]] = float32(math.NaN())
	}
	for g, s := range sums {
		if s == s {
			fill(rank[g*size:][:size], float32(math.Inf(-1)))
		}
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// numbers replaces each NaN in x by -∞.
func numbers(x []float32) {
	for i, v := range x {
		if v != v {
			x[i] = float32(math.Inf(-1))
		}
	}
}

// highest writes the indices of the len(places) largest elements of x, which has at least as many, the largest first.
// Among equal elements the lower index comes first. NaNs come after all others, in no order.
func highest(places []int32, x []float32) {
	n := 0
	for i, v := range x {
		if n == len(places) && !(v > x[places[n-1]] || x[places[n-1]] != x[places[n-1]] && v == v) {
			continue
		}
		if n < len(places) {
			n++
		}
		j := n - 1
		for ; j > 0 && (v > x[places[j-1]] || x[places[j-1]] != x[places[j-1]] && v == v); j-- {
			places[j] = places[j-1]
		}
		places[j] = int32(i)
	}
}

// softmax writes the softmax of x to dst, which may be x.
func softmax(k *kernel.Kernels, dst, x []float32) {
	top, sum := k.Max(x), 0.0
	for i, v := range x {
		dst[i] = v - top
	}
	k.Exp(dst, dst)
	for _, v := range dst {
		sum += float64(v)
	}
	by := 1 / sum
	for i, v := range dst {
		dst[i] = float32(float64(v) * by)
	}
}

// finishWeights normalises and scales weights.
func finishWeights(weights []float32, how *compute.Routing) {
	by := float64(how.Scale)
	if how.Normalised {
		sum := 0.0
		for _, w := range weights {
			sum += float64(w)
		}
		by /= max(sum, float64(how.MinSum))
	}
	for i, w := range weights {
		weights[i] = float32(float64(w) * by)
	}
}

// gated multiplies x by the sigmoid or the softplus of a logit.
func gated(x []float32, logit float32, by compute.Nonlinearity) {
	g := float64(logit)
	if by == compute.Softplus {
		scaled(x, float32(max(g, 0)+math.Log1p(math.Exp(-math.Abs(g)))))
		return
	}
	scaled(x, float32(1/(1+math.Exp(-g))))
}
