// Package regex finds the matches of regular expressions in linear time, as the tokenizers of language models need
// them: in Oniguruma's syntax and with its choice of match (the leftmost, and there the first alternative that fits),
// with lookahead and lookbehind. It compiles an expression to an automaton over classes of characters. Back-references
// and atomic groups are refused.
package regex

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// Regexp is a compiled expression. It is safe for concurrent use.
type Regexp struct {
	alphabet *alphabet
	main     *machine
	looks    []lookMachine
	shortest int
	begins   [utf8.RuneSelf]bool // whether a match may begin with a character
	scratch  sync.Pool           // of *scratch
}

// lookMachine finds the places where a look holds.
type lookMachine struct {
	*machine
	reverse bool // a lookahead is decided from the text's end
}

// maxLooks bounds the looks of more than a character: each doubles the automaton's symbols.
const maxLooks = 4

// Compile reads an expression.
func Compile(pattern string) (*Regexp, error) {
	tree, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	re, err := compile(tree)
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q: %w", pattern, err)
	}
	re.shortest = tree.shortest()
	return re, nil
}

// Shortest returns a lower bound of the bytes of a match.
func (re *Regexp) Shortest() int { return re.shortest }

// shortest returns a lower bound of the characters of a match of n.
func (n *node) shortest() (least int) {
	switch n.kind {
	case chars:
		return 1
	case sequence:
		for _, s := range n.sub {
			least += s.shortest()
		}
	case choice:
		for i, s := range n.sub {
			if l := s.shortest(); i == 0 || l < least {
				least = l
			}
		}
	case repeat:
		return n.least * n.sub[0].shortest()
	}
	return least
}

func compile(tree *node) (*Regexp, error) {
	looks := wholeLooks(tree, nil)
	if len(looks) > maxLooks {
		return nil, fmt.Errorf("more than %d lookaheads of several characters are not supported", maxLooks)
	}
	type part struct {
		p     *program
		begin int
	}
	var parts []part
	var sets []set
	for i := 0; i <= len(looks); i++ {
		p := &program{looks: looks, sets: sets}
		root := tree
		if i < len(looks) {
			p.reverse, root = !looks[i].behind, looks[i].sub[0]
		}
		match, err := p.add(step{op: opMatch})
		if err != nil {
			return nil, err
		}
		begin, err := p.compile(root, match)
		if err != nil {
			return nil, err
		}
		parts, sets = append(parts, part{p, begin}), p.sets
	}
	a, err := newAlphabet(sets)
	if err != nil {
		return nil, err
	}
	re := &Regexp{alphabet: a}
	re.scratch.New = func() any { return new(scratch) }
	for i, part := range parts {
		b := &builder{p: part.p, a: a, begin: part.begin, every: i < len(looks)}
		m, err := b.build()
		if err != nil {
			return nil, err
		}
		if i < len(looks) {
			re.looks = append(re.looks, lookMachine{m, part.p.reverse})
		} else {
			re.main = m
		}
	}
	for c, class := range re.alphabet.ascii {
		re.begins[c] = len(re.main.starts) > 1 || len(re.looks) > 0 || re.main.moves[int(re.main.starts[0])*re.main.width+int(class)] != 0
	}
	return re, nil
}

// scratch is the memory of one scan.
type scratch struct {
	holds []uint8 // place -> bits of the looks that hold there
}

// Scan calls emit for all matches from left to right, without overlap. Bytes that are not UTF-8 count as U+FFFD. An
// empty match directly after a match is left out.
func (re *Regexp) Scan(text string, emit func(start, end int)) {
	var s *scratch
	if len(re.looks) > 0 {
		s = re.scratch.Get().(*scratch)
		defer re.scratch.Put(s)
		re.look(text, s)
	}
	dead := map[uint32][]uint64(nil)
	last := -1
	for at := 0; at <= len(text); {
		for at < len(text) && text[at] < utf8.RuneSelf && !re.begins[text[at]] {
			at++
		}
		end := re.match(text, at, s, &dead)
		if end < 0 || end == at && at == last {
			if at == len(text) {
				return
			}
			at += size(text[at:])
			continue
		}
		emit(at, end)
		at, last = end, end
	}
}

// Split calls emit for Scan's matches and the text between them, so that all of text is emitted.
func (re *Regexp) Split(text string, emit func(part string, match bool)) {
	end := 0
	re.Scan(text, func(from, to int) {
		if from > end {
			emit(text[end:from], false)
		}
		if to > from {
			emit(text[from:to], true)
		}
		end = to
	})
	if end < len(text) {
		emit(text[end:], false)
	}
}

func size(text string) int {
	if text[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(text)
	return n
}

// patience is how many characters are read beyond the last match before it is written down that they lead nowhere.
// Without that, an expression that reads far ahead in vain at every place would take quadratic time.
const patience = 64

// match returns the end of the match that begins at a place, or -1.
func (re *Regexp) match(text string, start int, s *scratch, dead *map[uint32][]uint64) int {
	m, a := re.main, re.alphabet
	state := m.starts[0]
	if len(m.starts) > 1 {
		state = m.starts[re.before(text, start)]
	}
	found, ahead := -1, 0
	moves, width := m.moves, m.width
	for at := start; ; {
		if s == nil {
			for at < len(text) && text[at] < utf8.RuneSelf && ahead < patience {
				move := moves[int(state)*width+int(a.ascii[text[at]])]
				state = move >> 1
				ahead++
				if move&1 != 0 {
					found, ahead = at, 0
				}
				if state == 0 {
					return found
				}
				at++
			}
		}
		class, n := a.size, 0
		if at < len(text) {
			if c := text[at]; c < utf8.RuneSelf {
				class, n = int(a.ascii[c]), 1
			} else {
				r, size := utf8.DecodeRuneInString(text[at:])
				class, n = a.class(r), size
			}
		}
		if s != nil {
			class = class<<m.looks | int(s.holds[at])
		}
		move := moves[int(state)*width+class]
		state = move >> 1
		ahead++
		if move&1 != 0 {
			found, ahead = at, 0
		}
		if state == 0 || n == 0 {
			break
		}
		at += n
		if ahead > patience && re.visited(state, at, len(text), dead) {
			break
		}
	}
	if ahead > patience {
		re.bury(text, start, s, dead, found)
	}
	return found
}

// visited reports whether a state is known to reach no match from a place.
func (re *Regexp) visited(state uint32, at, size int, dead *map[uint32][]uint64) bool {
	bits := (*dead)[state]
	return bits != nil && bits[at/64]>>(at%64)&1 != 0
}

// bury repeats a scan that found nothing after its match, and marks the states that led nowhere.
func (re *Regexp) bury(text string, start int, s *scratch, dead *map[uint32][]uint64, found int) {
	if *dead == nil {
		*dead = map[uint32][]uint64{}
	}
	m, a := re.main, re.alphabet
	state := m.starts[0]
	if len(m.starts) > 1 {
		state = m.starts[re.before(text, start)]
	}
	for at := start; at < len(text) && state != 0; {
		r, n := utf8.DecodeRuneInString(text[at:])
		class := a.class(r)
		if s != nil {
			class = class<<m.looks | int(s.holds[at])
		}
		state = m.moves[int(state)*m.width+class] >> 1
		at += n
		if at <= found || state == 0 {
			continue
		}
		bits := (*dead)[state]
		if bits == nil {
			bits = make([]uint64, len(text)/64+1)
			(*dead)[state] = bits
		}
		if bits[at/64]>>(at%64)&1 != 0 {
			return
		}
		bits[at/64] |= 1 << (at % 64)
	}
}

// before returns the class of the character before a place.
func (re *Regexp) before(text string, at int) int {
	if at == 0 {
		return re.alphabet.size
	}
	r, _ := utf8.DecodeLastRuneInString(text[:at])
	return re.alphabet.class(r)
}

// look finds the places where each look holds.
func (re *Regexp) look(text string, s *scratch) {
	if cap(s.holds) <= len(text) {
		s.holds = make([]uint8, len(text)+1)
	}
	s.holds = s.holds[:len(text)+1]
	clear(s.holds)
	for bit, m := range re.looks {
		edge := re.alphabet.size
		state := m.starts[min(edge, len(m.starts)-1)]
		at, n := 0, 0
		if m.reverse {
			at = len(text)
		}
		for {
			class := edge
			n = 0
			if m.reverse && at > 0 {
				var r rune
				r, n = utf8.DecodeLastRuneInString(text[:at])
				class, n = re.alphabet.class(r), -n
			} else if !m.reverse && at < len(text) {
				var r rune
				r, n = utf8.DecodeRuneInString(text[at:])
				class = re.alphabet.class(r)
			}
			move := m.moves[int(state)*m.width+(class<<m.looks|int(s.holds[at]))]
			s.holds[at] |= uint8(move&1) << bit
			if n == 0 {
				break
			}
			state = move >> 1
			at += n
		}
	}
}
