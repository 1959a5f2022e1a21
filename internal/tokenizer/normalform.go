package tokenizer

import (
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalForm returns Unicode's normal form f of s like Hugging Face's library. Unlike golang.org/x/text it puts nothing
// between the marks of a run of more than thirty, and it does not change characters that the library does not know.
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

func combiningClass(r rune) uint8 { return properties().of(r).class }

// property is what decides whether a character is touched: its canonical combining class, and whether it comes apart in
// NFD and in NFKD.
type property struct {
	class     uint8
	nfd, nfkd bool
}

// propertyTable holds properties by the upper bits and the lower eight of a character; nil: none has any.
type propertyTable [unicode.MaxRune>>8 + 1]*[256]property

func (t *propertyTable) of(r rune) property {
	if page := t[uint32(r)>>8%uint32(len(t))]; page != nil {
		return page[uint8(r)]
	}
	return property{}
}

// properties is made once from golang.org/x/text's, because its lookups take several times as long.
var properties = sync.OnceValue(func() *propertyTable {
	t := &propertyTable{}
	for r := rune(0x80); r < 0x30000; r++ {
		s := string(r)
		d, k := norm.NFD.PropertiesString(s), norm.NFKD.PropertiesString(s)
		p := property{class: d.CCC(), nfd: d.Decomposition() != nil, nfkd: k.Decomposition() != nil}
		if inRanges(laterMarks, r) {
			p.class = 0
		}
		if inRanges(laterComposed, r) {
			p.nfd, p.nfkd = false, false
		}
		if p == (property{}) {
			continue
		}
		if t[r>>8] == nil {
			t[r>>8] = new([256]property)
		}
		t[r>>8][uint8(r)] = p
	}
	return t
})

// decompose returns the characters of s taken apart, marks in canonical order.
func decompose(f norm.Form, s string) []rune {
	if f == norm.NFC {
		f = norm.NFD
	} else if f == norm.NFKC {
		f = norm.NFKD
	}
	out := make([]rune, 0, utf8.RuneCountInString(s))
	table := properties()
	for i, r := range s {
		if hangulBase <= r && r < hangulEnd {
			at := r - hangulBase
			out = append(out, leadBase+at/(vowels*tails), vowelBase+at/tails%vowels)
			if tail := at % tails; tail > 0 {
				out = append(out, tailBase+tail)
			}
			continue
		}
		if p := table.of(r); p.nfd || p.nfkd && f == norm.NFKD {
			out = append(out, []rune(string(f.PropertiesString(s[i:]).Decomposition()))...)
		} else {
			out = append(out, r)
		}
	}
	for from := 0; from < len(out); from++ {
		to := from
		sorted := true
		for last := uint8(0); to < len(out); to++ {
			class := table.of(out[to]).class
			if class == 0 {
				break
			}
			sorted, last = sorted && class >= last, class
		}
		if !sorted {
			slices.SortStableFunc(out[from:to], func(a, b rune) int { return int(combiningClass(a)) - int(combiningClass(b)) })
		}
		from = max(from, to-1)
	}
	return out
}

// composites maps a pair of characters to its composition.
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

// compose composes characters in canonical order: a mark joins the last character before it that is not a mark, unless
// there is a mark of its own class or another such character between them.
func compose(in []rune) []rune {
	out := in[:0]
	starter, last := -1, uint8(0)
	table := properties()
	for _, r := range in {
		class := table.of(r).class
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
