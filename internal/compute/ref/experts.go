package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// choice holds the experts of every token and their weights. [rows][used]
type choice struct {
	experts [][]int
	weights [][]float64
}

// Choice allocates choices.
func (d *Device) Choice(rows, used, n int) (compute.Choice, error) {
	c := &choice{experts: make([][]int, rows), weights: make([][]float64, rows)}
	for t := range rows {
		c.experts[t], c.weights[t] = make([]int, used), make([]float64, used)
	}
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: c}, nil
}

// Route chooses the experts of every token.
func (d *Device) Route(o *compute.Route) {
	c, factors := o.Choice, elements(o.Factors)
	if !o.Fits() {
		panic("ref: Route of shapes that do not fit")
	}
	m := c.Mem.(*choice)
	for t := range c.Rows {
		if logits := row(o.Logits, t); o.Chosen.Mem != nil {
			m.experts[t], m.weights[t] = given(row(o.Chosen, t), logits, o.How)
		} else {
			m.experts[t], m.weights[t] = Chosen(logits, elements(o.Bias), c.Used, o.How)
		}
		for i, w := range m.weights[t] {
			if factors != nil {
				w *= float64(factors[m.experts[t][i]])
			}
			m.weights[t][i] = float64(float32(w))
		}
	}
}

// scoresOf returns the scores of a token's logits.
func scoresOf(logits []float32, how compute.Routing) []float64 {
	scores := make([]float64, len(logits))
	for i, l := range logits {
		scores[i] = float64(l)
	}
	switch how.Score {
	case compute.Softmax:
		softmax(scores)
	case compute.Sigmoid:
		for i, l := range scores {
			scores[i] = 1 / (1 + math.Exp(-l))
		}
	case compute.RootSoftplus:
		for i, l := range scores {
			scores[i] = math.Sqrt(max(l, 0) + math.Log1p(math.Exp(-math.Abs(l))))
		}
	}
	return scores
}

// given returns the experts of that numbers, and their weights.
func given(numbers, logits []float32, how compute.Routing) (experts []int, weights []float64) {
	for _, e := range numbers {
		experts = append(experts, min(max(int(e), 0), len(logits)-1))
	}
	return experts, weightsOf(experts, scoresOf(logits, how), logits, how)
}

// Chosen returns a token's experts, the highest ranked first, and their weights. bias may be nil.
func Chosen(logits, bias []float32, used int, how compute.Routing) (experts []int, weights []float64) {
	scores, rank := scoresOf(logits, how), make([]float64, len(logits))
	for i, l := range logits {
		rank[i] = float64(l)
	}
	if how.Ranked(bias != nil) {
		copy(rank, scores)
	}
	for i, b := range bias {
		rank[i] += float64(b)
	}
	for i, r := range rank {
		if math.IsNaN(r) {
			rank[i] = math.Inf(-1)
		}
	}
	excludeGroups(rank, how)
	experts = highest(rank, used)
	return experts, weightsOf(experts, scores, logits, how)
}

// weightsOf returns the weights of experts.
func weightsOf(experts []int, scores []float64, logits []float32, how compute.Routing) (weights []float64) {
	for _, e := range experts {
		weights = append(weights, scores[e])
	}
	if how.Score == compute.SoftmaxChosen {
		softmax(weights)
	}
	finish(weights, how)
	for _, l := range logits {
		if math.IsNaN(float64(l)) {
			for i := range weights {
				weights[i] = math.NaN()
			}
		}
	}
	return weights
}

// softmax makes logits their softmax.
func softmax(x []float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// excludeGroups sets the rank of experts in unused groups to -∞.
func excludeGroups(rank []float64, how compute.Routing) {
	if how.Groups == 0 {
		return
	}
	size := len(rank) / how.Groups
	sums, used := make([]float64, how.Groups), make([]bool, how.Groups)
	for g := range sums {
		of := rank[g*size:][:size]
		for _, i := range highest(of, how.GroupBest(size)) {
			sums[g] += of[i]
		}
	}
	for _, g := range highest(sums, how.GroupsUsed) {
		used[g] = true
	}
	for i := range rank {
		if !used[i/size] {
			rank[i] = math.Inf(-1)
		}
	}
}

// highest returns the places of the n largest, the largest first, and of equals the first.
func highest(x []float64, n int) (places []int) {
	taken := make([]bool, len(x))
	for range n {
		best := -1
		for i, v := range x {
			if !taken[i] && (best < 0 || v > x[best]) {
				best = i
			}
		}
		taken[best] = true
		places = append(places, best)
	}
	return places
}

// finish normalises and scales weights.
func finish(weights []float64, how compute.Routing) {
	by := float64(how.Scale)
	if how.Normalised {
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		by /= max(sum, float64(how.MinSum))
	}
	for i := range weights {
		weights[i] *= by
	}
}

// ChoiceData writes every token's experts' numbers and then their weights to chosen. [c.Rows·2·c.Used]
func (d *Device) ChoiceData(c compute.Choice, chosen []float32) {
	m := c.Mem.(*choice)
	for t := range c.Rows {
		of := chosen[t*2*c.Used:][:2*c.Used]
		for k, e := range m.experts[t] {
			of[k], of[c.Used+k] = float32(e), float32(m.weights[t][k])
		}
	}
}

// Experts adds up the chosen experts of each token.
func (d *Device) Experts(o *compute.Experts) {
	x, c, w := o.X, o.Choice, o.Weights
	if !w.Fits(o.Out, x, c) {
		panic("ref: Experts of shapes that do not fit: " + w.Down.Name)
	}
	m := c.Mem.(*choice)
	skipped := make([][]bool, x.Rows)
	for t := range skipped {
		if skipped[t] = make([]bool, c.Used); w.Skip.Always {
			var of []float32
			for _, v := range m.weights[t] {
				of = append(of, float32(v))
			}
			w.Skip.Leaves(of, skipped[t])
		}
	}
	sums := make([][]float64, x.Rows)
	for t := range sums {
		sums[t] = make([]float64, o.Out.Cols)
	}
	for e := range c.N {
		if w.At(e) == compute.Absent {
			continue
		}
		var tokens []int // that have chosen e
		var weights []float64
		for t := range x.Rows {
			for k, chosen := range m.experts[t] {
				if chosen == e && !skipped[t][k] {
					tokens, weights = append(tokens, t), append(weights, m.weights[t][k])
				}
			}
		}
		if len(tokens) == 0 {
			continue
		}
		for i, t := range tokens {
			var left []bool
			if w.FC1 != nil {
				left = d.leftOut(row(x, t), e, c.N, &w)
			}
			d.expert(sums[t], row(x, t), left, e, c.N, weights[i], w)
		}
		countExpert(c.N, &w)
	}
	if b := w.Bins; b != nil && b.On {
		for t := range x.Rows {
			for _, e := range m.experts[t] {
				b.Add(0, []int32{int32(e)})
			}
		}
	}
	for t := range sums {
		for j, y := range sums[t] {
			row(o.Out, t)[j] = float32(y)
		}
	}
	if w.Count != nil {
		w.Count.Steps++
		w.Count.Tokens += int64(x.Rows)
	}
}

// leftOut reports which neurons of expert e of n its predictor leaves out.
func (d *Device) leftOut(x []float32, e, n int, w *compute.ExpertWeights) []bool {
	at, rank, left := w.At(e), w.FC2.Cols, make([]bool, w.Neurons(n))
	hidden := make([]float32, rank)
	for i := range hidden {
		hidden[i] = float32(max(0, dot(weights(w.FC1, at*rank+i), x)))
	}
	for i := range left {
		left[i] = !(float32(dot(weights(w.FC2, at*len(left)+i), hidden)) >= d.p.Threshold)
	}
	return left
}

// expert adds the output of expert e of n for x, times its weight, to sum. Neurons that are left out add nothing; left
// may be nil.
func (d *Device) expert(sum []float64, x []float32, left []bool, e, n int, weight float64, w compute.ExpertWeights) {
	ff := w.Neurons(n)
	gates, gateBias := w.Gates()
	at := w.At(e)
	firstGate, firstUp := w.First(at, ff)
	in, by := 1.0, weight
	if w.Before {
		in, by = weight, 1
	}
	product := func(m *compute.Matrix, bias *compute.Vector, r int) float64 {
		y := in * dot(weights(m, r), x)
		if bias != nil {
			y += float64(elements(bias)[r+(e-at)*m.Rows/w.Holds(n)])
		}
		return y
	}
	a, open := make([]float64, ff), make([]bool, ff) // open: not left out
	for i := range a {
		if left != nil && left[i] {
			continue
		}
		u := product(w.Up, w.UpBias, firstUp+i)
		if gates == nil {
			a[i] = Activation(w.Act, u)
			open[i] = !w.Exact || a[i] != 0
		} else {
			g := Activation(w.Act, product(gates, gateBias, firstGate+i))
			if open[i] = !w.Exact || g != 0; open[i] {
				a[i] = g * Factor(w.Act, u)
			}
		}
	}
	for i, v := range a {
		w.Active.Add(e, ff, i, []float32{float32(v)})
	}
	countNeurons(a, open, left, &w)
	for j := range sum {
		y := 0.0
		for i, v := range weights(w.Down, at*len(sum)+j) {
			if open[i] {
				y += a[i] * float64(v)
			}
		}
		if w.DownBias != nil {
			y += float64(elements(w.DownBias)[e*len(sum)+j])
		}
		sum[j] += by * y
	}
}

// countNeurons counts the neurons that an expert computed for a token. Those in open are not zero, and those in left
// are not predicted.
func countNeurons(a []float64, open, left []bool, w *compute.ExpertWeights) {
	c := w.Count
	if c == nil {
		return
	}
	for i, v := range a {
		if left != nil && left[i] {
			continue
		}
		c.Predicted++
		if open[i] {
			c.Gated++
		}
		if v != 0 || !w.Exact {
			c.Active++
		}
	}
}

// countExpert counts an expert of n that was computed for some tokens. This device reads all of its weights.
func countExpert(n int, w *compute.ExpertWeights) {
	c := w.Count
	if c == nil {
		return
	}
	for _, m := range []*compute.Matrix{w.Gate, w.Up, w.Down, w.FC1, w.FC2} {
		if m != nil {
			c.Bytes += int64(m.Rows/w.Holds(n)) * int64(m.Type.RowBytes(m.Cols))
		}
	}
}

// GateRows multiplies each row by what follows from its logit.
func (d *Device) GateRows(o *compute.GateRows) {
	for t := range o.X.Rows {
		by := Activation(compute.Activation{Kind: o.Act}, float64(row(o.Logits, t)[0]))
		for i, v := range row(o.X, t) {
			row(o.X, t)[i] = float32(by * float64(v))
		}
	}
}
