package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// A use is the experts of one layer that one token uses.
type use []int32

// trace is what a text used: [tokens][layers].
type trace [][]use

// habits say how a synthetic text uses experts.
type habits struct {
	Name   string
	Zipf   float64 // exponent of the experts' frequencies by rank
	Drift  float64 // share of an expert's logarithmic frequency that is the topic's own, 0 to 1
	Topic  int     // tokens of a topic, on average; 0: there is one
	Sticky float64 // logarithm of the factor by which an expert is likelier if the token before used it
}

// synthesize writes a trace. Experts of a token are drawn without replacement, each with its frequency (the largest
// sums of logarithm and Gumbel noise).
func (h habits) synthesize(layers, experts, used, tokens int, seed uint64) trace {
	r := rand.New(rand.NewPCG(seed, 0x7261636b))
	base, topic := make([][]float64, layers), make([][]float64, layers)
	habit := rand.New(rand.NewPCG(1, 2)) // the model's own, the same for every text
	for l := range base {
		base[l] = h.ranks(habit, experts)
	}
	change := func() {
		for l := range topic {
			topic[l] = h.ranks(r, experts)
		}
	}
	change()
	t := make(trace, tokens)
	key := make([]float64, experts)
	for i := range t {
		if h.Topic > 0 && i > 0 && r.IntN(h.Topic) == 0 {
			change()
		}
		t[i] = make([]use, layers)
		for l := range t[i] {
			for e := range key {
				key[e] = (1-h.Drift)*base[l][e] + h.Drift*topic[l][e] - math.Log(-math.Log(r.Float64()))
			}
			if i > 0 {
				for _, e := range t[i-1][l] {
					key[e] += h.Sticky
				}
			}
			t[i][l] = largest(key, used)
		}
	}
	return t
}

// ranks returns logarithms of frequencies by a power law in random order.
func (h habits) ranks(r *rand.Rand, experts int) []float64 {
	w := make([]float64, experts)
	for i, e := range r.Perm(experts) {
		w[e] = -h.Zipf * math.Log(float64(i+1))
	}
	return w
}

// largest returns the indices of the n largest keys.
func largest(key []float64, n int) use {
	all := make(use, len(key))
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortFunc(all, func(a, b int32) int {
		if key[a] != key[b] {
			if key[a] > key[b] {
				return -1
			}
			return 1
		}
		return int(a - b)
	})
	return slices.Clone(all[:n])
}

// read reads a recorded trace: a line for each token, a JSON array of its layers' arrays of experts.
func read(r io.Reader, experts int) (trace, error) {
	var t trace
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var layers []use
		if err := json.Unmarshal(lines.Bytes(), &layers); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(t)+1, err)
		}
		if len(t) > 0 && len(layers) != len(t[0]) {
			return nil, fmt.Errorf("line %d has %d layers, the first one %d", len(t)+1, len(layers), len(t[0]))
		}
		for l, u := range layers {
			for _, e := range u {
				if e < 0 || int(e) >= experts {
					return nil, fmt.Errorf("line %d, layer %d: expert %d of %d", len(t)+1, l, e, experts)
				}
			}
		}
		t = append(t, layers)
	}
	return t, lines.Err()
}

// frequencies returns the share of tokens that use each expert of a layer.
func (t trace) frequencies(layer, experts int) []float64 {
	f := make([]float64, experts)
	for i := range t {
		for _, e := range t[i][layer] {
			f[e] += 1 / float64(len(t))
		}
	}
	return f
}

// properties are what studies publish of such traces, as means over layers.
type properties struct {
	top     float64 // share of uses by the tenth of the experts that is used most over all
	lru     float64 // share of uses that an LRU cache of a quarter of the experts holds
	entropy float64 // entropy of uses, in bits; for uniform uses it is log2(experts)
	again   float64 // share of a token's experts that the next token uses, too
}

func (t trace) properties(experts int) (p properties) {
	layers := float64(len(t[0]))
	for l := range t[0] {
		f := t.frequencies(l, experts)
		total := 0.0
		for _, v := range f {
			total += v
		}
		for _, v := range f {
			if v > 0 {
				p.entropy -= v / total * math.Log2(v/total) / layers
			}
		}
		slices.SortFunc(f, func(a, b float64) int { return -compare(a, b) })
		for _, v := range f[:(experts+5)/10] {
			p.top += v / total / layers
		}
		p.lru += t.lruHits(l, experts/4) / layers
		p.again += t.repeats(l) / layers
	}
	return p
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// lruHits returns the share of a layer's uses that hit an LRU cache of size experts.
func (t trace) lruHits(layer, size int) float64 {
	last := map[int32]int{}
	hits, uses := 0, 0
	for i := range t {
		for _, e := range t[i][layer] {
			uses++
			if _, ok := last[e]; ok {
				hits++
			}
		}
		for _, e := range t[i][layer] {
			last[e] = i
		}
		for len(last) > size {
			oldest, at := int32(0), math.MaxInt
			for e, i := range last {
				if i < at || i == at && e < oldest {
					oldest, at = e, i
				}
			}
			delete(last, oldest)
		}
	}
	return float64(hits) / float64(uses)
}

func (t trace) repeats(layer int) float64 {
	same, uses := 0, 0
	for i := 1; i < len(t); i++ {
		for _, e := range t[i][layer] {
			uses++
			if slices.Contains(t[i-1][layer], e) {
				same++
			}
		}
	}
	return float64(same) / float64(max(uses, 1))
}
