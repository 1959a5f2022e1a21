package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A rule is a step of a normalizer, a pre-tokenizer or a decoder. Files combine them freely, so many rules that double
// a text could follow one another.
type rule struct {
	// apply returns the changed text. A rule with an effect that the file chooses returns the text unchanged if the
	// result would have more than most bytes.
	apply  func(text string, most int) string
	growth growth
}

// growth says how much longer a rule makes a text. The zero value is for rules that do not, or only as Unicode's normal
// forms do, which do not change their own output.
type growth struct {
	times  float64 // most bytes of the result for each byte of the text
	reads  string  // the rule changes only texts with one of these characters; empty: any
	writes string  // the characters that it writes; empty: any
}

// maxGrowth bounds how many times longer the rules of a file may make a text in the worst case. T5's make it 99 times
// longer.
const maxGrowth = 1024

// A text of n bytes may grow to textGrowth·n + textLeast bytes, and to at most 2·n + textMore. A rule that would make
// it longer is left out for that text. The normal form of one character, U+FDFA, is 11 times as long, 13 times with its
// spaces written as SentencePiece does, and 22 times in GPT-2's characters for bytes.
const (
	textGrowth = 32
	textLeast  = 64
	textMore   = 256 << 20
)

// mostBytes returns how long a text of n bytes may become.
func mostBytes(n int) int { return min(textGrowth*n+textLeast, 2*n+textMore) }

// apply applies rules to a text, one after the other.
func apply(rules []rule, text string) string {
	most := mostBytes(len(text))
	for _, r := range rules {
		text = r.apply(text, most)
	}
	return text
}

// spreadGrowth is the growth of writing bytes in GPT-2's characters; some take two bytes.
var spreadGrowth = growth{times: 2}

// fixed returns a rule with an effect that a standard such as Unicode defines.
func fixed(f func(string) string) rule {
	return rule{apply: func(text string, _ int) string { return f(text) }}
}

// checkGrowth refuses rules that together make a text more than maxGrowth times as long, because each lengthens what
// others wrote. parts are the rules' definitions; what names their component.
func checkGrowth(what string, parts []Component, rules []growth) error {
	reached := make([]float64, len(rules)) // how many times longer rule i and the rules before it make a text
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
