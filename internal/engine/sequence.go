package engine

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Sequence is a run of tokens whose keys and values lie in the cache. It belongs
// to its engine and is used under the engine's lock.
type Sequence struct {
	e      *Engine
	tokens []int32 // evaluated, in order; position i is tokens[i]
	pages  []int32 // page i holds positions [64i, 64i+64)
	pool   *pages  // that pages are of; no longer the engine's where a card was given up, and with it what they held
}

// ErrContextFull is the cause of an evaluation that ran out of context or KV pages.
type ErrContextFull struct{ Context int }

func (e *ErrContextFull) Error() string {
	return fmt.Sprintf("the context of %d tokens is full; raise it with -c", e.Context)
}

// Len is the number of tokens evaluated.
func (s *Sequence) Len() int { return len(s.tokens) }

// reserve makes room for n more tokens, evicting idle prefixes when pages run short.
func (s *Sequence) reserve(n int) error {
	need := len(s.tokens) + n
	if need > s.e.context {
		return &ErrContextFull{s.e.context}
	}
	if err := s.ownLast(); err != nil {
		return err
	}
	for len(s.pages)*compute.PagePositions < need {
		id, err := s.e.takePage()
		if err != nil {
			return err
		}
		s.pages = append(s.pages, id)
	}
	return nil
}

// ownLast copies a shared page that is about to be written.
func (s *Sequence) ownLast() error {
	at := len(s.tokens) / compute.PagePositions
	if at >= len(s.pages) || s.pool.refs[s.pages[at]] == 1 {
		return nil
	}
	id, err := s.e.takePage()
	if err != nil {
		return err
	}
	s.e.model.CopyPage(id, s.pages[at])
	s.pool.release(s.pages[at : at+1])
	s.pages[at] = id
	return nil
}

// fork is a new sequence that shares s's first n positions.
func (s *Sequence) fork(n int) *Sequence {
	whole := (n + compute.PagePositions - 1) / compute.PagePositions
	f := &Sequence{e: s.e, pool: s.pool, tokens: append([]int32(nil), s.tokens[:n]...), pages: append([]int32(nil), s.pages[:whole]...)}
	for _, id := range f.pages {
		s.pool.share(id)
	}
	return f
}

// Truncate forgets all but the first n tokens.
func (s *Sequence) Truncate(n int) {
	s.tokens = s.tokens[:n]
	whole := (n + compute.PagePositions - 1) / compute.PagePositions
	s.pool.release(s.pages[whole:])
	s.pages = s.pages[:whole]
}

// commonPrefix is the number of leading tokens that s and prompt share.
func (s *Sequence) commonPrefix(prompt []int32) int {
	n := min(len(s.tokens), len(prompt))
	for i := range n {
		if s.tokens[i] != prompt[i] {
			return i
		}
	}
	return n
}
