package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalForm returns Unicode's normal form f of s. Unlike golang.org/x/text's own it puts nothing between the marks of
// a run of more than thirty.
func normalForm(f norm.Form) func(string) string {
	return func(s string) string {
		if f.IsNormalString(s) {
			return s
		}
		runes := decompose(f, s)
		if f == norm.NFC || f == norm.NFKC {
			runes = compose(runes)
		}
		return string(runes)
	}
}

// Hangul syllables are composed by arithmetic (Unicode, section 3.12).
const (
	hangulBase, hangulEnd = 0xAC00, 0xAC00 + 11172
	leadBase, leads       = 0x1100, 19
	vowelBase, vowels     = 0x1161, 21
	tailBase, tails       = 0x11A7, 28
)

func combiningClass(r rune) uint8 {
	if r < 0x300 {
		return 0
	}
	var b [utf8.UTFMax]byte
	return norm.NFD.Properties(b[:utf8.EncodeRune(b[:], r)]).CCC()
}

// decompose returns the characters of s taken apart, marks in canonical order.
func decompose(f norm.Form, s string) []rune {
	if f == norm.NFC {
		f = norm.NFD
	} else if f == norm.NFKC {
		f = norm.NFKD
	}
	out := make([]rune, 0, len(s))
	for i, r := range s {
		if hangulBase <= r && r < hangulEnd {
			at := r - hangulBase
			out = append(out, leadBase+at/(vowels*tails), vowelBase+at/tails%vowels)
			if tail := at % tails; tail > 0 {
				out = append(out, tailBase+tail)
			}
			continue
		}
		if d := f.PropertiesString(s[i:]).Decomposition(); r >= utf8.RuneSelf && d != nil && !inRanges(laterComposed, r) {
			out = append(out, []rune(string(d))...)
		} else {
			out = append(out, r)
		}
	}
	for from := 0; from < len(out); from++ {
		to := from
		for to < len(out) && combiningClass(out[to]) != 0 {
			to++
		}
		if to > from+1 {
			slices.SortStableFunc(out[from:to], func(a, b rune) int { return int(combiningClass(a)) - int(combiningClass(b)) })
		}
		from = max(from, to-1)
	}
	return out
}

// composites maps a pair of characters to the one that they compose to.
var composites = sync.OnceValue(func() map[[2]rune]rune {
	out := map[[2]rune]rune{}
	for r := rune(0xC0); r < 0x30000; r++ {
		if r >= hangulBase && r < 0xF900 {
			continue
		}
		s := string(r)
		d := []rune(string(norm.NFD.PropertiesString(s).Decomposition()))
		if len(d) < 2 || !norm.NFC.IsNormalString(s) || inRanges(laterComposed, r) {
			continue
		}
		// A full decomposition's first part is what all but the last compose to.
		first := []rune(norm.NFC.String(string(d[:len(d)-1])))
		if len(first) == 1 {
			out[[2]rune{first[0], d[len(d)-1]}] = r
		}
	}
	return out
})

func composite(a, b rune) (rune, bool) {
	if leadBase <= a && a < leadBase+leads && vowelBase <= b && b < vowelBase+vowels {
		return hangulBase + ((a-leadBase)*vowels+b-vowelBase)*tails, true
	}
	if hangulBase <= a && a < hangulEnd && (a-hangulBase)%tails == 0 && tailBase < b && b < tailBase+tails {
		return a + b - tailBase, true
	}
	r, ok := composites()[[2]rune{a, b}]
	return r, ok
}

// compose puts characters together that are in canonical order: a mark joins the last character before it that is no
// mark, unless a mark of its own class or another such character stands between.
func compose(in []rune) []rune {
	out := in[:0]
	starter, last := -1, uint8(0)
	for _, r := range in {
		class := combiningClass(r)
		if starter >= 0 && (last < class || last == 0 && starter == len(out)-1) {
			if c, ok := composite(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		last = class
		out = append(out, r)
	}
	return out
}
