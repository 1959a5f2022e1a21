package jinja

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

func unescapeHTML(s string) string { return html.UnescapeString(s) }

func wordWrapFilter(c *call, a []Value) (Value, error) {
	s, err := wantText(a[0], "what is wrapped")
	if err != nil {
		return nil, err
	}
	width, err := wantInt(a[1], "width", 79)
	if err != nil {
		return nil, err
	}
	if width <= 0 {
		return nil, typeErrorf("invalid width %d (must be > 0)", width)
	}
	sep := "\n"
	if !isNone(a[3]) {
		if sep, err = wantText(a[3], "wrapstring"); err != nil {
			return nil, err
		}
	}
	w := &wrapper{width: int(min(width, maxSource)), breakWords: a[2] == nil || truth(a[2]), hyphens: a[4] == nil || truth(a[4])}
	if err := c.r.growTimes(len(s), 2*valueSize+len(sep)); err != nil {
		return nil, err
	}
	var lines []string
	for _, l := range splitLines(s) {
		lines = append(lines, strings.Join(w.wrap(withoutEnd(l)), sep))
	}
	return strings.Join(lines, sep), nil
}

// A wrapper breaks a paragraph into lines, as Python's textwrap does with its white space kept.
type wrapper struct {
	width               int
	breakWords, hyphens bool
}

func (w *wrapper) wrap(s string) []string {
	var lines []string
	chunks := w.chunks(s)
	for len(chunks) > 0 {
		if len(lines) > 0 && strings.TrimFunc(chunks[0], isSpace) == "" {
			chunks = chunks[1:]
		}
		var line []string
		length := 0
		for len(chunks) > 0 {
			if _, longer := cutAt(chunks[0], w.width-length); longer {
				break
			}
			line, length, chunks = append(line, chunks[0]), length+utf8.RuneCountInString(chunks[0]), chunks[1:]
		}
		if len(chunks) > 0 && w.isLong(chunks[0]) {
			if head, rest := w.long(chunks[0], w.width-length, len(line) == 0); head != "" || w.breakWords {
				line = append(line, head) // an empty one keeps the space before it, as in Python
				chunks[0] = rest
				if rest == "" {
					chunks = chunks[1:]
				}
			}
		}
		if n := len(line); n > 0 && strings.TrimFunc(line[n-1], isSpace) == "" {
			line = line[:n-1]
		}
		if len(line) > 0 {
			lines = append(lines, strings.Join(line, ""))
		}
	}
	return lines
}

// cutAt returns the end of the first n code points of s, and whether s is longer. It reads no further.
func cutAt(s string, n int) (end int, longer bool) {
	for ; n > 0 && end < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return end, end < len(s)
}

// isLong reports whether a word fits on no line.
func (w *wrapper) isLong(word string) bool {
	_, longer := cutAt(word, w.width)
	return longer
}

// long breaks a word that fits on no line; room code points are left, and first means that the line is empty.
func (w *wrapper) long(word string, room int, first bool) (head, rest string) {
	if !w.breakWords {
		if first {
			return word, ""
		}
		return "", word
	}
	end, longer := cutAt(word, room)
	if w.hyphens && longer {
		if i := strings.LastIndexByte(word[:end], '-'); i > 0 && strings.Trim(word[:i], "-") != "" {
			end = i + 1
		}
	}
	return word[:end], word[end:]
}

// chunks cuts a paragraph into words and white space; words may break after hyphens between letters.
func (w *wrapper) chunks(s string) []string {
	var chunks []string
	runes := []rune(s)
	for i := 0; i < len(runes); {
		j := i
		if isWrapSpace(runes[i]) {
			for j < len(runes) && isWrapSpace(runes[j]) {
				j++
			}
		} else {
			for j < len(runes) && !isWrapSpace(runes[j]) {
				j++
				if w.hyphens && breaksAfter(runes, i, j) {
					break
				}
			}
		}
		chunks = append(chunks, string(runes[i:j]))
		i = j
	}
	return chunks
}

func isWrapSpace(r rune) bool { return strings.ContainsRune("\t\n\x0b\x0c\r ", r) }

// breaksAfter reports whether the word that begins at i may break before j: after a hyphen with two letters before it
// and a letter pair after it.
func breaksAfter(r []rune, i, j int) bool {
	letter := func(k int) bool { return k >= 0 && k < len(r) && (r[k] == '_' || unicode.IsLetter(r[k])) }
	if r[j-1] != '-' || j-1 == i {
		return false
	}
	before := letter(j-2) && letter(j-3) || letter(j-2) && j >= 4 && r[j-3] == '-' && letter(j-4)
	after := letter(j) && (letter(j+1) || j+2 < len(r) && r[j+1] == '-' && letter(j+2))
	return before && after && (j-2 >= i)
}
