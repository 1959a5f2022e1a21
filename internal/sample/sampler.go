// Package sample turns logits into a token: llama.cpp's default chain of penalties, top-k, top-p, min-p, temperature and a
// draw, after the logit bias.
package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

var negInf = float32(math.Inf(-1))

// Sampler draws tokens for one sequence. It is not safe for concurrent use; Clone gives another sequence its own.
type Sampler struct {
	options Options
	nVocab  int
	biases  []bias // options.LogitBias, shared by clones, never written
	history history
	seed    uint64 // what rng began with
	rng     rand.PCG

	// Scratch, empty or zero between calls.
	logits     []float32 // [n_vocab] with bias and penalties applied; nil where neither can change anything
	counts     []int32   // [n_vocab] times a token is in the history; nil without penalties
	candidates []candidate
}

type bias struct {
	id    int32
	value float32
}

// New returns a sampler over nVocab tokens, or an error that names the option out of range.
func New(o Options, nVocab int) (*Sampler, error) {
	if err := o.validate(nVocab); err != nil {
		return nil, err
	}
	s := &Sampler{options: o, nVocab: nVocab}
	for id, v := range o.LogitBias {
		s.biases = append(s.biases, bias{id, v})
	}
	s.options.LogitBias = nil // the caller's map may change
	s.history = newHistory(0)
	if o.penalises() {
		s.history = newHistory(o.RepeatLastN)
	}
	s.allocate()
	s.Reset()
	return s, nil
}

func (s *Sampler) allocate() {
	k := s.options.TopK
	if k <= 0 || k > s.nVocab {
		k = s.nVocab
	}
	if s.options.Temperature > 0 {
		s.candidates = make([]candidate, 0, k)
	}
	if s.options.penalises() {
		s.counts = make([]int32, s.nVocab)
	}
	if len(s.biases) > 0 || s.options.penalises() {
		s.logits = make([]float32, s.nVocab)
	}
}

// Seed is the seed in use, also where Options asked for a random one.
func (s *Sampler) Seed() uint64 { return s.seed }

// Reset forgets the accepted tokens and starts the random numbers again: from the same seed, or from a new one where
// Options asked for a random one.
func (s *Sampler) Reset() {
	s.history.reset()
	s.seed = s.options.Seed
	if s.seed == RandomSeed {
		s.seed = rand.Uint64()
	}
	// PCG takes 128 bits: the seed, and the golden ratio's first 64 bits so that small seeds are not near zero.
	s.rng.Seed(s.seed, 0x9E3779B97F4A7C15)
}

// Clone returns a sampler that will go on exactly as s would, and shares nothing with it that either changes.
func (s *Sampler) Clone() *Sampler {
	c := *s
	c.history = s.history.clone()
	c.logits, c.counts, c.candidates = nil, nil, nil
	c.allocate()
	return &c
}

// Accept tells the penalties that the sequence goes on with token id, be it sampled or of the prompt. Ids outside the
// vocabulary count for nothing.
func (s *Sampler) Accept(id int32) {
	if id >= 0 && int(id) < s.nVocab {
		s.history.add(id)
	}
}

// Sample returns the next token for logits [n_vocab], which it leaves as they are. It does not accept the token. NaN counts
// as -Inf; among equal logits the lowest id is the better one, so that it returns 0 where every token is banned. At a
// temperature above 0 each call takes one number from PCG-DXSM (math/rand/v2), so that seed, options and logits determine
// the text.
func (s *Sampler) Sample(logits []float32) int32 {
	if len(logits) != s.nVocab {
		panic(fmt.Sprintf("sample: %d logits for a vocabulary of %d", len(logits), s.nVocab))
	}
	logits = s.adjust(logits)
	o := &s.options
	if o.Temperature <= 0 {
		return argmax(logits)
	}
	r := float64(s.rng.Uint64()>>11) / (1 << 53) // uniform in [0, 1), every bit of a float64's 53
	c := topK(s.candidates[:0], logits, o.TopK)
	highest := c[0].logit
	for i := range c {
		highest = max(highest, c[i].logit)
	}
	if highest == negInf {
		return 0
	}
	if o.TopP < 1 {
		c = topP(c, highest, o.TopP)
	}
	if o.MinP > 0 {
		c = minP(c, highest, o.MinP)
	}
	return draw(c, r*weigh(c, highest, o.Temperature))
}

// adjust returns logits with bias and penalties applied: the same slice where nothing changes, otherwise scratch.
func (s *Sampler) adjust(logits []float32) []float32 {
	if len(s.biases) == 0 && len(s.history.ids) == 0 {
		return logits
	}
	copy(s.logits, logits)
	for _, b := range s.biases {
		s.logits[b.id] += b.value
	}
	s.penalise()
	return s.logits
}

// penalise applies the repetition penalty (Keskar et al., arXiv:1909.05858), then presence and frequency, to each distinct
// token of the history.
func (s *Sampler) penalise() {
	for _, id := range s.history.ids {
		s.counts[id]++
	}
	for _, id := range s.history.ids {
		n := s.counts[id]
		if n == 0 {
			continue // done at an earlier occurrence
		}
		s.counts[id] = 0
		l := s.logits[id]
		if l > 0 {
			l /= s.options.RepeatPenalty
		} else {
			l *= s.options.RepeatPenalty
		}
		frequency := float32(float32(n) * s.options.FrequencyPenalty) // the conversion forbids fusing, which amd64 lacks
		s.logits[id] = l - frequency - s.options.PresencePenalty
	}
}

// argmax returns the lowest id of the highest logit; NaN is never higher.
func argmax(logits []float32) int32 {
	best, highest := 0, negInf
	for id, l := range logits {
		if l > highest {
			best, highest = id, l
		}
	}
	return int32(best)
}

// draw returns the candidate at target along the cumulative weights, target in [0, sum of weights].
func draw(c []candidate, target float64) int32 {
	var sum float64
	for i := range c {
		if sum += c[i].weight; target < sum {
			return c[i].id
		}
	}
	// Rounding took target to the sum itself: the best candidate is never of weight zero.
	return slices.MaxFunc(c, func(a, b candidate) int {
		if better(&a, &b) {
			return 1
		}
		return -1
	}).id
}
