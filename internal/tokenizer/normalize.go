package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer/regex"
)

// normalizers builds the steps of a normalizer.
func normalizers(c *Component) ([]rule, error) {
	parts := c.Parts()
	if err := checkParts("normalizer", parts); err != nil {
		return nil, err
	}
	var out []rule
	var grow []growth
	for i := range parts {
		r, err := normalizer(&parts[i])
		if err != nil {
			return nil, fmt.Errorf("normalizer %s: %w", parts[i].Type, err)
		}
		if grow = append(grow, r.growth); r.apply != nil {
			out = append(out, r)
		}
	}
	return out, checkGrowth("normalizer", parts, grow)
}

// normalizer returns a rule, without a function if it changes nothing.
func normalizer(c *Component) (rule, error) {
	switch c.Type {
	case "NFC":
		return fixed(normalForm(norm.NFC)), nil
	case "NFD":
		return fixed(normalForm(norm.NFD)), nil
	case "NFKC":
		return fixed(normalForm(norm.NFKC)), nil
	case "NFKD":
		return fixed(normalForm(norm.NFKD)), nil
	case "Lowercase":
		return fixed(lowercase), nil
	case "Prepend":
		return rule{func(s string, most int) string {
			if s == "" || len(c.Prepend)+len(s) > most {
				return s
			}
			return c.Prepend + s
		}, growth{times: 1 + float64(len(c.Prepend)), writes: c.Prepend}}, nil
	case "Replace":
		return replacer(c)
	case "Strip":
		left, right := or(c.StripLeft, true), or(c.StripRight, true)
		return fixed(func(s string) string {
			if left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}), nil
	case "StripAccents":
		return fixed(without(accent)), nil
	case "Nmt":
		return fixed(nmt), nil
	case "ByteLevel":
		r := fixed(spreadBytes)
		r.growth = spreadGrowth
		return r, nil
	case "BertNormalizer":
		r := fixed(bertNormalizer(c))
		r.growth = growth{times: 5.0 / 3} // a space on each side of a character of three bytes
		return r, nil
	case "Precompiled":
		if len(c.Charsmap) == 0 {
			return rule{}, nil
		}
		m, err := newCharsmap(c.Charsmap)
		if err != nil {
			return rule{}, err
		}
		return rule{m.normalize, growth{times: float64(m.longest())}}, nil
	}
	return rule{}, fmt.Errorf("this normalizer is not supported; supported are NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents, Nmt, ByteLevel, BertNormalizer, Precompiled")
}

func replacer(c *Component) (rule, error) {
	switch {
	case c.Pattern == nil || c.Pattern.String == nil && c.Pattern.Regex == nil:
		return rule{}, fmt.Errorf("it names no pattern")
	case c.Pattern.String != nil:
		old := *c.Pattern.String
		if old == "" {
			return rule{}, nil
		}
		return rule{func(s string, most int) string {
			if more := len(c.Content) - len(old); more > 0 && strings.Count(s, old) > (most-len(s))/more {
				return s
			}
			return strings.ReplaceAll(s, old, c.Content)
		}, growth{float64(len(c.Content)) / float64(len(old)), old, c.Content}}, nil
	}
	re, err := regex.Compile(*c.Pattern.Regex)
	if err != nil {
		return rule{}, err
	}
	grow := growth{times: 1 + float64(len(c.Content)), writes: c.Content} // an empty match has the content added
	if n := re.Shortest(); n > 0 {
		grow.times = float64(len(c.Content)) / float64(n)
	}
	return rule{func(s string, most int) string {
		var b strings.Builder
		end := 0
		re.Scan(s, func(from, to int) {
			if b.Len() > most {
				return
			}
			b.WriteString(s[end:from])
			b.WriteString(c.Content)
			end = to
		})
		if end == 0 && b.Len() == 0 || b.Len()+len(s)-end > most {
			return s
		}
		b.WriteString(s[end:])
		return b.String()
	}, grow}, nil
}

// lowercase maps each character by itself; only one has two in lower case (SpecialCasing.txt).
func lowercase(s string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		switch {
		case r == 'İ':
			return r
		case r == 0x1C89, r == 0xA7CC, r == 0xA7CE, r == 0xA7D2, r == 0xA7D4, r == 0xA7DA: // Unicode 16 and 17
			return r + 1
		case r == 0xA7CB:
			return 0x264
		case r == 0xA7DC:
			return 0x19B
		case 0x10D50 <= r && r <= 0x10D65:
			return r + 0x20
		case 0x16EA0 <= r && r <= 0x16EB8:
			return r + 0x1B
		}
		return unicode.ToLower(r)
	}, s), "İ", "i\u0307")
}

// without drops the characters that fulfil is.
func without(is func(rune) bool) func(string) string {
	return func(s string) string {
		return strings.Map(func(r rune) rune {
			if is(r) {
				return -1
			}
			return r
		}, s)
	}
}

// nmt is the normalization of the NMT rules in SentencePiece: control characters go, other blanks become spaces.
func nmt(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == 9, r == 0xA, r == 0xC, r == 0xD, r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, s)
}

// bertNormalizer is BERT's normalizer (google-research/bert, tokenization.py).
func bertNormalizer(c *Component) func(string) string {
	lower := or(c.Lowercase, true)
	accents := or(c.StripAccents, lower)
	clean, chinese := or(c.CleanText, true), or(c.Chinese, true)
	decomposed := normalForm(norm.NFD)
	marks := without(nonspacing)
	return func(s string) string {
		var b strings.Builder
		b.Grow(len(s))
		for _, r := range s {
			if clean {
				switch {
				case r == '\t' || r == '\n' || r == '\r':
					r = ' '
				case r == utf8.RuneError || bertControl(r):
					continue
				case unicode.IsSpace(r):
					r = ' '
				}
			}
			if chinese && isChinese(r) {
				b.WriteByte(' ')
				b.WriteRune(r)
				b.WriteByte(' ')
				continue
			}
			b.WriteRune(r)
		}
		s = b.String()
		if accents {
			s = marks(decomposed(s))
		}
		if lower {
			s = lowercase(s)
		}
		return s
	}
}

// isChinese reports whether a character is in the blocks that BERT's normalizer separates. 0x2B920, where Unicode's
// block begins at 0x2B820, is Hugging Face's.
func isChinese(r rune) bool {
	for _, b := range [...][2]rune{
		{0x4E00, 0x9FFF},
		{0x3400, 0x4DBF},
		{0x20000, 0x2A6DF},
		{0x2A700, 0x2B73F},
		{0x2B740, 0x2B81F},
		{0x2B920, 0x2CEAF},
		{0xF900, 0xFAFF},
		{0x2F800, 0x2FA1F},
	} {
		if b[0] <= r && r <= b[1] {
			return true
		}
	}
	return false
}

// charsmap is SentencePiece's precompiled normalization: a double array (Darts) from character sequences to places in
// the replacements, each of which ends with a zero.
type charsmap struct {
	units        []uint32
	replacements string
}

func newCharsmap(b []byte) (*charsmap, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("the precompiled character map is cut short")
	}
	size := int(b[0]) | int(b[1])<<8 | int(b[2])<<16 | int(b[3])<<24
	if size < 4 || size%4 != 0 || size > len(b)-4 {
		return nil, fmt.Errorf("the precompiled character map is cut short")
	}
	m := &charsmap{units: make([]uint32, size/4), replacements: string(b[4+size:])}
	for i := range m.units {
		u := b[4+4*i:]
		m.units[i] = uint32(u[0]) | uint32(u[1])<<8 | uint32(u[2])<<16 | uint32(u[3])<<24
	}
	if n := m.longest(); n > maxReplacement {
		return nil, fmt.Errorf("the precompiled character map replaces characters by %d bytes, more than %d", n, maxReplacement)
	}
	return m, nil
}

// maxReplacement bounds a charsmap's replacement of a character, in bytes: SentencePiece's own maps write 33.
const maxReplacement = 256

// longest returns the bytes of the longest replacement.
func (m *charsmap) longest() (n int) {
	for text := range strings.SplitSeq(m.replacements, "\x00") {
		n = max(n, len(text))
	}
	return n
}

func (m *charsmap) offset(u uint32) uint32 { return (u >> 10) << ((u & (1 << 9)) >> 6) }

// find returns the replacements of text's shortest and longest prefix that has one, and the longest's length; 0: none.
func (m *charsmap) find(text string) (shortest, longest string, size int) {
	at := m.offset(m.units[0])
	for i := range len(text) {
		c := uint32(text[i])
		at ^= c
		if c == 0 || int(at) >= len(m.units) || m.units[at]&(1<<31|0xFF) != c {
			break
		}
		u := m.units[at]
		at ^= m.offset(u)
		if u>>8&1 == 0 {
			continue
		}
		if int(at) >= len(m.units) {
			break
		}
		from := m.units[at] & (1<<31 - 1)
		if int64(from) > int64(len(m.replacements)) {
			break
		}
		longest, _, _ = strings.Cut(m.replacements[from:], "\x00")
		if size == 0 {
			shortest = longest
		}
		size = i + 1
	}
	return shortest, longest, size
}

// normalize replaces as Hugging Face's library does: a short grapheme as a whole by what its shortest begin becomes,
// else each character.
func (m *charsmap) normalize(text string, most int) string {
	var b strings.Builder
	b.Grow(len(text))
	s := text
	for state := -1; s != ""; {
		if b.Len() > most {
			return text
		}
		var g string
		g, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(g) < 6 {
			if short, _, n := m.find(g); n > 0 {
				b.WriteString(short)
				continue
			}
		}
		for i, r := range g {
			char := g[i : i+utf8.RuneLen(r)]
			if short, _, n := m.find(char); n > 0 {
				b.WriteString(short)
			} else {
				b.WriteString(char)
			}
		}
	}
	return b.String()
}
