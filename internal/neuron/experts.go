package neuron

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Experts counts which experts of a model's layers tokens used, text by text.
type Experts struct {
	Texts  []Text
	Pairs  []uint64      // [len(Lags())] tokens that another one follows at this distance in the same sequence
	Layers []ExpertLayer // [layer] a layer without experts has the zero value
}

// Text is a text with counted uses.
type Text struct {
	Name   string
	Tokens uint64 // counted
}

// ExpertLayer counts the uses of one layer's experts.
type ExpertLayer struct {
	Uses   [][]uint32 // [text][expert] tokens that used the expert
	Again  []uint64   // [len(Lags())] uses of an expert by the first token of such a pair that the second one shares
	Active [][]uint32 // [expert][n_ff] tokens for which each neuron of the expert was active; nil: none is ever zero, or they were not counted
}

// Lags returns the distances, in tokens, at which shared uses of experts are counted.
func Lags() []int { return []int{1, 2, 4, 8, 16, 32, 64} }

// MostTexts bounds the texts that are counted apart.
const MostTexts = 16

// NewExperts returns empty counts of texts for a model with this many experts in each layer, 0 for none, and this many
// neurons in each; ff of 0 counts no neurons.
func NewExperts(texts []string, experts []int, ff int) *Experts {
	x := &Experts{Pairs: make([]uint64, len(Lags())), Layers: make([]ExpertLayer, len(experts))}
	for _, name := range texts {
		x.Texts = append(x.Texts, Text{Name: name})
	}
	for l, n := range experts {
		if n == 0 {
			continue
		}
		y := &x.Layers[l]
		y.Again = make([]uint64, len(Lags()))
		for range texts {
			y.Uses = append(y.Uses, make([]uint32, n))
		}
		for e := 0; e < n && ff > 0; e++ {
			y.Active = append(y.Active, make([]uint32, ff))
		}
	}
	return x
}

// Count returns the number of the layer's experts, 0 if it has none.
func (y *ExpertLayer) Count() int {
	if len(y.Uses) == 0 {
		return 0
	}
	return len(y.Uses[0])
}

// Total returns the tokens of all texts that used each expert. [expert]
func (y *ExpertLayer) Total() []uint32 {
	sum := make([]uint32, y.Count())
	for _, text := range y.Uses {
		for e, n := range text {
			sum[e] += n
		}
	}
	return sum
}

// Tokens returns the tokens of all texts.
func (x *Experts) Tokens() uint64 {
	var n uint64
	for _, t := range x.Texts {
		n += t.Tokens
	}
	return n
}

// Check reports counts that no text can have: every token of a text uses the same number of experts of a layer.
func (x *Experts) Check() error {
	if len(x.Texts) < 1 || len(x.Texts) > MostTexts {
		return fmt.Errorf("uses of experts in %d texts; they are counted in 1 to %d", len(x.Texts), MostTexts)
	}
	var tokens uint64
	for i, t := range x.Texts {
		if tokens += t.Tokens; t.Tokens > math.MaxUint32 || tokens > math.MaxUint32 {
			return fmt.Errorf("text %d: %d tokens are more than an expert's count can hold", i, t.Tokens)
		}
	}
	if len(x.Pairs) != len(Lags()) {
		return fmt.Errorf("pairs of tokens at %d distances; they are counted at %d", len(x.Pairs), len(Lags()))
	}
	for i, n := range x.Pairs {
		if n > tokens {
			return fmt.Errorf("%d pairs of tokens that lie %d apart, of %d tokens", n, Lags()[i], tokens)
		}
	}
	for l := range x.Layers {
		if err := x.checkLayer(&x.Layers[l], tokens); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return nil
}

func (x *Experts) checkLayer(y *ExpertLayer, tokens uint64) error {
	n := y.Count()
	if n == 0 {
		if len(y.Uses) > 0 || y.Again != nil || y.Active != nil {
			return fmt.Errorf("uses of no experts")
		}
		return nil
	}
	if len(y.Uses) != len(x.Texts) || len(y.Again) != len(x.Pairs) {
		return fmt.Errorf("uses in %d texts and at %d distances beside %d and %d", len(y.Uses), len(y.Again), len(x.Texts), len(x.Pairs))
	}
	var all uint64
	for i, text := range y.Uses {
		of := x.Texts[i].Tokens
		if len(text) != n {
			return fmt.Errorf("text %d: uses of %d experts beside %d", i, len(text), n)
		}
		for e, c := range text {
			if uint64(c) > of {
				return fmt.Errorf("text %d: expert %d was used by %d of %d tokens", i, e, c, of)
			}
		}
		all += total(text)
	}
	used := uint64(0)
	if tokens > 0 {
		used = all / tokens
	}
	for i, text := range y.Uses {
		if sum := total(text); sum != used*x.Texts[i].Tokens {
			return fmt.Errorf("text %d: %d uses of experts by %d tokens, which does not make %d each", i, sum, x.Texts[i].Tokens, used)
		}
	}
	for i, c := range y.Again {
		if c > used*x.Pairs[i] {
			return fmt.Errorf("%d of %d uses were repeated %d tokens later", c, used*x.Pairs[i], Lags()[i])
		}
	}
	return y.checkNeurons(n)
}

func (y *ExpertLayer) checkNeurons(n int) error {
	if y.Active == nil {
		return nil
	}
	if len(y.Active) != n {
		return fmt.Errorf("neurons of %d of %d experts", len(y.Active), n)
	}
	uses := y.Total()
	for e, counts := range y.Active {
		if len(counts) == 0 || len(counts) != len(y.Active[0]) {
			return fmt.Errorf("expert %d: %d neurons beside %d", e, len(counts), len(y.Active[0]))
		}
		for i, c := range counts {
			if c > uses[e] {
				return fmt.Errorf("expert %d: neuron %d was active for %d of the %d tokens that used the expert", e, i, c, uses[e])
			}
		}
	}
	return nil
}

// Prior returns the share of tokens that used each expert of a layer, as an estimate for other tokens. [expert], 0…1;
// nil if the layer has no experts or no token was counted
func (x *Experts) Prior(layer int) []float64 {
	tokens := x.Tokens()
	if x.Layers[layer].Count() == 0 || tokens == 0 {
		return nil
	}
	sum := x.Layers[layer].Total()
	share := make([]float64, len(sum))
	for e, n := range sum {
		share[e] = float64(n) / float64(tokens)
	}
	return share
}

// Order returns the layer's experts hottest first; [i] is the one to be stored i-th. Equally hot experts keep their
// order. If groups is above 1, experts are in that many groups of neighbours: whole groups are sorted by the sum of
// their uses, and each group's experts within it.
func (y *ExpertLayer) Order(groups int) []int32 {
	uses := y.Total()
	n := len(uses)
	groups = max(1, groups)
	size := n / groups
	type group struct {
		first int
		sum   uint64
	}
	var all []group
	for g := range groups {
		all = append(all, group{g * size, total(uses[g*size : (g+1)*size])})
	}
	slices.SortStableFunc(all, func(a, b group) int { return cmp.Compare(b.sum, a.sum) })
	order := make([]int32, 0, n)
	for _, g := range all {
		order = append(order, hottest(uses[g.first:g.first+size], g.first)...)
	}
	return order
}

// Neurons returns the order of an expert's neurons, hottest first; nil if they were not counted.
func (y *ExpertLayer) Neurons(expert int) []int32 {
	if y.Active == nil {
		return nil
	}
	return hottest(y.Active[expert], 0)
}

// hottest returns the places of counts, the highest first, counted from first.
func hottest(counts []uint32, first int) []int32 {
	order := make([]int32, len(counts))
	for i := range order {
		order[i] = int32(first + i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(counts[int(b)-first], counts[int(a)-first]) })
	return order
}

// Ordered reports whether the layer's experts are stored hottest first, as far as groups allow it.
func (y *ExpertLayer) Ordered(groups int) bool {
	for at, from := range y.Order(groups) {
		if int(from) != at {
			return false
		}
	}
	return true
}

// ExpertOrder says how a layer's experts are stored.
type ExpertOrder struct {
	Experts []int32   // [i] is the expert stored i-th; nil: the order does not change
	Neurons [][]int32 // [expert][i] is the neuron stored i-th in the expert, numbered as before the experts were moved; nil: all stay
}

// Permute returns y in the order o, which must be one of y's experts.
func (y *ExpertLayer) Permute(o ExpertOrder) ExpertLayer {
	if y.Count() == 0 {
		return ExpertLayer{}
	}
	experts := o.Experts
	if experts == nil {
		experts = hottest(make([]uint32, y.Count()), 0)
	}
	p := ExpertLayer{Again: y.Again}
	for _, text := range y.Uses {
		p.Uses = append(p.Uses, apply(experts, text))
	}
	for _, e := range experts {
		switch {
		case y.Active == nil:
		case o.Neurons == nil:
			p.Active = append(p.Active, y.Active[e])
		default:
			p.Active = append(p.Active, apply(o.Neurons[e], y.Active[e]))
		}
	}
	return p
}
