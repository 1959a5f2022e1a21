// Package speculate drafts the next tokens of a text, so that one step of a model checks several tokens instead of
// computing one. It chooses the length of a draft by how often drafts were accepted and what a check costs. The text
// does not depend on it: a drafted token counts only if the sampler chooses it.
package speculate

// Lookup drafts the text that followed the longest earlier occurrence of the text's end. It finds that in a suffix
// automaton, which grows token by token (Blumer et al., The smallest automaton recognizing the subwords of a text,
// 1985): time and memory are linear in the text. It belongs to one goroutine.
type Lookup struct {
	text    []int32
	states  []state
	edges   []edge
	to      map[uint64]int32 // state and token to the next state
	last    int32            // the state of the whole text
	chances *Chances
	match   int // length of the match of the last Draft
}

// state is a class of substrings with the same end positions.
type state struct {
	length int32 // length of the longest substring
	link   int32 // the state of its longest suffix with more end positions; -1: none
	first  int32 // its first edge in edges; -1: none
	end    int32 // end of the most recent occurrence seen
}

type edge struct{ token, next int32 }

// NewLookup returns a Lookup of an empty text. Several may share chances.
func NewLookup(chances *Chances) *Lookup {
	return &Lookup{chances: chances, states: []state{{link: -1, first: -1}}, to: map[uint64]int32{}}
}

func key(s, token int32) uint64 { return uint64(uint32(s))<<32 | uint64(uint32(token)) }

// connect adds an edge to a state without one for the token.
func (l *Lookup) connect(s, token, to int32) {
	l.edges = append(l.edges, edge{token, l.states[s].first})
	l.states[s].first = int32(len(l.edges) - 1)
	l.to[key(s, token)] = to
}

// Accept appends the text's next token.
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

// split moves the substrings of q that are no longer than p's with the token to a new state, and redirects p and its
// links there.
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

// seen bounds how many suffixes of the text are updated with their new occurrence.
const seen = 8

// see records that the text's repeated suffixes also occur at its end, so that the next lookup finds them there.
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

// Repeated returns the length of the longest suffix of the text that occurred before, and where its continuation
// begins.
func (l *Lookup) Repeated() (length, next int) {
	s := l.states[l.last].link
	if s <= 0 {
		return 0, 0
	}
	return int(l.states[s].length), int(l.states[s].end) + 1
}

// Draft returns a draft of the next tokens, as long as is worth its cost and at most most tokens, or none. It is valid
// until Accept.
func (l *Lookup) Draft(most int, cost func(most int) Cost) []int32 {
	length, next := l.Repeated()
	l.match = length
	most = min(most, len(l.text)-next)
	if length == 0 || most < 1 {
		return nil
	}
	return l.text[next : next+l.chances.Worth(length, most, cost(most))]
}

// Outcome reports how many of the last Draft's tokens were checked, and how many were accepted.
func (l *Lookup) Outcome(drafted, accepted int) { l.chances.Note(l.match, drafted, accepted) }
