// Package sample turns logits into a token: llama.cpp's chain of stages, in any order, after the logit bias, and a
// draw.
package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
)

var negInf = float32(math.Inf(-1))

// Sampler draws tokens for one sequence. It is not safe for concurrent use; Clone gives another sequence its own.
type Sampler struct {
	options Options
	chain   []Stage // the stages that are not off; never written
	choice  choice
	nVocab  int
	biases  []bias // options.LogitBias, shared by clones, never written
	seed    uint64 // what rng began with
	rng     rand.PCG

	breakers *Breakers // DRY's; nil: none
	history  history   // as long as penalties and DRY need it
	unbroken int       // tokens accepted since the last breaker
	tail     []byte    // end of the accepted text, in which a breaker may begin
	feedback feedback

	constraint Constraint // nil: everything may come
	err        error      // the constraint's

	// Scratch, empty or zero between calls.
	logits  []float32 // [n_vocab] that may be written; nil where nothing changes any
	counts  []int32   // [n_vocab] of tokens in the history; nil without penalties and DRY
	repeats []int32   // [at most DRYLastN]
	room    []candidate
	pool    pool // in room
}

type bias struct {
	id    int32
	value float32
}

// New returns a sampler over nVocab tokens, or an error that names the option out of range.
func New(o Options, nVocab int) (*Sampler, error) {
	if err := o.Check(nVocab); err != nil {
		return nil, err
	}
	given, err := o.chain()
	if err != nil {
		return nil, err
	}
	s := &Sampler{options: o, nVocab: nVocab}
	for id, v := range o.LogitBias {
		s.biases = append(s.biases, bias{id, v})
	}
	s.chain, s.choice = o.plan(given)
	s.options.LogitBias, s.options.Samplers, s.options.DRY.Breakers = nil, nil, nil // the caller's may change
	last := 0
	for _, g := range s.chain {
		switch g {
		case Penalties:
			last = max(last, o.RepeatLastN)
		case DRYStage:
			last = max(last, o.DRY.LastN)
		}
	}
	s.history = newHistory(last)
	s.allocate()
	s.Reset()
	return s, nil
}

// allocate makes the scratch.
func (s *Sampler) allocate() {
	if s.history.last > 0 {
		s.counts = make([]int32, s.nVocab)
	}
	if len(s.biases) > 0 || s.history.last > 0 || s.constraint != nil {
		s.logits = make([]float32, s.nVocab)
	}
	if b := s.breakers; b != nil {
		s.tail = append(b.newTail(), s.tail...)
	}
	s.room = make([]candidate, 0, s.mostCandidates())
}

// mostCandidates returns how many there may be at a time.
func (s *Sampler) mostCandidates() int {
	for _, g := range s.chain {
		switch {
		case g == Penalties, g == DRYStage, g == Temperature && s.options.DynamicRange <= 0:
			continue // they work on logits
		case g == TopK:
			return min(s.options.TopK, s.nVocab)
		}
		return s.nVocab
	}
	if s.choice == takesBest {
		return 0
	}
	return s.nVocab
}

// Seed returns the seed in use, also where Options asked for a random one.
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
	s.unbroken, s.tail = 0, s.tail[:0]
	s.resetFeedback()
}

// Clone returns a sampler that will continue exactly as s would, and shares nothing with it that either changes. s
// cannot copy its constraint, so the caller passes the clone's: mostly a copy, as grammar.State.Clone makes it; nil if
// s has none.
func (s *Sampler) Clone(constraint Constraint) *Sampler {
	c := *s
	c.history = s.history.clone()
	c.logits, c.counts, c.repeats, c.room, c.pool = nil, nil, nil, nil, pool{}
	c.constraint, c.err = constraint, nil
	c.allocate()
	return &c
}

// Accept passes a token of the prompt or of the text to the chain and the constraint. It ignores ids outside the
// vocabulary.
func (s *Sampler) Accept(id int32) {
	if id >= 0 && int(id) < s.nVocab {
		s.history.add(id)
		s.unbroken++
		if b := s.breakers; b != nil {
			var broken bool
			if s.tail, broken = b.follow(s.tail, id); broken {
				s.unbroken = 0
			}
		}
		s.learn(id)
	}
	if s.constraint != nil && s.err == nil {
		s.err = s.constraint.Accept(id)
	}
}

// Sample returns the next token for logits [n_vocab], which it leaves as they are. It does not accept the token. NaN
// counts as -Inf; among equal logits the lowest id is the better one, so that it returns 0 where every token is banned.
// Unless it takes the highest logit, each call takes one number from PCG-DXSM (math/rand/v2), and one more for XTCStage, so
// that seed, options and logits determine the text.
func (s *Sampler) Sample(logits []float32) int32 {
	if len(logits) != s.nVocab {
		panic(fmt.Sprintf("sample: %d logits for a vocabulary of %d", len(logits), s.nVocab))
	}
	s.narrow(logits)
	return s.choose()
}

// narrow fills the pool with the tokens that the chain leaves of logits [n_vocab].
func (s *Sampler) narrow(logits []float32) {
	s.pool = pool{logits: s.adjust(logits), c: s.room, temperature: 1}
	for _, g := range s.chain {
		s.apply(g)
	}
}

// adjust returns logits with bias and constraint applied, in scratch; the same slice where nothing changes any.
func (s *Sampler) adjust(logits []float32) []float32 {
	if s.logits == nil {
		return logits
	}
	copy(s.logits, logits)
	for _, b := range s.biases {
		s.logits[b.id] += b.value
	}
	if s.constraint != nil && s.err == nil {
		s.err = s.constraint.Apply(s.logits)
	}
	return s.logits
}

// apply applies a stage to the pool.
func (s *Sampler) apply(g Stage) {
	p, o := &s.pool, &s.options
	switch g {
	case Penalties:
		s.penalise()
	case DRYStage:
		s.dry()
	case TopNSigma:
		p.cutSigma(o.TopNSigma)
	case TopK:
		p.cutTopK(o.TopK)
	case Typical:
		p.cutTypical(o.TypicalP, o.MinKeep)
	case TopP:
		p.cutTopP(o.TopP, o.MinKeep)
	case MinP:
		p.cutMinP(o.MinP, o.MinKeep)
	case XTCStage:
		if s.uniform() < float64(o.XTC.Probability) {
			p.excludeTop(o.XTC.Threshold, o.MinKeep)
		}
	case Temperature:
		p.heat(o)
	}
}
