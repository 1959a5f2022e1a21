package engine

import (
	"math"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/speculate"
)

// Draft tokens by the model's own hot neurons. Before the step that evaluates a text's last token, steps of one token
// each compute attention and only the neurons that the predictors choose or that are on GPUs. They read the keys and
// values of the text, and store their own after the sequence's end. The step that checks the draft tokens begins at the
// same position and overwrites all of these.

// HotDrafts says whether a model's own hot neurons draft tokens.
type HotDrafts int

// The settings. HotAuto drafts if checking draft tokens may take much less time than computing tokens one by one: if
// GPUs hold some neurons of a layer, and the processor, which drafting steps do not use, computes all other active
// ones.
const (
	HotAuto HotDrafts = iota
	HotAlways
	HotNever
)

// hotDrafts reports whether hot neurons may draft tokens, for a model with a plan for GPUs or without.
func (o *Options) hotDrafts(gpus bool) bool {
	return o.Drafts.Most > 0 && (o.Drafts.Hot == HotAlways || o.Drafts.Hot == HotAuto && gpus)
}

// hotDrafts holds what an engine learns of such draft tokens.
type hotDrafts struct {
	can     atomic.Bool // the loaded model can draft tokens
	chances speculate.Chances
	budget  speculate.Budget
}

// usualGuess is the time of a drafting step as a share of a step of one token, before it is measured.
const usualGuess = 0.6

// wish returns the number of draft tokens, at most most, that is worth making and checking. guess returns the time of a
// drafting step as a share of a step of the given nanoseconds. atOnce: one step makes all of the tokens.
func (h *hotDrafts) wish(most int, cost func(most int) speculate.Cost, guess func(step float64) float64, atOnce bool) int {
	if most < 1 || !h.can.Load() {
		return 0
	}
	c := cost(most)
	if atOnce {
		c.Once += guess(c.Step)
	} else {
		c.Each += guess(c.Step)
	}
	return h.chances.Worth(ofModel, most, h.budget.Within(c))
}

// guessTime returns the time of a drafting step for one text as a share of step, in nanoseconds. step is 0 if it is not
// known.
func (s *scheduler) guessTime(step float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case step == 0:
		return usualGuess
	case s.guessing.step == 0:
		return usualGuess * s.costs.time(1) / step
	}
	return s.guessing.time(s.guessRows()) / step
}

// guessRows returns the number of rows of a text in a drafting step.
func (s *scheduler) guessRows() int {
	if s.further == nil {
		return 1
	}
	return max(1, s.further.Block)
}

// guess drafts tokens for the parts of the step that wish for some, unless prompts wait for the step.
func (s *scheduler) guess() error {
	s.guessed = 0
	for i := range s.step {
		if c := &s.step[i]; c.drafts > len(c.t.draft.labels) && !s.onlyDecodes() {
			c.drafts = len(c.t.draft.labels)
		}
	}
	for at := 0; s.fillGuess(at); at++ {
		begin := s.now()
		s.mu.Unlock()
		err := s.runner.run(&s.params, s.wanted)
		s.mu.Lock()
		took := s.now() - begin
		s.guessed += took
		if err != nil {
			return err
		}
		s.guessing.observe(len(s.params.Tokens), took)
		s.takeGuesses()
	}
	for i := range s.step {
		if c := &s.step[i]; c.drafts < c.t.draft.fewest {
			c.drafts = 0
		}
	}
	return nil
}

// onlyDecodes reports whether all parts of the step are single tokens.
func (s *scheduler) onlyDecodes() bool {
	n, _ := s.decoding()
	return n == len(s.step)
}

// fillGuess writes the params of the step that makes draft token number at, counted from 0, of each text. It reports
// whether there are any to make.
func (s *scheduler) fillGuess(at int) bool {
	p := &s.params
	p.Tokens, p.Pos, p.Seq, p.Out, p.Pages, p.Near, p.States = p.Tokens[:0], p.Pos[:0], p.Seq[:0], p.Out[:0], p.Pages[:0], p.Near[:0], p.States[:0]
	p.Depth = at
	p.Draft, p.Everything, p.Scales, p.Turns, p.Types, p.Uses = true, false, nil, nil, nil, p.Uses[:0]
	p.Given, p.Axes, p.Behind, p.Bounds = nil, nil, nil, nil // texts with pictures have no such drafts
	s.wanted.begin()
	p.Before = p.Before[:0]
	block := s.further != nil && s.further.Block > 0
	for i := range s.step {
		c := &s.step[i]
		p.Pages = append(p.Pages, c.t.kv.Pages())
		if near := c.t.kv.Near(); near != nil {
			p.Near = append(p.Near, near)
		}
		pos := c.t.kv.Len() + at
		if s.carries() {
			state := c.t.states.own
			if at == 0 {
				state = c.t.states.before(pos)
			}
			p.Before = append(p.Before, state)
			if state == nil {
				c.drafts = len(c.t.draft.labels)
			}
		}
		if c.drafts <= at || len(c.t.draft.labels) != at {
			continue
		}
		if block {
			s.fillBlock(i, pos)
			continue
		}
		if s.carries() {
			s.wanted.states = append(s.wanted.states, int32(len(p.Tokens)))
		}
		place := pos
		if s.further != nil && s.further.Still {
			place = c.t.kv.Len()
		}
		p.Out = append(p.Out, int32(len(p.Tokens)))
		p.Tokens, p.Pos, p.Seq = append(p.Tokens, c.t.label(pos).Token()), append(p.Pos, int32(place)), append(p.Seq, int32(i))
	}
	p.Decode = len(p.Tokens)
	return p.Decode > 0
}

// fillBlock writes the rows by which a draft program makes all drafts of part i at once, unless the step is full.
func (s *scheduler) fillBlock(i, pos int) {
	c, p := &s.step[i], &s.params
	if len(p.Tokens)+s.further.Block > s.rows {
		c.drafts = 0
		return
	}
	for row := range s.further.Block {
		id := s.further.Mask
		if row == 0 {
			id = c.t.label(pos).Token()
		} else if row <= c.drafts {
			p.Out = append(p.Out, int32(len(p.Tokens)))
		}
		p.Tokens, p.Pos, p.Seq = append(p.Tokens, id), append(p.Pos, int32(pos+row)), append(p.Seq, int32(i))
	}
}

// takeGuesses gives the likeliest tokens of a drafting step to its tasks. It ends a task's draft if none is likely.
func (s *scheduler) takeGuesses() {
	for out, row := range s.params.Out {
		c := &s.step[s.params.Seq[row]]
		if len(c.t.draft.labels) == c.drafts { // in a block, tokens after an unlikely one
			continue
		}
		id, likely := surest(s.runner.logits(out), c.t.draft.least)
		if !likely {
			c.drafts = len(c.t.draft.labels)
			continue
		}
		if s.drafted != nil {
			id = s.drafted(id)
		}
		c.t.draft.labels = append(c.t.draft.labels, kvcache.LabelOf(id, true))
		if s.carries() {
			c.t.states.own = append(c.t.states.own[:0], s.runner.state(out)...)
		}
	}
}

// surest returns the likeliest token, and whether its probability is at least least.
func surest(logits []float32, least float32) (id int32, likely bool) {
	for i, v := range logits {
		if v > logits[id] {
			id = int32(i)
		}
	}
	if least <= 0 {
		return id, true
	}
	sum, most := 0.0, 1/float64(least)
	for _, v := range logits {
		if d := float64(v) - float64(logits[id]); d > -20 { // others add nothing that counts
			sum += math.Exp(d)
		}
	}
	return id, sum <= most // NaN is not
}

// settlement is the cost of a step of single tokens for one text.
type settlement struct {
	token float64 // nanoseconds of one of its tokens without drafts; 0: not known
	extra float64 // additional nanoseconds for its drafts, or for evaluating again the tokens before a wrong one
}

// extra returns how many tokens a decoding part has in addition to its next one: draft tokens, counted as one if they
// were made and none was likely, and tokens that are evaluated again after a wrong draft token.
func (c *part) extra() int {
	if c.drafts == 0 && c.t.draft.wish > 0 {
		return 1
	}
	return c.drafts + c.n - 1
}

// settle charges the tasks of a step of n single tokens with its cost. Each task bears what was done for it alone,
// and a share of the additional tokens' time in proportion to its additional tokens.
func (s *scheduler) settle(n int) {
	all, made, copies := 0, 0, 0
	for i := range s.step {
		c := &s.step[i]
		all += c.extra()
		if c.t.draft.wish > 0 {
			made += c.extra()
		}
		if c.drafts > 0 {
			copies++
		}
	}
	known := n == len(s.step) && n > 0 && s.costs.step > 0
	for i := range s.step {
		c := &s.step[i]
		c.t.draft.settled = settlement{}
		if !known {
			continue
		}
		plain := s.costs.time(n)
		c.t.draft.settled.token = plain / float64(n)
		own := float64(c.extra())
		if own > 0 {
			c.t.draft.settled.extra = (float64(s.last) - plain) * own / float64(all)
		}
		if c.t.draft.wish > 0 {
			c.t.draft.settled.extra += float64(s.guessed) * own / float64(made)
		}
		if c.drafts > 0 { // none was copied for parts that evaluate tokens again
			c.t.draft.settled.extra += float64(s.keeping) / float64(copies)
		}
	}
}
