// Package speculate guesses how a text goes on, so that one step of a model checks several tokens instead of computing
// one. It chooses how many by what guesses were worth so far and what checking them costs. The text does not depend on
// it: a guess counts only where it is the token that is chosen without it.
package speculate

// Lookup guesses that a text goes on as it did where its last tokens stood before. It finds the longest such end of the
// text in a suffix automaton, which grows by a token at a time (Blumer et al., The smallest automaton recognizing the
// subwords of a text, 1985): time and memory are linear in the text. One goroutine uses it.
type Lookup struct {
	text    []int32
	states  []state
	edges   []edge
	to      map[uint64]int32 // state and token to the state behind it
	last    int32            // the state of the whole text
	chances *Chances
	match   int // length of the end that stood before when Draft last guessed
}

// state is a class of substrings that end at the same places.
type state struct {
	length int32 // of the longest
	link   int32 // the state of the longest end of these that ends elsewhere, too; -1: none
	first  int32 // its first edge in edges; -1: none
	end    int32 // where one of the places is at which they end, the latest that was seen
}

type edge struct{ token, next int32 }

// NewLookup returns a Lookup of an empty text. chances may be shared by many.
func NewLookup(chances *Chances) *Lookup {
	return &Lookup{chances: chances, states: []state{{link: -1, first: -1}}, to: map[uint64]int32{}}
}

func key(s, token int32) uint64 { return uint64(uint32(s))<<32 | uint64(uint32(token)) }

// connect adds an edge to a state that has none for the token.
func (l *Lookup) connect(s, token, to int32) {
	l.edges = append(l.edges, edge{token, l.states[s].first})
	l.states[s].first = int32(len(l.edges) - 1)
	l.to[key(s, token)] = to
}

// Accept tells of the text's next token.
func (l *Lookup) Accept(token int32) {
	l.see()
	end := int32(len(l.text))
	l.text = append(l.text, token)
	now := int32(len(l.states))
	l.states = append(l.states, state{length: end + 1, first: -1, end: end})
	p := l.last
	for ; p >= 0; p = l.states[p].link {
		if _, ok := l.to[key(p, token)]; ok {
			break
		}
		l.connect(p, token, now)
	}
	l.last = now
	if p < 0 {
		return
	}
	q := l.to[key(p, token)]
	if l.states[p].length+1 != l.states[q].length {
		q = l.split(p, q, token)
	}
	l.states[now].link = q
}

// split makes those substrings of q a state of their own that are no longer than p's with the token, which lead there
// from p and from its links.
func (l *Lookup) split(p, q, token int32) int32 {
	short := int32(len(l.states))
	l.states = append(l.states, state{length: l.states[p].length + 1, link: l.states[q].link, first: -1, end: l.states[q].end})
	for e := l.states[q].first; e >= 0; e = l.edges[e].next {
		l.connect(short, l.edges[e].token, l.to[key(q, l.edges[e].token)])
	}
	for ; p >= 0 && l.to[key(p, token)] == q; p = l.states[p].link {
		l.to[key(p, token)] = short
	}
	l.states[q].link = short
	return short
}

// seen bounds how many ends of the text learn that they stood at its end, too.
const seen = 8

// see notes that the ends of the text that stood before stand at its end, too, so that the next time they are found
// there.
func (l *Lookup) see() {
	s := l.states[l.last].link
	for range seen {
		if s <= 0 {
			return
		}
		l.states[s].end = int32(len(l.text)) - 1
		s = l.states[s].link
	}
}

// Repeated returns the length of the longest end of the text that stood before, and where what followed it there
// begins.
func (l *Lookup) Repeated() (length, next int) {
	s := l.states[l.last].link
	if s <= 0 {
		return 0, 0
	}
	return int(l.states[s].length), int(l.states[s].end) + 1
}

// Draft returns guesses of the next tokens: as many as are worth the cost of checking so many, at most most, or none.
// They are valid until Accept.
func (l *Lookup) Draft(most int, cost func(most int) Cost) []int32 {
	length, next := l.Repeated()
	l.match = length
	most = min(most, len(l.text)-next)
	if length == 0 || most < 1 {
		return nil
	}
	return l.text[next : next+l.chances.Worth(length, most, cost(most))]
}

// Outcome tells how many of the last Draft's tokens were checked, and how many of these came.
func (l *Lookup) Outcome(drafted, accepted int) { l.chances.Note(l.match, drafted, accepted) }
