package regex

import (
	"slices"
	"unicode"
)

// span is an inclusive range of code points.
type span struct{ lo, hi rune }

// set is a set of code points: spans in order that neither overlap nor touch.
type set []span

var (
	anything = set{{0, unicode.MaxRune}}
	ascii    = set{{0, unicode.MaxASCII}}
)

// normal sorts spans and joins those that overlap or touch.
func normal(spans []span) set {
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo - b.lo) })
	var out set
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

func union(sets ...set) set {
	var spans []span
	for _, s := range sets {
		spans = append(spans, s...)
	}
	return normal(spans)
}

func (s set) not() set {
	var out set
	next := rune(0)
	for _, p := range s {
		if p.lo > next {
			out = append(out, span{next, p.lo - 1})
		}
		next = p.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, span{next, unicode.MaxRune})
	}
	return out
}

func (s set) and(t set) set { return union(s.not(), t.not()).not() }

func (s set) has(r rune) bool {
	_, ok := slices.BinarySearchFunc(s, r, func(p span, r rune) int {
		switch {
		case p.hi < r:
			return -1
		case p.lo > r:
			return 1
		}
		return 0
	})
	return ok
}

// folded adds the characters that differ from those of s only by case.
func (s set) folded() set {
	out := slices.Clone(s)
	for _, p := range s {
		for r := p.lo; r <= p.hi; r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				out = append(out, span{f, f})
			}
		}
	}
	return normal(out)
}

// categories returns the characters of general categories, which have one or two letters.
func categories(names ...string) set {
	var all set
	for _, name := range names {
		s := tableSet(unicode.Categories[name])
		if name == "Mn" {
			s = s.and(moved.not())
		}
		for key, more := range newer {
			if len(key) == 2 && (key == name || key[:1] == name) {
				s = union(s, more)
			}
		}
		all = union(all, s)
	}
	return all
}

func tableSet(tables ...*unicode.RangeTable) set {
	var spans []span
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			spans = append(spans, span{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			spans = append(spans, span{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return normal(spans)
}

// The classes of Oniguruma over Unicode, as its document RE lists them.
func space() set { return tableSet(unicode.White_Space) }
func digit() set { return categories("Nd") }

// word also has Latin-1's superscript digits and fractions, but not those of other blocks.
func word() set {
	return union(alphabetic(), categories("M", "Nd", "Pc"), set{{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}})
}

func alphabetic() set { return union(categories("L", "Nl"), tableSet(unicode.Other_Alphabetic)) }
func hex() set        { return set{{'0', '9'}, {'A', 'F'}, {'a', 'f'}} }

// property returns the set of \p{name}: a general category, a script or a POSIX class. Case, spaces, hyphens and
// underscores in the name are ignored.
func property(name string) (set, bool) {
	plain := func(s string) string {
		var out []rune
		for _, r := range s {
			if r != ' ' && r != '_' && r != '-' {
				out = append(out, unicode.ToLower(r))
			}
		}
		return string(out)
	}
	name = plain(name)
	switch name {
	case "any":
		return anything, true
	case "ascii":
		return ascii, true
	case "alnum":
		return union(alphabetic(), digit()), true
	case "alpha":
		return alphabetic(), true
	case "blank":
		return union(tableSet(unicode.Zs), set{{'\t', '\t'}}), true
	case "cntrl":
		return tableSet(unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs), true
	case "digit":
		return digit(), true
	case "graph":
		return union(space(), tableSet(unicode.Cc, unicode.Cs)).not(), true
	case "lower":
		return union(categories("Ll"), tableSet(unicode.Other_Lowercase)), true
	case "print":
		return tableSet(unicode.Cc, unicode.Cs).not(), true
	case "punct":
		return categories("P", "S"), true
	case "space":
		return space(), true
	case "upper":
		return union(categories("Lu"), tableSet(unicode.Other_Uppercase)), true
	case "word":
		return word(), true
	case "xdigit":
		return hex(), true
	case "unassigned", "cn":
		return unassigned(), true
	}
	for long, short := range unicode.CategoryAliases {
		if plain(long) == name {
			name = plain(short)
			break
		}
	}
	if name == "c" {
		return categories("L", "M", "N", "P", "S", "Z").not(), true
	}
	for key := range unicode.Categories {
		if plain(key) == name {
			return categories(key), true
		}
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Scripts, unicode.Properties} {
		for key, table := range tables {
			if plain(key) == name {
				return union(tableSet(table), newer[key]), true
			}
		}
	}
	return nil, false
}

// unassigned returns the code points of no category.
func unassigned() set {
	return union(categories("L", "M", "N", "P", "S", "Z"), tableSet(unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)).not()
}
