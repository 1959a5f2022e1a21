// Package terminal keeps text that comes from files, models and servers from commanding the terminal that shows it.
package terminal

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// A Cleaner removes from a text what a terminal would obey instead of showing, and what hides text from its reader. The
// text may come in pieces, which may end within a character. The zero value is at the beginning of a text.
//
// It removes control characters other than line feeds and tabs (C0, DEL and C1; escape sequences become plain text
// without their first character), marks that override the direction of writing, and invisible characters that carry
// text. Joiners, the marks of Arabic and Hebrew, accents and the parts of emoji stay. Bytes that are not UTF-8 become
// U+FFFD, because 8-bit terminals would take them for C1.
type Cleaner struct {
	held []byte // the beginning of a character

	marks    int  // combining marks in a row
	selected bool // the last character was a variation selector
	tags     int  // tag characters that may follow: they are parts of a flag
}

// mostMarks bounds the combining marks of a character; more of them would cover the lines above. Unicode's Stream-Safe
// Text Format (UAX #15) has the same bound.
const mostMarks = 30

// Flags of regions are a black flag, a region's code of at most six letters in tag characters, and a cancel tag (UTS
// #51). Other tag characters are invisible text.
const (
	blackFlag = '\U0001F3F4'
	cancelTag = '\U000E007F'
	mostTags  = 6
)

// Clean returns a whole text, cleaned.
func Clean(text string) string {
	var c Cleaner
	return c.Text(text) + c.End()
}

// Text takes the next piece and returns what can be shown now.
func (c *Cleaner) Text(piece string) string {
	if plain(piece) && len(c.held) == 0 {
		c.marks, c.selected, c.tags = 0, false, 0
		return piece
	}
	return string(c.Append(nil, []byte(piece)))
}

// End ends the text. It returns U+FFFD if the text ended within a character, and else nothing.
func (c *Cleaner) End() string {
	half := len(c.held) > 0
	*c = Cleaner{}
	if half {
		return string(utf8.RuneError)
	}
	return ""
}

// plain reports whether a text has only printable ASCII, line feeds and tabs.
func plain(text string) bool {
	for i := range len(text) {
		if b := text[i]; b < ' ' && b != '\n' && b != '\t' || b >= 0x7f {
			return false
		}
	}
	return true
}

// Append appends the result of Text to to.
func (c *Cleaner) Append(to, piece []byte) []byte {
	if len(c.held) > 0 {
		piece = append(c.held, piece...)
		c.held = nil
	}
	for len(piece) > 0 {
		if !utf8.FullRune(piece) {
			c.held = bytes.Clone(piece)
			break
		}
		r, size := utf8.DecodeRune(piece)
		piece = piece[size:]
		to = c.character(to, r)
	}
	return to
}

func (c *Cleaner) character(to []byte, r rune) []byte {
	switch {
	case r >= ' ' && r < 0x7f, r == '\n', r == '\t':
		c.marks, c.selected, c.tags = 0, false, 0
		return append(to, byte(r))
	case r == '\u2028' || r == '\u2029': // Unicode's own line and paragraph separators, which terminals do not know
		r = '\n'
	case unicode.IsControl(r) || overrides(r) || hidden(r):
		return to
	case r >= 0xe0000 && r <= cancelTag:
		if c.tags == 0 || r < 0xe0020 {
			return to
		}
		if c.tags--; r == cancelTag {
			c.tags = 0
		} else if c.tags == 0 { // only the cancel tag has room
			return to
		}
		return utf8.AppendRune(to, r)
	case unicode.Is(unicode.Variation_Selector, r):
		if c.selected {
			return to
		}
		c.selected = true
		return utf8.AppendRune(to, r)
	}
	c.selected, c.tags = false, 0
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		if c.marks++; c.marks > mostMarks {
			return to
		}
	case r == blackFlag:
		c.marks, c.tags = 0, mostTags+1
	default:
		c.marks = 0
	}
	return utf8.AppendRune(to, r)
}

// overrides reports whether r changes the direction of the text that follows, whatever that is (UAX #9: embeddings,
// overrides and isolates). The marks U+200E, U+200F and U+061C only stand for a letter of a direction.
func overrides(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// hidden reports whether r is invisible and honest text for a terminal does not need it: invisible mathematical
// operators, deprecated format characters, annotation marks, and a byte order mark within a text.
func hidden(r rune) bool {
	return r >= 0x2060 && r <= 0x2064 || r >= 0x206a && r <= 0x206f || r >= 0xfff9 && r <= 0xfffb || r == 0xfeff || r == 0x180e
}
