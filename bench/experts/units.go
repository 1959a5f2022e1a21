package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A unit is read from disk as a whole: an expert, or a neuron. Units of all layers are numbered consecutively.

// touch records that some tokens of a step use a unit.
type touch struct {
	unit   int32
	tokens int32
}

// work is a step of the engine: one token of each of some sequences, or a chunk of a prompt.
type work struct {
	tokens int
	prompt bool
	layers [][]touch
}

// story records the steps of a model and the units that each used.
type story struct {
	name   string
	units  int // units of all layers
	layers int
	steps  []work
	first  []int32 // what the cache holds before
	after  int     // steps before the counted ones
}

// asWork joins some tokens of a trace into a step.
func asWork(tokens trace, units int, prompt bool) work {
	w := work{tokens: len(tokens), prompt: prompt, layers: make([][]touch, len(tokens[0]))}
	counts := make([]int32, units)
	for l := range w.layers {
		clear(counts)
		for i := range tokens {
			for _, u := range tokens[i][l] {
				counts[u]++
			}
		}
		for u, n := range counts {
			if n > 0 {
				w.layers[l] = append(w.layers[l], touch{int32(l*units + u), n})
			}
		}
	}
	return w
}

// Prompts between answers, in tokens.
const (
	promptTokens = 512
	answerTokens = 200
)

// storyOf returns the work of one sequence: an answer as long as the text or, with prompts, some answers, each after a
// prompt of the tokens before it.
func storyOf(name string, t trace, units int, prompts bool) story {
	s := story{name: name, units: units * len(t[0]), layers: len(t[0])}
	for i := 0; i < len(t); {
		if prompts && len(t)-i > promptTokens {
			s.steps = append(s.steps, asWork(t[i:][:promptTokens], units, true))
			i += promptTokens
		}
		for range answerTokens {
			if i < len(t) {
				s.steps = append(s.steps, asWork(t[i:i+1], units, false))
				i++
			}
		}
	}
	s.after = len(s.steps) / 4
	return s
}

// together returns the work of several concurrent sequences.
func together(name string, texts []trace, units int) story {
	s := story{name: name, units: units * len(texts[0][0]), layers: len(texts[0][0])}
	for i := range texts[0] {
		var tokens trace
		for _, t := range texts {
			tokens = append(tokens, t[i])
		}
		s.steps = append(s.steps, asWork(tokens, units, false))
	}
	s.after = len(s.steps) / 4
	return s
}

// Neurons have the habits of experts, but each is active independently. Sticky is the correlation of a neuron with
// itself from one token to the next.
type neuronHabits struct {
	habits
	Active float64 // share of a layer's neurons that a token activates, on average
}

// synthesize writes a trace of neurons.
func (h neuronHabits) synthesize(layers, neurons, tokens int, seed uint64) trace {
	r := rand.New(rand.NewPCG(seed, 0x6e6575))
	habit := rand.New(rand.NewPCG(1, 2))
	base, share := make([][]float64, layers), make([][]float64, layers)
	for l := range base {
		base[l] = h.ranks(habit, neurons)
	}
	change := func() {
		for l := range share {
			topic := h.ranks(r, neurons)
			for e := range topic {
				topic[e] = (1-h.Drift)*base[l][e] + h.Drift*topic[e]
			}
			share[l] = active(topic, h.Active)
		}
	}
	change()
	was := make([][]bool, layers)
	for l := range was {
		was[l] = make([]bool, neurons)
	}
	t := make(trace, tokens)
	for i := range t {
		if h.Topic > 0 && i > 0 && r.IntN(h.Topic) == 0 {
			change()
		}
		t[i] = make([]use, layers)
		for l := range t[i] {
			for e, p := range share[l] {
				p *= 1 - h.Sticky
				if was[l][e] {
					p += h.Sticky
				}
				if was[l][e] = r.Float64() < p; was[l][e] {
					t[i][l] = append(t[i][l], int32(e))
				}
			}
		}
	}
	return t
}

// active returns shares of tokens in proportion to the exponentials of logs, at most 1 each, with this average.
func active(logs []float64, average float64) []float64 {
	top := slices.Max(logs)
	shares := make([]float64, len(logs))
	low, high := 0.0, 1e12
	for range 100 {
		scale, sum := math.Sqrt((low+1e-12)*high), 0.0
		for e, v := range logs {
			shares[e] = min(scale*math.Exp(v-top), 1)
			sum += shares[e]
		}
		if sum > average*float64(len(logs)) {
			high = scale
		} else {
			low = scale
		}
	}
	return shares
}
