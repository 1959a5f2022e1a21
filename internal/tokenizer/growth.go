package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A rule is a step of a normalizer, a pre-tokenizer or a decoder. Files compose them, so that rules which double a text
// could follow each other.
type rule struct {
	// apply returns what becomes of a text. A rule that the file words returns the text as it is where the result would
	// have more than most bytes.
	apply  func(text string, most int) string
	growth growth
}

// growth is how a rule lengthens texts. The zero value does not, or only as far as Unicode's normal forms do, which have
// no effect on what they wrote.
type growth struct {
	times  float64 // bytes of the result for one of the text, at most
	reads  string  // the rule changes texts with one of these characters; empty: any
	writes string  // the characters that it writes; empty: any
}

// maxGrowth bounds the times that rules one after the other lengthen a text in the worst case, as far as the file words
// them: those of T5 do it 99 times.
const maxGrowth = 1024

// A text grows to at most textGrowth times its length and some bytes, and beyond twice its length by textMore bytes.
// Rules that would let it grow further are left out for that text. The normal form of one character, U+FDFA, is 11 times
// as long, 13 times with its spaces written as SentencePiece does, and 22 times in GPT-2's characters for bytes.
const (
	textGrowth = 32
	textLeast  = 64
	textMore   = 256 << 20
)

// mostBytes returns how long a text of n bytes may become.
func mostBytes(n int) int { return min(textGrowth*n+textLeast, 2*n+textMore) }

// apply returns what rules make of a text.
func apply(rules []rule, text string) string {
	most := mostBytes(len(text))
	for _, r := range rules {
		text = r.apply(text, most)
	}
	return text
}

// spreadGrowth is that of writing bytes in GPT-2's characters, of which some have two bytes.
var spreadGrowth = growth{times: 2}

// fixed is a rule that Unicode or another standard words.
func fixed(f func(string) string) rule {
	return rule{apply: func(text string, _ int) string { return f(text) }}
}

// checkGrowth refuses rules of which each lengthens what those before it wrote. what says of which component parts are.
func checkGrowth(what string, parts []Component, rules []growth) error {
	reached := make([]float64, len(rules)) // the times that rule i and those which it follows lengthen a text
	for i, r := range rules {
		if r.times <= 1 {
			continue
		}
		reached[i] = r.times
		for j, before := range rules[:i] {
			if reached[j]*r.times > reached[i] && before.feeds(r) {
				reached[i] = reached[j] * r.times
			}
		}
		if reached[i] > maxGrowth {
			return fmt.Errorf("%s %s, number %d of %d, and those before it make a text up to %.0f times as long, more than %d times; take a tokenizer without such rules",
				what, parts[i].Type, i+1, len(rules), reached[i], maxGrowth)
		}
	}
	return nil
}

// feeds reports whether a rule may write what another changes.
func (g growth) feeds(other growth) bool {
	return g.writes == "" || other.reads == "" || strings.ContainsAny(strings.ToLower(g.writes), strings.ToLower(other.reads))
}

// maxRules bounds the rules of a component.
const maxRules = 1000

func checkParts(what string, parts []Component) error {
	if len(parts) > maxRules {
		return fmt.Errorf("the %s has %d parts, more than %d", what, len(parts), maxRules)
	}
	return nil
}

// onlyCharacter returns the replacement of a Metaspace, one character as in Hugging Face's library.
func onlyCharacter(c *Component) (string, error) {
	switch mark := c.Replacement; utf8.RuneCountInString(mark) {
	case 0:
		return space, nil
	case 1:
		return mark, nil
	default:
		return "", fmt.Errorf("the replacement %.20q is not one character", mark)
	}
}
