package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// preTokenizer is the scanner of a pre-tokeniser's regular expression: it cuts a text into words, all of it.
func preTokenizer(pre string) (func(text string, word func(string)), error) {
	switch pre {
	case "", "default", "gpt-2", "gpt2", "phi-2", "olmo", "jina-es", "jina-de", "mpt":
		return scanner(matchGPT2), nil
	case "llama-bpe", "llama3", "llama-v3", "smaug-bpe", "falcon3":
		return scanner(func(s string) int { return matchLlama3(s, 3) }), nil
	case "qwen2", "deepseek-r1-qwen":
		return scanner(func(s string) int { return matchLlama3(s, 1) }), nil
	case "falcon":
		return falconWords, nil
	}
	return nil, fmt.Errorf("tokenizer: pre-tokeniser %q is not supported; supported are gpt-2, falcon, llama-bpe, qwen2", pre)
}

// scanner repeats match, which returns the length of the word at the beginning of a text that is not empty.
func scanner(match func(string) int) func(string, func(string)) {
	return func(text string, word func(string)) {
		for text != "" {
			n := match(text)
			word(text[:n])
			text = text[n:]
		}
	}
}

func isLetter(r rune) bool { return unicode.Is(unicode.L, r) }
func isNumber(r rune) bool { return unicode.Is(unicode.N, r) }

// isSpace is \s: Unicode's White_Space.
func isSpace(r rune) bool { return unicode.Is(unicode.White_Space, r) }

func isOther(r rune) bool { return !isSpace(r) && !isLetter(r) && !isNumber(r) }

// run is the length in bytes of s's longest beginning of code points that are in class, at most limit of them.
func run(s string, in func(rune) bool, limit int) int {
	at := 0
	for n := 0; at < len(s) && n < limit; n++ {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !in(r) {
			break
		}
		at += size
	}
	return at
}

const unlimited = 1 << 62

// contraction matches 's|'t|'re|'ve|'m|'ll|'d.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	// ſ (U+017F) folds to s, as a case-insensitive regular expression has it.
	if fold && strings.HasPrefix(s[1:], "ſ") {
		return 1 + len("ſ")
	}
	rest := s[1:min(len(s), 3)]
	if fold {
		rest = strings.ToLower(rest)
	}
	for _, c := range []string{"re", "ve", "ll"} {
		if rest == c {
			return 3
		}
	}
	switch rest[0] {
	case 's', 't', 'm', 'd':
		return 2
	}
	return 0
}

// whitespace matches \s+(?!\S)|\s+ at s, which begins with white space: all of it, less its last code point
// where a word follows.
func whitespace(s string) int {
	n := run(s, isSpace, unlimited)
	if n == len(s) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n > last {
		return n - last
	}
	return n
}

// matchGPT2 is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func matchGPT2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	lead := 0
	if s[0] == ' ' {
		lead = 1
	}
	for _, class := range []func(rune) bool{isLetter, isNumber, isOther} {
		if n := run(s[lead:], class, unlimited); n > 0 {
			return lead + n
		}
	}
	return whitespace(s)
}

// matchLlama3 is (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func matchLlama3(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	first, size := utf8.DecodeRuneInString(s)
	if isLetter(first) {
		return run(s, isLetter, unlimited)
	}
	if first != '\r' && first != '\n' && !isNumber(first) {
		if n := run(s[size:], isLetter, unlimited); n > 0 {
			return size + n
		}
	}
	if n := run(s, isNumber, digits); n > 0 {
		return n
	}
	lead := 0
	if s[0] == ' ' {
		lead = 1
	}
	if n := run(s[lead:], isOther, unlimited); n > 0 {
		n += lead
		return n + run(s[n:], isBreak, unlimited)
	}
	n := run(s, isSpace, unlimited)
	if last := strings.LastIndexAny(s[:n], "\r\n"); last >= 0 {
		return last + 1
	}
	return whitespace(s)
}

func isBreak(r rune) bool { return r == '\r' || r == '\n' }

// isFalconMark is [\p{P}\$\+<=>\^~\|`], which Falcon cuts off first.
func isFalconMark(r rune) bool {
	return unicode.Is(unicode.P, r) || strings.ContainsRune("$+<=>^~|`", r)
}

// falconWords cuts runs of punctuation off, then by GPT-2's expression, then digits by threes.
func falconWords(text string, word func(string)) {
	byThrees := func(s string) {
		for s != "" {
			at := 0
			for at < len(s) && digitsAt(s[at:]) == 0 {
				_, size := utf8.DecodeRuneInString(s[at:])
				at += size
			}
			if at > 0 {
				word(s[:at])
				s = s[at:]
				continue
			}
			word(s[:3])
			s = s[3:]
		}
	}
	for text != "" {
		if n := run(text, isFalconMark, unlimited); n > 0 {
			scanner(matchGPT2)(text[:n], byThrees)
			text = text[n:]
			continue
		}
		n := run(text, func(r rune) bool { return !isFalconMark(r) }, unlimited)
		scanner(matchGPT2)(text[:n], byThrees)
		text = text[n:]
	}
}

// digitsAt is 3 where s begins with [0-9][0-9][0-9], else 0.
func digitsAt(s string) int {
	if len(s) < 3 {
		return 0
	}
	for i := range 3 {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
	}
	return 3
}
