package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer/regex"
)

// A splitter cuts text into parts, from left to right. start says that the text stands at the begin of all, and for a
// part that it stands at the begin of its text.
type splitter func(text string, start bool, emit func(part string, start bool))

// GPT-2's own expression (openai/gpt-2, encoder.py).
const gpt2Expression = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// splitters builds the steps of a pre-tokenizer. raw means that the last one, ByteLevel, leaves bytes as they are.
func splitters(parts []Component, raw bool) ([]splitter, error) {
	if err := checkParts("pre_tokenizer", parts); err != nil {
		return nil, err
	}
	var out []splitter
	grow := make([]growth, len(parts))
	for i := range parts {
		c := &parts[i]
		steps, err := partSplitters(c, raw && i == len(parts)-1)
		if err != nil {
			return nil, fmt.Errorf("pre_tokenizer %s: %w", c.Type, err)
		}
		out = append(out, steps...)
		switch c.Type {
		case "ByteLevel":
			grow[i] = spreadGrowth
		case "Metaspace":
			grow[i] = growth{float64(max(len(c.Replacement), len(space))), " ", c.Replacement}
		}
	}
	return out, checkGrowth("pre_tokenizer", parts, grow)
}

func partSplitters(c *Component, raw bool) ([]splitter, error) {
	one := func(s splitter, err error) ([]splitter, error) { return []splitter{s}, err }
	switch c.Type {
	case "ByteLevel":
		return byteLevelSplitters(c, raw)
	case "Split":
		return one(patternSplitter(c.Pattern, c.Behavior, c.Invert))
	case "Punctuation":
		behavior := c.Behavior
		if behavior == "" {
			behavior = "Isolated"
		}
		return one(byRune(isBertPunctuation, behavior))
	case "Digits":
		if c.Individual {
			return one(byRune(numeric, "Isolated"))
		}
		return one(byRune(numeric, "Contiguous"))
	case "WhitespaceSplit":
		return one(byRune(unicode.IsSpace, "Removed"))
	case "Whitespace":
		const word = `\p{Alpha}\p{M}\p{Nd}\p{Pc}\p{Join_Control}`
		expression := `[` + word + `]+|[^` + word + `\s]+`
		return one(patternSplitter(&Pattern{Regex: &expression}, "Removed", true))
	case "BertPreTokenizer":
		blank, err := byRune(unicode.IsSpace, "Removed")
		if err != nil {
			return nil, err
		}
		punctuation, err := byRune(isBertPunctuation, "Isolated")
		return []splitter{blank, punctuation}, err
	case "CharDelimiterSplit":
		return one(byRune(func(r rune) bool { return string(r) == c.Delimiter }, "Removed"))
	case "Metaspace":
		return one(metaspace(c))
	case "FixedLength":
		return []splitter{fixedLength(c.Length)}, nil
	case "UnicodeScripts":
		return []splitter{byScript}, nil
	}
	return nil, fmt.Errorf("this pre-tokenizer is not supported; supported are ByteLevel, Split, Punctuation, Digits, WhitespaceSplit, Whitespace, BertPreTokenizer, CharDelimiterSplit, Metaspace, FixedLength, UnicodeScripts")
}

func byteLevelSplitters(c *Component, raw bool) ([]splitter, error) {
	var out []splitter
	if or(c.AddPrefixSpace, true) {
		out = append(out, func(text string, start bool, emit func(string, bool)) {
			if !strings.HasPrefix(text, " ") {
				text = " " + text
			}
			emit(text, true)
		})
	}
	if or(c.UseRegex, true) {
		expression := gpt2Expression
		s, err := patternSplitter(&Pattern{Regex: &expression}, "Isolated", false)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if !raw {
		out = append(out, func(text string, start bool, emit func(string, bool)) { emit(spreadBytes(text), true) })
	}
	return out, nil
}

// isBertPunctuation counts all of ASCII that is neither letter, digit, blank nor control character.
func isBertPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7F && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return punctuation(r)
}

// A scanner calls emit for the matches in text and for the text between them.
type scanner func(text string, emit func(part string, match bool))

func patternSplitter(p *Pattern, behavior string, invert bool) (splitter, error) {
	var scan scanner
	switch {
	case p == nil || p.String == nil && p.Regex == nil:
		return nil, fmt.Errorf("it names no pattern")
	case p.String != nil:
		scan = byString(*p.String)
	default:
		re, err := regex.Compile(*p.Regex)
		if err != nil {
			return nil, err
		}
		scan = re.Split
	}
	if invert {
		plain := scan
		scan = func(text string, emit func(string, bool)) {
			plain(text, func(part string, match bool) { emit(part, !match) })
		}
	}
	return behave(scan, behavior)
}

func byString(s string) scanner {
	return func(text string, emit func(string, bool)) {
		for s != "" {
			at := strings.Index(text, s)
			if at < 0 {
				break
			}
			if at > 0 {
				emit(text[:at], false)
			}
			emit(text[at:at+len(s)], true)
			text = text[at+len(s):]
		}
		if text != "" {
			emit(text, false)
		}
	}
}

func byRune(is func(rune) bool, behavior string) (splitter, error) {
	return behave(func(text string, emit func(string, bool)) {
		done := 0
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRuneInString(text[i:])
			if is(r) {
				if done < i {
					emit(text[done:i], false)
				}
				done = i + n
				emit(text[i:done], true)
			}
			i += n
		}
		if done < len(text) {
			emit(text[done:], false)
		}
	}, behavior)
}

// behave says what becomes of matches: SplitDelimiterBehavior of Hugging Face's library.
func behave(scan scanner, behavior string) (splitter, error) {
	switch behavior {
	case "Isolated":
		return func(text string, _ bool, emit func(string, bool)) {
			start := true
			scan(text, func(part string, _ bool) { emit(part, start); start = false })
		}, nil
	case "Removed":
		return func(text string, _ bool, emit func(string, bool)) {
			start := true
			scan(text, func(part string, match bool) {
				if !match {
					emit(part, start)
				}
				start = false
			})
		}, nil
	}
	var joins func(previous, match bool) bool // whether a part joins the one before it
	switch behavior {
	case "MergedWithPrevious":
		joins = func(previous, match bool) bool { return match && !previous }
	case "Contiguous":
		joins = func(previous, match bool) bool { return match == previous }
	case "MergedWithNext":
		joins = func(previous, match bool) bool { return previous && !match }
	default:
		return nil, fmt.Errorf("behavior %q is not supported", behavior)
	}
	return func(text string, _ bool, emit func(string, bool)) {
		from, to, previous := 0, 0, false
		scan(text, func(part string, match bool) {
			if to > from && !joins(previous, match) {
				emit(text[from:to], from == 0)
				from = to
			}
			to += len(part)
			previous = match
		})
		if to > from {
			emit(text[from:to], from == 0)
		}
	}, nil
}

// metaspace writes spaces as SentencePiece does and cuts before each.
func metaspace(c *Component) (splitter, error) {
	mark, err := onlyCharacter(c)
	if err != nil {
		return nil, err
	}
	scheme := c.PrependScheme
	if scheme == "" {
		scheme = "always"
	}
	if !or(c.AddPrefixSpace, true) {
		scheme = "never"
	}
	cut := or(c.Split, true)
	return func(text string, start bool, emit func(string, bool)) {
		text = strings.ReplaceAll(text, " ", mark)
		if (scheme == "always" || scheme == "first" && start) && !strings.HasPrefix(text, mark) {
			text = mark + text
		}
		if !cut {
			emit(text, true)
			return
		}
		for first := true; text != ""; first = false {
			end := len(text)
			_, n := utf8.DecodeRuneInString(text)
			if i := strings.Index(text[n:], mark); i >= 0 {
				end = n + i
			}
			emit(text[:end], first)
			text = text[end:]
		}
	}, nil
}

func fixedLength(n int) splitter {
	n = max(n, 1)
	return func(text string, _ bool, emit func(string, bool)) {
		from, count := 0, 0
		for i := range text {
			if count == n {
				emit(text[from:i], from == 0)
				from, count = i, 0
			}
			count++
		}
		if from < len(text) {
			emit(text[from:], from == 0)
		}
	}
}

// byScript cuts where the script changes, but not at what all scripts share. Kana count as Han.
func byScript(text string, _ bool, emit func(string, bool)) {
	from, last := 0, ""
	for i, r := range text {
		s := script(r)
		if s == "" {
			continue
		}
		if last != "" && last != s && i > from {
			emit(text[from:i], from == 0)
			from = i
		}
		last = s
	}
	if from < len(text) {
		emit(text[from:], from == 0)
	}
}

func script(r rune) string {
	switch {
	case r == ' ':
		return ""
	case r == 'ー', unicode.In(r, unicode.Hiragana, unicode.Katakana):
		return "Han"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
