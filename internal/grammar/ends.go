package grammar

import (
	"fmt"
	"slices"
)

// An End is a text that ends another one. Its parts follow one another; each may be a token as in Marker. None is
// empty.
type End []string

// Gap is the part of an End that is any white space, or none.
const Gap = " "

// Until is any text up to the first that the parts make together, and with it.
func (b *Builder) Until(parts ...string) Expr { return b.UpTo([]End{parts}, 0, nil) }

// UpTo is any text up to and including the first of the ends, which has the number which. If nested, which begins what
// the last end ends, is part of the text, the text may continue after an end: that may belong to the nested part.
func (b *Builder) UpTo(ends []End, which int, nested End) Expr {
	return b.once(fmt.Sprintf("up to %d of %q, %q", which, ends, nested), func() Expr {
		s := &search{which: which, closing: len(ends) - 1}
		for _, e := range ends {
			s.add(e)
		}
		if nested != nil {
			s.add(nested)
		}
		return Expr{s.graph()}
	})
}

// search builds the automaton that looks for several texts in one at once: each of its states is the set of places in
// these texts that may have been reached.
type search struct {
	texts    [][]element // of the ends, and of nested
	which    int
	closing  int // the end that ends what nested begins
	alphabet []rune
	states   []reached
	index    map[string]int
}

// An element is a character or white space, with the token that a part may be at its first character.
type element struct {
	char  rune
	gap   bool
	token string
	after int // the element after the token
}

// place is an element of a text that may come next.
type place struct{ text, at int }

// reached is a state.
type reached struct {
	places []place // sorted
	nested bool
}

const whiteSpace = " \t\r\n"

func (s *search) add(e End) {
	var all []element
	for _, part := range e {
		if part == Gap {
			all = append(all, element{gap: true})
			s.alphabet = append(s.alphabet, []rune(whiteSpace)...)
			continue
		}
		runes := []rune(part)
		for i, r := range runes {
			el := element{char: r}
			if i == 0 {
				el.token, el.after = part, len(all)+len(runes)
			}
			all = append(all, el)
		}
		s.alphabet = append(s.alphabet, runes...)
	}
	s.texts = append(s.texts, all)
}

// graph returns the automaton.
func (s *search) graph() *expr {
	slices.Sort(s.alphabet)
	s.alphabet = slices.Compact(s.alphabet)
	s.index = map[string]int{}
	s.number(s.closure(nil, false))
	var g []vertex
	for i := 0; i < len(s.states); i++ {
		g = append(g, s.vertex(s.states[i]))
	}
	return &expr{op: opGraph, graph: g}
}

// number returns a state's vertex.
func (s *search) number(r reached) int {
	key := fmt.Sprint(r)
	i, ok := s.index[key]
	if !ok {
		i = len(s.states)
		s.index[key] = i
		s.states = append(s.states, r)
	}
	return i
}

// closure returns the state of the given places, those after optional white space, and the beginnings of all texts.
func (s *search) closure(places []place, nested bool) reached {
	for i := range s.texts {
		places = append(places, place{i, 0})
	}
	for i := 0; i < len(places); i++ {
		if p := places[i]; p.at < len(s.texts[p.text]) && s.texts[p.text][p.at].gap {
			places = append(places, place{p.text, p.at + 1})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.text != b.text {
			return a.text - b.text
		}
		return a.at - b.at
	})
	return reached{slices.Compact(places), nested}
}

// vertex returns a state's vertex, and numbers the states that follow it.
func (s *search) vertex(r reached) vertex {
	var v vertex
	goesOn := true
	nested := r.nested
	for _, p := range r.places {
		if p.at < len(s.texts[p.text]) {
			continue
		}
		if p.text > s.closing { // what nested is has come
			nested = true
			continue
		}
		v.final = v.final || p.text == s.which
		goesOn = goesOn && r.nested
		nested = nested && p.text != s.closing
	}
	if !goesOn {
		return v
	}
	next := map[int][]runeRange{}
	var order []int
	lead := func(to int, by ...runeRange) {
		if _, ok := next[to]; !ok {
			order = append(order, to)
		}
		next[to] = append(next[to], by...)
	}
	var all []runeRange
	for _, c := range s.alphabet {
		lead(s.number(s.closure(s.step(r, c), nested)), runeRange{c, c})
		all = append(all, runeRange{c, c})
	}
	lead(s.number(s.closure(nil, nested)), complement(normalise(all))...)
	for _, to := range order {
		v.edges = append(v.edges, edge{class(next[to]...), to})
	}
	tokens := map[string][]place{}
	var names []string
	for _, p := range r.places {
		if p.at == len(s.texts[p.text]) {
			continue
		}
		if el := s.texts[p.text][p.at]; el.token != "" {
			if tokens[el.token] == nil {
				names = append(names, el.token)
			}
			tokens[el.token] = append(tokens[el.token], place{p.text, el.after})
		}
	}
	for _, name := range names {
		v.edges = append(v.edges, edge{markerToken(name), s.number(s.closure(tokens[name], nested))})
	}
	return v
}

// step returns the places after a character.
func (s *search) step(r reached, c rune) []place {
	var out []place
	for _, p := range r.places {
		if p.at == len(s.texts[p.text]) {
			continue
		}
		switch el := s.texts[p.text][p.at]; {
		case el.gap && slices.Contains([]rune(whiteSpace), c):
			out = append(out, p)
		case !el.gap && el.char == c:
			out = append(out, place{p.text, p.at + 1})
		}
	}
	return out
}
