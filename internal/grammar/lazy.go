package grammar

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// Triggers say where a lazy grammar begins. Words may contain the texts of tokens that stand for no bytes.
type Triggers struct {
	// The grammar begins at the first occurrence of one of Words; the word is part of the grammar's text.
	Words []string
	// First are such words that count only after nothing but white space, or right after the end of Quiet.
	First []string
	// The grammar begins at one of Tokens: with the token if the grammar allows it first, else after it.
	Tokens []int32
	// In Quiet no trigger counts.
	Quiet Quiet
}

// Quiet is a part at the beginning of a text, after white space at most, such as a model's thoughts. Without Begin
// there is none.
type Quiet struct {
	Begin, End string
	Open       bool // the text begins within the part
}

// lazy is a grammar that does not hold yet.
type lazy struct {
	triggers Triggers // not changed
	longest  int      // bytes of the longest word
	tail     []byte   // the last bytes of the text; a word may have begun in them
	seen     int      // bytes of tail without an untried word's end
	fresh    bool     // nothing but white space came, since the beginning or since the quiet part
	quiet    bool     // within the quiet part
}

func (l *lazy) clone() *lazy {
	c := *l
	c.tail = slices.Clone(l.tail)
	return &c
}

// NewLazyState returns a state that allows every token until one of the triggers. If the token that completes a trigger
// word continues with text that the grammar does not allow, the word was only text, and the state keeps waiting.
func (c *Compiled) NewLazyState(ctx context.Context, t Triggers) *State {
	s := c.NewState(ctx)
	t.Words, t.First, t.Tokens = slices.Clone(t.Words), slices.Clone(t.First), slices.Clone(t.Tokens)
	s.lazy = &lazy{triggers: t, fresh: true, quiet: t.Quiet.Open}
	for _, w := range t.Words {
		s.lazy.longest = max(s.lazy.longest, len(w))
	}
	return s
}

// free reports whether the grammar does not hold yet.
func (s *State) free() bool { return s.lazy != nil }

// await takes a token of the text before the grammar holds.
func (s *State) await(id int32) error {
	l := s.lazy
	if !l.quiet && slices.Contains(l.triggers.Tokens, id) {
		_, err := s.advance(id) // if the grammar does not begin with it, it begins after it
		s.lazy = nil
		return err
	}
	l.tail = append(l.tail, s.c.vocabulary.text(id)...)
	if l.quiet && !l.leaveQuiet() {
		return nil
	}
	if l.fresh {
		begun, wait, err := s.awaitFirst()
		if begun || wait || err != nil {
			return err
		}
	}
	for _, at := range l.occurrences(l.seen) {
		if begun, err := s.beginAt(at); begun || err != nil {
			return err
		}
	}
	l.tail = l.tail[max(0, len(l.tail)-max(0, l.longest-1)):]
	l.seen = len(l.tail)
	return nil
}

// beginAt starts the grammar at that place of the tail, if it allows the text there.
func (s *State) beginAt(at int) (bool, error) {
	ok, err := s.advanceText(s.lazy.tail[at:])
	if ok {
		s.lazy = nil
	}
	return ok, err
}

// leaveQuiet looks for the end of the quiet part, and reports whether it came.
func (l *lazy) leaveQuiet() bool {
	end := l.triggers.Quiet.End
	i := bytes.Index(l.tail, []byte(end))
	if i < 0 {
		l.tail = l.tail[max(0, len(l.tail)-max(0, len(end)-1)):]
		return false
	}
	l.tail, l.seen = l.tail[i+len(end):], 0
	l.quiet, l.fresh = false, true
	return true
}

// awaitFirst looks for triggers that count only at the beginning. begun: the grammar has started; wait: more text is
// needed to tell.
func (s *State) awaitFirst() (begun, wait bool, err error) {
	l := s.lazy
	for {
		l.tail = bytes.TrimLeft(l.tail, " \t\r\n")
		text := string(l.tail)
		q := l.triggers.Quiet
		if q.Begin != "" && strings.HasPrefix(text, q.Begin) {
			l.tail, l.quiet = l.tail[len(q.Begin):], true
			if !l.leaveQuiet() {
				return false, true, nil
			}
			continue
		}
		wait = strings.HasPrefix(q.Begin, text)
		for _, w := range l.triggers.First {
			if strings.HasPrefix(text, w) {
				if begun, err = s.beginAt(0); begun || err != nil {
					return begun, false, err
				}
			}
			wait = wait || len(text) < len(w) && strings.HasPrefix(w, text)
		}
		l.fresh = wait || text == ""
		return false, wait, nil
	}
}

// occurrences returns the places of trigger words that end after the first old bytes of the tail, from the left.
func (l *lazy) occurrences(old int) []int {
	var found []int
	for _, w := range l.triggers.Words {
		if w == "" {
			continue
		}
		for at := max(0, old-len(w)+1); ; at++ {
			i := bytes.Index(l.tail[at:], []byte(w))
			if i < 0 {
				break
			}
			at += i
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// advanceText reads text and reports whether the grammar allows it.
func (s *State) advanceText(text []byte) (bool, error) {
	s.c.mu.Lock()
	defer s.c.leave()
	if err := s.enter(); err != nil {
		return false, err
	}
	to := s.read(text)
	if to == dead || s.arena.err != nil {
		return false, s.arena.err
	}
	s.moveTo(to)
	return true, nil
}
