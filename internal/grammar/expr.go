package grammar

import "slices"

// op is the kind of an expression.
type op uint8

const (
	opEmpty    op = iota // the empty text
	opBytes              // text, byte for byte
	opClass              // one code point of ranges, in UTF-8
	opSequence           // subs, one after the other
	opChoice             // one of subs; without subs: nothing
	opRepeat             // subs[0] from min to max times
	opRule               // a text of rule number index
	opToken              // the token named by token
	opGraph              // a path through graph
)

// unbounded is the max of a repetition without a bound.
const unbounded = -1

// expr is a set of texts. It never changes once built, so one expression may be part of several.
type expr struct {
	op       op
	text     string
	ranges   []runeRange
	subs     []*expr
	min, max int
	index    int32
	token    tokenLiteral
	graph    []vertex // opGraph: begins at vertex 0
}

// runeRange is the code points from lo to hi, both included.
type runeRange struct{ lo, hi rune }

// vertex is a place in a graph of expressions; a path may end at a final one.
type vertex struct {
	final bool
	edges []edge
}

// edge leads to vertex number to along a text of by.
type edge struct {
	by *expr
	to int
}

var empty = &expr{op: opEmpty}

func literal(s string) *expr {
	if s == "" {
		return empty
	}
	return &expr{op: opBytes, text: s}
}

// class returns one code point of any of the ranges; without ranges: nothing.
func class(r ...runeRange) *expr { return &expr{op: opClass, ranges: normalise(r)} }

// oneOf returns one of the characters of s.
func oneOf(s string) *expr {
	var r []runeRange
	for _, c := range s {
		r = append(r, runeRange{c, c})
	}
	return class(r...)
}

func sequence(subs ...*expr) *expr {
	if len(subs) == 1 {
		return subs[0]
	}
	return &expr{op: opSequence, subs: subs}
}

func choice(subs ...*expr) *expr {
	if len(subs) == 1 {
		return subs[0]
	}
	return &expr{op: opChoice, subs: subs}
}

func repeat(e *expr, least, most int) *expr {
	switch {
	case most == 0:
		return empty
	case least == 1 && most == 1:
		return e
	}
	return &expr{op: opRepeat, subs: []*expr{e}, min: least, max: most}
}

func optional(e *expr) *expr { return repeat(e, 0, 1) }

func reference(index int32) *expr { return &expr{op: opRule, index: index} }

// lastRune is the highest code point.
const lastRune = 0x10FFFF

// normalise sorts ranges, joins neighbours, and removes surrogates, which UTF-8 does not have.
func normalise(r []runeRange) []runeRange {
	r = slices.Clone(r)
	slices.SortFunc(r, func(a, b runeRange) int { return int(a.lo) - int(b.lo) })
	var out []runeRange
	add := func(lo, hi rune) {
		if lo > hi {
			return
		}
		if n := len(out); n > 0 && lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, hi)
			return
		}
		out = append(out, runeRange{lo, hi})
	}
	for _, x := range r {
		add(x.lo, min(x.hi, 0xD7FF))
		add(max(x.lo, 0xE000), x.hi)
	}
	return out
}

// complement returns every code point outside normalised ranges.
func complement(r []runeRange) []runeRange {
	var out []runeRange
	next := rune(0)
	for _, x := range r {
		if x.lo > next {
			out = append(out, runeRange{next, x.lo - 1})
		}
		next = x.hi + 1
	}
	if next <= lastRune {
		out = append(out, runeRange{next, lastRune})
	}
	return normalise(out)
}

// intersect returns the code points of both normalised a and b.
func intersect(a, b []runeRange) []runeRange {
	var out []runeRange
	for i, j := 0, 0; i < len(a) && j < len(b); {
		lo, hi := max(a[i].lo, b[j].lo), min(a[i].hi, b[j].hi)
		if lo <= hi {
			out = append(out, runeRange{lo, hi})
		}
		if a[i].hi < b[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}
