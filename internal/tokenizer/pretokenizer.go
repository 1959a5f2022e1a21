package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A splitter cuts text into the words within which bytes are merged, from left to right, leaving nothing out.
type splitter func(text string, emit func(word string))

type preTokenization struct {
	split      splitter
	wholeWords bool // a word that is a token is that token, whatever the merges say
}

// preTokenizer finds the splitter that tokenizer.ggml.pre names. Each is the regular expression of the model that
// it was made for, scanned by hand.
func preTokenizer(name string) (preTokenization, error) {
	switch name {
	case "", "default":
		return preTokenization{split: splitDefault}, nil
	case "gpt-2", "phi-2", "mpt", "olmo", "jais", "roberta-bpe":
		return preTokenization{split: each(nextGPT2)}, nil
	case "falcon":
		return preTokenization{split: splitFalcon}, nil
	case "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone":
		return preTokenization{split: splitDigits}, nil
	case "llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral":
		return preTokenization{split: each(nextLlama3), wholeWords: true}, nil
	case "qwen2", "deepseek-r1-qwen", "stablelm2":
		return preTokenization{split: each(nextQwen2)}, nil
	}
	return preTokenization{}, fmt.Errorf("pre-tokenizer %q is not supported; supported are default, gpt-2, falcon, llama-bpe, qwen2, smollm", name)
}

// each splits by the length of the next word of a text that is not empty.
func each(next func(text string) int) splitter {
	return func(text string, emit func(string)) {
		for text != "" {
			n := next(text)
			emit(text[:n])
			text = text[n:]
		}
	}
}

// class is what the expressions tell characters apart by.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	blank        // \s: Unicode's White_Space
)

// first returns the class of the first character and its length; length 0 at the end. Bytes that are not UTF-8 are other.
func first(text string) (class, int) {
	if text == "" {
		return other, 0
	}
	if c := text[0]; c < utf8.RuneSelf {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			return letter, 1
		case '0' <= c && c <= '9':
			return number, 1
		case c == ' ' || '\t' <= c && c <= '\r':
			return blank, 1
		}
		return other, 1
	}
	r, n := utf8.DecodeRuneInString(text)
	switch {
	case unicode.IsLetter(r):
		return letter, n
	case unicode.IsNumber(r):
		return number, n
	case unicode.IsSpace(r):
		return blank, n
	}
	return other, n
}

// run returns the length of the characters of class c at the text's begin, at most limit of them (0: all).
func run(text string, c class, limit int) int {
	end := 0
	for count := 0; limit == 0 || count < limit; count++ {
		k, n := first(text[end:])
		if n == 0 || k != c {
			break
		}
		end += n
	}
	return end
}

// nextGPT2 returns the next match of (GPT-2, encoder.py)
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func nextGPT2(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	lead := 0
	if text[0] == ' ' {
		lead = 1
	}
	if k, n := first(text[lead:]); n > 0 && k != blank {
		return lead + run(text[lead:], k, 0)
	}
	return blanks(text)
}

// nextLlama3 returns the next match of (Llama 3, tokenizer.py)
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func nextLlama3(text string) int { return nextByDigits(text, 3) }

// nextQwen2 is nextLlama3 with \p{N} in place of \p{N}{1,3} (Qwen2, tokenizer.json).
func nextQwen2(text string) int { return nextByDigits(text, 1) }

// nextByDigits returns the next match of Llama 3's expression with at most so many digits together.
func nextByDigits(text string, digits int) int {
	if n := contraction(text, true); n > 0 {
		return n
	}
	k, n := first(text)
	switch {
	case k == letter:
		return run(text, letter, 0)
	case k == number:
		return run(text, number, digits)
	case text[0] != '\r' && text[0] != '\n':
		if letters := run(text[n:], letter, 0); letters > 0 {
			return n + letters
		}
	}
	lead := 0
	if text[0] == ' ' {
		lead = 1
	}
	if n := run(text[lead:], other, 0); n > 0 {
		n += lead
		for n < len(text) && (text[n] == '\r' || text[n] == '\n') {
			n++
		}
		return n
	}
	if end := strings.LastIndexAny(text[:run(text, blank, 0)], "\r\n"); end >= 0 {
		return end + 1
	}
	return blanks(text)
}

// contraction returns the length of 's 't 're 've 'm 'll 'd at the text's begin, 0 if none is there.
func contraction(text string, anyCase bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	at := func(i int) byte {
		if i >= len(text) {
			return 0
		}
		if c := text[i]; anyCase && 'A' <= c && c <= 'Z' {
			return c | 0x20
		}
		return text[i]
	}
	switch at(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if at(2) == 'e' {
			return 3
		}
	case 'l':
		if at(2) == 'l' {
			return 3
		}
	}
	return 0
}

// blanks returns the match of \s+(?!\S)|\s+ on a text that begins with a blank: all of them at the text's end, else all
// but the last, which belongs to the word after it.
func blanks(text string) int {
	end, last := 0, 0
	for {
		k, n := first(text[end:])
		if n == 0 {
			return end
		}
		if k != blank {
			break
		}
		last, end = end, end+n
	}
	if last > 0 {
		return last
	}
	return end
}

// splitFalcon cuts out punctuation, splits what that leaves by GPT-2's expression, and cuts out of each word the
// groups of three ASCII digits, from the left (Falcon, tokenizer.json).
func splitFalcon(text string, emit func(string)) {
	words := each(nextGPT2)
	for text != "" {
		n := sameRun(text, falconPunctuation)
		words(text[:n], func(word string) { digitGroups(word, emit) })
		text = text[n:]
	}
}

// splitDefault is what llama.cpp does for files that name no pre-tokenizer: splitFalcon, but for the backtick, and with \p{N}+ cut
// out of each word before its groups of digits.
func splitDefault(text string, emit func(string)) {
	words := each(nextGPT2)
	for text != "" {
		n := sameRun(text, defaultPunctuation)
		words(text[:n], func(word string) {
			for word != "" {
				n := sameRun(word, unicode.IsNumber)
				digitGroups(word[:n], emit)
				word = word[n:]
			}
		})
		text = text[n:]
	}
}

// digitGroups cuts groups of three ASCII digits out of word, from the left.
func digitGroups(word string, emit func(string)) {
	rest := 0
	for i := 0; i+3 <= len(word); {
		if !digit(word[i]) || !digit(word[i+1]) || !digit(word[i+2]) {
			i++
			continue
		}
		if rest < i {
			emit(word[rest:i])
		}
		emit(word[i : i+3])
		i += 3
		rest = i
	}
	if rest < len(word) {
		emit(word[rest:])
	}
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// defaultPunctuation is [\p{P}$+<=>^~|].
func defaultPunctuation(r rune) bool {
	return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^~|", r)
}

// falconPunctuation is [\p{P}$+<=>^~|`].
func falconPunctuation(r rune) bool { return r == '`' || defaultPunctuation(r) }

// sameRun returns the length of the characters at the text's begin that all fulfil is, or all do not.
func sameRun(text string, is func(rune) bool) int {
	want := -1
	for i, r := range text {
		have := 0
		if is(r) {
			have = 1
		}
		if want < 0 {
			want = have
		}
		if have != want {
			return i
		}
	}
	return len(text)
}

// splitDigits cuts out every \p{N} by itself and splits the rest by GPT-2's expression (StarCoder, tokenizer.json).
func splitDigits(text string, emit func(string)) {
	words := each(nextGPT2)
	for text != "" {
		if n := run(text, number, 1); n > 0 {
			emit(text[:n])
			text = text[n:]
			continue
		}
		n := sameRun(text, unicode.IsNumber)
		words(text[:n], emit)
		text = text[n:]
	}
}
