package engine

import "time"

// Stats say what an engine has computed since it was opened, and how full its KV cache is.
type Stats struct {
	Steps     int64         // steps of the model
	Time      time.Duration // that they took
	Sequences int64         // sequences that took part, summed over the steps
	Decoded   int64         // tokens evaluated one by one for running sequences
	Read      int64         // tokens of prompts evaluated
	Drafted   int64         // draft tokens that were evaluated
	Accepted  int64         // draft tokens that were right
	Evicted   int64         // sequences that lost their pages to others, to be evaluated again

	Pages         int // pages of the KV cache
	PagesHeld     int // pages that sequences hold
	PagesKept     int // pages without a sequence, kept for prompts with the same beginning
	PagePositions int // tokens of a page
}

// counts are the parts of Stats that only grow. The scheduler's lock guards them.
type counts struct {
	steps, sequences, decoded, read, drafted, accepted, evicted int64
	time                                                        time.Duration
}

// Stats returns the engine's statistics. It does not wait for the step that runs.
func (e *Engine) Stats() Stats {
	s := e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	c, kv := &s.counts, s.kv
	return Stats{
		Steps: c.steps, Time: c.time, Sequences: c.sequences, Decoded: c.decoded, Read: c.read, Drafted: c.drafted, Accepted: c.accepted, Evicted: c.evicted,
		Pages: kv.Pages, PagesHeld: kv.Held(), PagesKept: kv.Kept(), PagePositions: kv.Positions,
	}
}

// count counts a step that succeeded, with decoded single tokens and drafts draft tokens.
func (s *scheduler) count(decoded, drafts int) {
	c := &s.counts
	c.steps++
	c.time += s.last + s.guessed + s.keeping
	c.sequences += int64(len(s.step))
	c.decoded += int64(decoded)
	c.read += int64(len(s.params.Tokens) - decoded - drafts)
}
