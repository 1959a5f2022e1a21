package grammar

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
)

// unicodeEscape matches ECMAScript's way to write a character by its number, which Go writes \x{…}.
var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})|\\u\{([0-9a-fA-F]{1,6})\}|\\.`)

// patternDFA returns the automaton of texts in which the regular expression of JSON Schema's pattern matches somewhere.
// Its syntax is that of Go's regexp, which has no look-around and back references, with ECMAScript's \u.
func patternDFA(pattern string) (*dfa, error) {
	text := unicodeEscape.ReplaceAllStringFunc(pattern, func(s string) string {
		m := unicodeEscape.FindStringSubmatch(s)
		switch {
		case m[1]+m[2] != "":
			return `\x{` + m[1] + m[2] + `}`
		case s == `\/`:
			return "/"
		}
		return s
	})
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is not supported: %w", pattern, err)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is not supported: %w", pattern, err)
	}
	if len(prog.Inst) > 4*maxDFA {
		return nil, errPattern
	}
	for _, in := range prog.Inst {
		if in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary|syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0 {
			return nil, fmt.Errorf("the pattern %q is not supported: it has a word boundary or line anchors", pattern)
		}
	}
	s := subsets{prog: prog}
	return explore(s.key([]uint32{uint32(prog.Start)}, true), s.next)
}

// subsets makes a regular expression's program deterministic: a state is a set of instructions.
type subsets struct {
	prog *syntax.Prog
}

// matchedKey is the state of texts in which the expression has matched: everything may follow.
const matchedKey = "matched"

// key returns the state of threads at instructions, at the text's beginning or later.
func (s *subsets) key(threads []uint32, begin bool) string {
	slices.Sort(threads)
	threads = slices.Compact(threads)
	b := []byte{0}
	if begin {
		b[0] = 1
	}
	for _, t := range threads {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return string(b)
}

// closure follows threads to instructions that read a character, and says whether the expression has matched.
func (s *subsets) closure(threads []uint32, begin, end bool) (readers []uint32, matched bool) {
	seen := map[uint32]bool{}
	for len(threads) > 0 {
		pc := threads[len(threads)-1]
		threads = threads[:len(threads)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch in := &s.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			threads = append(threads, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			threads = append(threads, in.Out)
		case syntax.InstEmptyWidth:
			need := syntax.EmptyOp(in.Arg)
			if (need&syntax.EmptyBeginText == 0 || begin) && (need&syntax.EmptyEndText == 0 || end) {
				threads = append(threads, in.Out)
			}
		case syntax.InstMatch:
			matched = true
		case syntax.InstFail:
		default:
			readers = append(readers, pc)
		}
	}
	return readers, matched
}

// next returns where a state's characters lead.
func (s *subsets) next(key string) (bool, map[string][]runeRange, error) {
	if key == matchedKey {
		return true, map[string][]runeRange{matchedKey: {{0, lastRune}}}, nil
	}
	begin := key[0] == 1
	var threads []uint32
	for b := []byte(key[1:]); len(b) > 0; b = b[4:] {
		threads = append(threads, binary.LittleEndian.Uint32(b))
	}
	readers, matched := s.closure(slices.Clone(threads), begin, false)
	if matched {
		return true, map[string][]runeRange{matchedKey: {{0, lastRune}}}, nil
	}
	_, final := s.closure(slices.Clone(threads), begin, true)
	edges := map[string][]runeRange{}
	cuts := s.cuts(readers)
	if len(cuts)*len(readers) > maxDFAEdges*10 {
		return false, nil, errPattern
	}
	for i, lo := range cuts {
		hi := rune(lastRune)
		if i+1 < len(cuts) {
			hi = cuts[i+1] - 1
		}
		after := []uint32{uint32(s.prog.Start)} // the match may also begin later
		for _, pc := range readers {
			if in := &s.prog.Inst[pc]; in.MatchRune(lo) {
				after = append(after, in.Out)
			}
		}
		if r := normalise([]runeRange{{lo, hi}}); len(r) > 0 {
			to := s.settled(after)
			edges[to] = append(edges[to], r...)
		}
	}
	return final, edges, nil
}

// settled returns the key of threads after a character, of which only those count that can still come to a match.
func (s *subsets) settled(threads []uint32) string {
	readers, matched := s.closure(slices.Clone(threads), false, false)
	if matched {
		return matchedKey
	}
	_, atEnd := s.closure(slices.Clone(threads), false, true)
	if len(readers) == 0 && !atEnd {
		return s.key(nil, false)
	}
	return s.key(threads, false)
}

// cuts returns the characters from which on the readers may decide otherwise, 0 first.
func (s *subsets) cuts(readers []uint32) []rune {
	cuts := []rune{0}
	add := func(lo, hi rune) { cuts = append(cuts, lo, hi+1) }
	for _, pc := range readers {
		switch in := &s.prog.Inst[pc]; in.Op {
		case syntax.InstRuneAnyNotNL:
			add('\n', '\n')
		case syntax.InstRuneAny:
		default:
			if len(in.Rune) == 1 {
				for r, first := in.Rune[0], true; first || r != in.Rune[0]; r, first = unicode.SimpleFold(r), false {
					add(r, r)
				}
				continue
			}
			for i := 0; i+1 < len(in.Rune); i += 2 {
				add(in.Rune[i], in.Rune[i+1])
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	return slices.DeleteFunc(cuts, func(r rune) bool { return r > lastRune })
}
