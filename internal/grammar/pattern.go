package grammar

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unsafe"
)

// Bounds of one regular expression: of its text, because Unicode classes take a thousand times their written size, and
// of its program, with repetitions written out.
const (
	maxPattern = 16 << 10
	maxProgram = 20_000
	classBytes = 6 << 10 // of one class of Unicode, about
)

// spelledOtherwise matches what ECMAScript spells or means otherwise than Go, and where a class begins and ends.
var spelledOtherwise = regexp.MustCompile(`\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\u\{([0-9a-fA-F]{1,6})\}|` +
	`\\([pP]\{)(?:Script|sc|General_Category|gc)=|(?s:\\.)|\[:\^?[a-z]+:\]|\[\^?\]?|\]`)

// ECMAScript's white space and all other characters, as parts of a class. Go's \s has only that of ASCII, without \v.
const (
	space    = `\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`
	notSpace = `\x{0}-\x08\x0E-\x1F!-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
)

// fromECMAScript returns a pattern as Go's regexp reads it. What ECMAScript does not know is left as it is.
func fromECMAScript(pattern string) string {
	inClass := false
	class := func(runes string) string {
		if inClass {
			return runes
		}
		return "[" + runes + "]"
	}
	return spelledOtherwise.ReplaceAllStringFunc(pattern, func(s string) string {
		m := spelledOtherwise.FindStringSubmatch(s)
		switch {
		case m[1] != "":
			high, _ := strconv.ParseUint(m[1], 16, 32)
			low, _ := strconv.ParseUint(m[2], 16, 32)
			return fmt.Sprintf(`\x{%X}`, utf16.DecodeRune(rune(high), rune(low)))
		case m[3]+m[4] != "":
			return `\x{` + m[3] + m[4] + `}`
		case m[5] != "":
			return `\` + m[5]
		case s == `\/`:
			return "/"
		case s == `\s`:
			return class(space)
		case s == `\S`:
			return class(notSpace)
		case s == "]":
			inClass = false
		case s[0] != '[' || strings.HasPrefix(s, "[:"):
		case inClass: // a bracket within a class means itself
			inClass = !strings.HasSuffix(s, "]")
			return `\` + s
		case s == "[]":
			return `[^\x{0}-\x{10FFFF}]`
		case s == "[^]":
			return `[\x{0}-\x{10FFFF}]`
		default:
			inClass = true
		}
		return s
	})
}

// patternDFA returns the automaton of texts with a match of a JSON Schema's pattern anywhere. A pattern is ECMAScript's,
// without look-around, back references and word boundaries, or Go's.
func patternDFA(m *meter, pattern string) (*dfa, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern %q has %d bytes, more than %d", shown(pattern), len(pattern), maxPattern)
	}
	m.beginPattern()
	if err := m.within(20 * len(pattern)); err != nil {
		return nil, err
	}
	text := fromECMAScript(pattern)
	if err := m.take(classBytes * (strings.Count(text, `\p`) + strings.Count(text, `\P`))); err != nil {
		return nil, err
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is not supported: %w", shown(pattern), err)
	}
	if n, largest := written(re); n > maxProgram {
		return nil, fmt.Errorf("the pattern %q %w, above all %s", shown(pattern), errPattern, repeated(largest))
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is not supported: %w", shown(pattern), err)
	}
	for _, in := range prog.Inst {
		if in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary|syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0 {
			return nil, fmt.Errorf("the pattern %q is not supported: it has a word boundary or line anchors", shown(pattern))
		}
	}
	d, err := newSubsets(m, prog).dfa()
	if err == nil || m.err != nil {
		return d, err
	}
	if r := largestRepeat(re); r != nil {
		return nil, fmt.Errorf("the pattern %q %w, above all %s", shown(pattern), err, repeated(r))
	}
	return nil, fmt.Errorf("the pattern %q %w", shown(pattern), err)
}

// shown is the beginning of a pattern for an error.
func shown(pattern string) string {
	const most = 100
	if len(pattern) <= most {
		return pattern
	}
	end := most
	for end > 0 && pattern[end]&0xC0 == 0x80 {
		end--
	}
	return pattern[:end] + "…"
}

// written returns how many parts an expression has with its repetitions expanded, up to a number above maxProgram, and
// the smallest expression in it that has too many.
func written(re *syntax.Regexp) (n int, largest *syntax.Regexp) {
	n = 1 + len(re.Rune)*btoi(re.Op == syntax.OpLiteral)
	for _, s := range re.Sub {
		m, large := written(s)
		if large != nil {
			return m, large
		}
		n += m
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1, 1)
	}
	if n > maxProgram {
		return n, re
	}
	return n, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// repeated names a repetition by its count, because its body may be a class with many ranges.
func repeated(re *syntax.Regexp) string {
	switch {
	case re.Op != syntax.OpRepeat:
		return "its alternatives"
	case re.Max == re.Min:
		return fmt.Sprintf("the repetition {%d}", re.Min)
	case re.Max < 0:
		return fmt.Sprintf("the repetition {%d,}", re.Min)
	}
	return fmt.Sprintf("the repetition {%d,%d}", re.Min, re.Max)
}

// largestRepeat returns the counted repetition with the most parts, nil if there is none.
func largestRepeat(re *syntax.Regexp) *syntax.Regexp {
	var found *syntax.Regexp
	most := 0
	var visit func(re *syntax.Regexp)
	visit = func(re *syntax.Regexp) {
		if n, _ := written(re); re.Op == syntax.OpRepeat && n > most {
			most, found = n, re
		}
		for _, s := range re.Sub {
			visit(s)
		}
	}
	visit(re)
	return found
}

// subsets makes a regular expression's program deterministic: a state is a set of instructions that read a character.
// The characters are divided once into letters, which no instruction distinguishes: however many ranges a Unicode class
// has, a state has few edges.
type subsets struct {
	m       *meter
	prog    *syntax.Prog
	anchors bool          // the program asks for the text's end
	letters [][]runeRange // characters of each letter, normalised
	class   []int         // [instructions] index of reads
	reads   [][]bool      // [classes, letters] the instruction reads the letter

	seen  []uint32 // [instructions] epoch in which the instruction was visited
	epoch uint32
	todo  []uint32
	sets  map[string][]runeRange // of letters, by their numbers
}

func newSubsets(m *meter, prog *syntax.Prog) *subsets {
	s := &subsets{m: m, prog: prog, class: make([]int, len(prog.Inst)), seen: make([]uint32, len(prog.Inst)), sets: map[string][]runeRange{}}
	type source struct { // common to copies of one class in a program
		op    syntax.InstOp
		runes *rune
		first rune
		n     int
		fold  uint32
	}
	known := map[source]int{}
	var classes [][]runeRange
	for pc := range prog.Inst {
		in := &prog.Inst[pc]
		s.anchors = s.anchors || in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&syntax.EmptyEndText != 0
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		default:
			continue
		}
		key := source{op: in.Op, n: len(in.Rune), fold: in.Arg}
		switch {
		case len(in.Rune) == 1:
			key.first = in.Rune[0]
		case len(in.Rune) > 1:
			key.runes = unsafe.SliceData(in.Rune)
		}
		c, ok := known[key]
		if !ok {
			c = len(classes)
			known[key] = c
			classes = append(classes, readBy(in))
		}
		s.class[pc] = c
	}
	s.divide(classes)
	return s
}

// readBy returns the characters that an instruction reads.
func readBy(in *syntax.Inst) []runeRange {
	switch {
	case in.Op == syntax.InstRuneAny:
		return normalise([]runeRange{{0, lastRune}})
	case in.Op == syntax.InstRuneAnyNotNL: // ECMAScript knows more ends of lines
		return complement([]runeRange{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})
	case len(in.Rune) == 1:
		out := []runeRange{{in.Rune[0], in.Rune[0]}}
		if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
			for r := unicode.SimpleFold(in.Rune[0]); r != in.Rune[0]; r = unicode.SimpleFold(r) {
				out = append(out, runeRange{r, r})
			}
		}
		return normalise(out)
	}
	var out []runeRange
	for i := 0; i+1 < len(in.Rune); i += 2 {
		out = append(out, runeRange{in.Rune[i], in.Rune[i+1]})
	}
	return normalise(out)
}

// divide finds the letters: pieces of the characters between the classes' bounds, joined if they are in the same
// classes. It stops, with the meter's error or without letters, if that takes too much.
func (s *subsets) divide(classes [][]runeRange) {
	cuts := []rune{0}
	for _, c := range classes {
		for _, r := range c {
			cuts = append(cuts, r.lo, r.hi+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if cuts[len(cuts)-1] > lastRune {
		cuts = cuts[:len(cuts)-1]
	}
	letter := make([]int, len(cuts)) // of each piece
	n := 1
	for _, c := range classes {
		if s.m.within(len(cuts)/4+len(c)) != nil {
			return
		}
		moved := map[int]int{} // the letter of those pieces of a letter that are in the class
		for _, r := range c {
			i, _ := slices.BinarySearch(cuts, r.lo)
			for ; i < len(cuts) && cuts[i] <= r.hi; i++ {
				to, ok := moved[letter[i]]
				if !ok {
					to = n
					n++
					moved[letter[i]] = to
				}
				letter[i] = to
			}
		}
	}
	number := map[int]int{}
	s.letters = nil
	for i, lo := range cuts {
		hi := rune(lastRune)
		if i+1 < len(cuts) {
			hi = cuts[i+1] - 1
		}
		k, ok := number[letter[i]]
		if !ok {
			k = len(s.letters)
			number[letter[i]] = k
			s.letters = append(s.letters, nil)
		}
		s.letters[k] = append(s.letters[k], runeRange{lo, hi})
	}
	for i, l := range s.letters {
		s.letters[i] = normalise(l)
	}
	s.letters = slices.DeleteFunc(s.letters, func(l []runeRange) bool { return len(l) == 0 }) // only surrogates
	for _, c := range classes {
		if s.m.within(len(s.letters)*4) != nil {
			return
		}
		reads := make([]bool, len(s.letters))
		for i, l := range s.letters {
			k, found := slices.BinarySearchFunc(c, l[0].lo, func(r runeRange, lo rune) int { return int(r.lo) - int(lo) })
			reads[i] = found || k > 0 && c[k-1].hi >= l[0].lo
		}
		s.reads = append(s.reads, reads)
	}
}

// Kinds of states, as the first byte of their keys.
const (
	open    = 'o' // the expression has not matched
	atEnd   = 'e' // it matches if the text ends here
	matched = 'm' // it has matched: everything may follow
)

// dfa returns the automaton.
func (s *subsets) dfa() (*dfa, error) {
	if err := s.m.within(0); err != nil {
		return nil, err
	}
	return explore(s.m, s.key([]uint32{uint32(s.prog.Start)}, true), s.next)
}

// key returns the state of threads at instructions, at the text's beginning or later.
func (s *subsets) key(threads []uint32, begin bool) string {
	readers, done := s.closure(threads, begin, false)
	if done {
		return string(rune(matched))
	}
	kind := byte(open)
	if s.anchors {
		if _, done := s.closure(threads, begin, true); done {
			kind = atEnd
		}
	}
	slices.Sort(readers)
	b := make([]byte, 1, 1+4*len(readers))
	b[0] = kind
	for _, pc := range readers {
		b = binary.LittleEndian.AppendUint32(b, pc)
	}
	return string(b)
}

// closure follows threads to instructions that read a character, and says whether the expression has matched.
func (s *subsets) closure(threads []uint32, begin, end bool) (readers []uint32, matched bool) {
	s.epoch++
	s.todo = append(s.todo[:0], threads...)
	for len(s.todo) > 0 {
		pc := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if s.seen[pc] == s.epoch {
			continue
		}
		s.seen[pc] = s.epoch
		s.m.steps++ // within counts them
		switch in := &s.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			s.todo = append(s.todo, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			s.todo = append(s.todo, in.Out)
		case syntax.InstEmptyWidth:
			need := syntax.EmptyOp(in.Arg)
			if (need&syntax.EmptyBeginText == 0 || begin) && (need&syntax.EmptyEndText == 0 || end) {
				s.todo = append(s.todo, in.Out)
			}
		case syntax.InstMatch:
			return nil, true
		case syntax.InstFail:
		default:
			readers = append(readers, pc)
		}
	}
	return readers, false
}

// next returns where a state's characters lead.
func (s *subsets) next(key string) (bool, []wayTo[string], error) {
	if key[0] == matched {
		return true, []wayTo[string]{{key, normalise([]runeRange{{0, lastRune}})}}, nil
	}
	var readers []uint32
	for b := []byte(key[1:]); len(b) > 0; b = b[4:] {
		readers = append(readers, binary.LittleEndian.Uint32(b))
	}
	by := map[string][]uint16{} // letters that lead to a state
	var order []string
	after := make([]uint32, 0, len(readers)+1)
	for l := range s.letters {
		if err := s.m.within(4 + len(readers)); err != nil {
			return false, nil, err
		}
		after = append(after[:0], uint32(s.prog.Start)) // the match may also begin later
		for _, pc := range readers {
			if s.reads[s.class[pc]][l] {
				after = append(after, s.prog.Inst[pc].Out)
			}
		}
		to := s.key(after, false)
		if _, ok := by[to]; !ok {
			order = append(order, to)
		}
		by[to] = append(by[to], uint16(l))
	}
	ways := make([]wayTo[string], len(order))
	for i, to := range order {
		ways[i] = wayTo[string]{to, s.set(by[to])}
	}
	return key[0] == atEnd, ways, nil
}

// set returns the characters of letters. Equal sets are one slice.
func (s *subsets) set(letters []uint16) []runeRange {
	var key []byte
	for _, l := range letters {
		key = binary.LittleEndian.AppendUint16(key, l)
	}
	set, ok := s.sets[string(key)]
	if !ok {
		for _, l := range letters {
			set = append(set, s.letters[l]...)
		}
		s.m.take(16 * len(set))
		set = normalise(set)
		s.sets[string(key)] = set
	}
	return set
}
