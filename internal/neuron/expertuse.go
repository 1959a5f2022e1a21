package neuron

import (
	"cmp"
	"math"
	"slices"
)

// Stats returns the uses of the layers that have experts as if experts were neurons, and the numbers of these layers.
func (x *Experts) Stats() (s *Stats, layers []int) {
	s = &Stats{Tokens: x.Tokens()}
	for l := range x.Layers {
		if y := &x.Layers[l]; y.Count() > 0 {
			s.Layers, layers = append(s.Layers, y.Total()), append(layers, l)
		}
	}
	return s, layers
}

// Used returns how many of a layer's experts a token uses, 0 if nothing was counted.
func (x *Experts) Used(layer int) int {
	if x.Tokens() == 0 {
		return 0
	}
	return int(total(x.Layers[layer].Total()) / x.Tokens())
}

// Entropy returns the entropy in bits of the expert of a random use of the layer: the logarithm of the number of
// experts for equal use. 0 if nothing was counted.
func (x *Experts) Entropy(layer int) float64 {
	uses := x.Layers[layer].Total()
	all := float64(total(uses))
	h := 0.0
	for _, n := range uses {
		if n > 0 {
			p := float64(n) / all
			h -= p * math.Log2(p)
		}
	}
	return h
}

// Again returns the share of a layer's uses of an expert that is used again by the token at each of Lags later, 0…1; 0
// if no two tokens are that far apart.
func (x *Experts) Again(layer int) []float64 {
	out := make([]float64, len(x.Pairs))
	used := float64(x.Used(layer))
	for i, n := range x.Pairs {
		if n > 0 && used > 0 {
			out[i] = float64(x.Layers[layer].Again[i]) / (used * float64(n))
		}
	}
	return out
}

// Chance returns what Again would be at every distance if tokens chose their experts independently, as often as they
// did: Σp²/Σp.
func (x *Experts) Chance(layer int) float64 {
	var squares, sum float64
	for _, p := range x.Prior(layer) {
		squares += p * p
		sum += p
	}
	if sum == 0 {
		return 0
	}
	return squares / sum
}

// Run returns the mean number of consecutive tokens that use an expert of a layer: uses divided by uses that the next
// token does not repeat. 0 if nothing was counted. Ends of sequences end runs, too.
func (x *Experts) Run(layer int) float64 {
	y := &x.Layers[layer]
	if y.Count() == 0 {
		return 0
	}
	all := total(y.Total())
	if all == 0 {
		return 0
	}
	return float64(all) / float64(max(1, all-min(all, y.Again[0])))
}

// Agreement says how similar the uses of a layer's experts are in different texts.
type Agreement struct {
	Texts   int     `json:"texts"`   // compared; below 2 the rest is 0
	Rank    float64 `json:"rank"`    // Spearman's rank correlation of the experts' uses, mean over pairs of texts, -1…1
	Hottest float64 `json:"hottest"` // share of one text's hottest quarter of experts that is also in the other's, mean over pairs
}

// leastCompared is the least mean number of uses of an expert in a compared text: with fewer, chance alone makes texts
// differ.
const leastCompared = 16

// Agreement compares texts with enough uses of the layer's experts.
func (x *Experts) Agreement(layer int) Agreement {
	y := &x.Layers[layer]
	n := y.Count()
	var texts [][]uint32
	for _, uses := range y.Uses {
		if total(uses) >= leastCompared*uint64(n) {
			texts = append(texts, uses)
		}
	}
	a := Agreement{Texts: len(texts)}
	if len(texts) < 2 {
		return a
	}
	ranked, quarters := make([][]float64, len(texts)), make([][]int32, len(texts))
	for i, uses := range texts {
		ranked[i], quarters[i] = ranks(uses), hottest(uses, 0)[:(n+3)/4]
	}
	pairs := float64(len(texts) * (len(texts) - 1) / 2)
	for i := range texts {
		for j := range i {
			a.Rank += correlation(ranked[i], ranked[j]) / pairs
			same := 0
			for _, e := range quarters[i] {
				if slices.Contains(quarters[j], e) {
					same++
				}
			}
			a.Hottest += float64(same) / float64(len(quarters[i])) / pairs
		}
	}
	return a
}

// ranks returns the rank of each count from the highest, 0; equal counts share the mean of their ranks.
func ranks(counts []uint32) []float64 {
	order, out := hottest(counts, 0), make([]float64, len(counts))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && counts[order[to]] == counts[order[from]] {
			to++
		}
		for _, e := range order[from:to] {
			out[e] = float64(from+to-1) / 2
		}
		from = to
	}
	return out
}

// correlation returns Pearson's correlation of a and b, 0 if one of them is constant.
func correlation(a, b []float64) float64 {
	mean := float64(len(a)-1) / 2 // of ranks
	var ab, aa, bb float64
	for i := range a {
		x, y := a[i]-mean, b[i]-mean
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// Inactive returns the share of (token, neuron) pairs of used experts of a layer with an inactive neuron, and the share
// of the layer's neurons, all experts together, that makes 80 % of activations. ok is false if neurons were not
// counted, or no expert was used.
func (y *ExpertLayer) Inactive() (inactive, share80 float64, ok bool) {
	if y.Active == nil {
		return 0, 0, false
	}
	uses := y.Total()
	var active, pairs uint64
	var all []uint32
	for e, counts := range y.Active {
		active += total(counts)
		pairs += uint64(uses[e]) * uint64(len(counts))
		all = append(all, counts...)
	}
	switch {
	case pairs == 0:
		return 0, 0, false
	case active == 0:
		return 1, 0, true
	}
	slices.SortFunc(all, func(a, b uint32) int { return cmp.Compare(b, a) })
	var sum uint64
	k := 0
	for ; k < len(all) && 10*sum < 8*active; k++ {
		sum += uint64(all[k])
	}
	return 1 - float64(active)/float64(pairs), float64(k) / float64(len(all)), true
}
