package tokenizer

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The published expressions in the syntax of Go's regexp package, which prefers alternatives like theirs. It has no
// look-ahead: \s+(?!\S)|\s+ is \s+ here, and what the look-ahead gives back is cut off the match (see matches).
const (
	white      = `\t-\r\x{85}\p{Z}` // \s over Unicode
	gpt2Syntax = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^` + white + `\p{L}\p{N}]+|[` + white + `]+`
	llamaHead  = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}`
	llamaTail  = `| ?[^` + white + `\p{L}\p{N}]+[\r\n]*|[` + white + `]*[\r\n]+|[` + white + `]+`
)

// matches cuts text into an expression's matches and the texts between them.
func matches(re *regexp.Regexp, text string) []string {
	var words []string
	for text != "" {
		at := re.FindStringIndex(text)
		if at == nil {
			return append(words, text)
		}
		if at[0] > 0 {
			words = append(words, text[:at[0]])
		}
		word := text[at[0]:at[1]]
		if givesBack(re, word) && at[1] < len(text) {
			if _, last := utf8.DecodeLastRuneInString(word); last < len(word) {
				word = word[:len(word)-last]
			}
		}
		words = append(words, word)
		text = text[at[0]+len(word):]
	}
	return words
}

// givesBack reports whether word is a match of \s+(?!\S), which leaves the last blank to the next word. A match that
// ends with a newline belongs to \s*[\r\n]+ if the expression has that.
func givesBack(re *regexp.Regexp, word string) bool {
	if strings.TrimRight(word, "\r\n") != word && strings.Contains(re.String(), `]*[\r\n]+`) {
		return false
	}
	return regexp.MustCompile(`^[` + white + `]+$`).MatchString(word)
}

// inEach applies an expression within each word.
func inEach(re *regexp.Regexp, words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, matches(re, w)...)
	}
	return out
}

// TestPreTokenizers compares the scanners with the expressions that they stand for.
func TestPreTokenizers(t *testing.T) {
	gpt2 := regexp.MustCompile(gpt2Syntax)
	llama3 := regexp.MustCompile(llamaHead + `{1,3}` + llamaTail)
	qwen2 := regexp.MustCompile(llamaHead + llamaTail)
	spark := regexp.MustCompile(asciiMarks + `[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|[` + white + `]+`)
	turkish := regexp.MustCompile(strings.TrimPrefix(llamaHead, `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|`) + llamaTail)
	cjk := regexp.MustCompile(`[一-龥぀-ゟ゠-ヿ]+`)
	punctuation, three := regexp.MustCompile("[\\p{P}$+<=>^~|`]+"), regexp.MustCompile(`[0-9][0-9][0-9]`)
	number, numbers, plain := regexp.MustCompile(`\p{N}`), regexp.MustCompile(`\p{N}+`), regexp.MustCompile(`[\p{P}$+<=>^~|]+`)
	want := map[string]func(string) []string{
		"gpt-2":     func(s string) []string { return matches(gpt2, s) },
		"llama-bpe": func(s string) []string { return matches(llama3, s) },
		"qwen2":     func(s string) []string { return matches(qwen2, s) },
		"falcon":    func(s string) []string { return inEach(three, inEach(gpt2, matches(punctuation, s))) },
		"default":   func(s string) []string { return inEach(three, inEach(numbers, inEach(gpt2, matches(plain, s)))) },
		"smollm":    func(s string) []string { return inEach(gpt2, matches(number, s)) },
		"spark2_5":  func(s string) []string { return inEach(spark, inEach(cjk, matches(number, s))) },
		"ufakzeka":  func(s string) []string { return matches(turkish, s) },
	}
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	parts := []string{
		" ", " ", "  ", "\n", "\r", "\t", "\u00a0", "\u2003", "\u0085", "\u3000", "'", "'s", "'RE", "'ll", "'L", "a", "Zeta", "é", "ß", "я", "日本",
		"1", "12", "345", "6789", "٣", "½", "Ⅷ", ".", "...", "!?", "_", "$", "+", "=", "`", "€", "🦙", "្", "\u200d", "<|", "«",
	}
	for name, define := range want {
		pre, known := preTokenizer(name)
		if !known {
			t.Fatalf("%s is not known", name)
		}
		steps, err := pre.splitters()
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			var text strings.Builder
			for range rng.IntN(12) {
				text.WriteString(parts[rng.IntN(len(parts))])
			}
			var got []string
			var cut func(step int, text string)
			cut = func(step int, text string) {
				if step == len(steps) {
					got = append(got, text)
					return
				}
				steps[step](text, true, func(part string, _ bool) { cut(step+1, part) })
			}
			if text.Len() > 0 {
				cut(0, text.String())
			}
			if expected := define(text.String()); !slices.Equal(got, expected) {
				t.Fatalf("%s (seed %d): %q:\n got %q\nwant %q", name, seed, text.String(), got, expected)
			}
		}
	}
}

// TestNamedPreTokenizers: every name that llama.cpp knows has expressions that compile; other names mean the default.
func TestNamedPreTokenizers(t *testing.T) {
	for _, name := range strings.Fields(`default minicpm5 llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano deepseek-llm
		deepseek-coder deepseek-v3 youtu falcon mpt starcoder gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert
		jais-2 gemma4 granite-embed-multi-311m sarvam-moe jina-v1-en jina-v2-code roberta-bpe whitespace refact command-r qwen2 deepseek-r1-qwen kormo
		f2llmv2 qwen35 stablelm2 olmo dbrx smaug-bpe poro-chat glm4 chatglm-bpe viking jais tekken smollm codeshell bloom gpt3-finnish exaone exaone4
		exaone-moe chameleon minerva-7b megrez gpt-4o llama4 kanana2 talkie granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion
		granite-docling bailingmoe bailingmoe2 llada-moe seed-coder hunyuan hunyuan-dense joyai-llm kimi-k2 grok-2 afmoe laguna minimax-m2 solar-open
		mellum2 hy_v4 spark2_5 ufakzeka`) {
		if pre, known := preTokenizer(name); !known {
			t.Errorf("%s is not known", name)
		} else if _, err := pre.splitters(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	tok, other := mustNew(t, bytesVocab("made-up")), mustNew(t, bytesVocab("default"))
	text := "a12345 b... $x"
	if got, want := tok.Encode(text, false, false), other.Encode(text, false, false); KnownPreTokenizer("made-up") || !slices.Equal(got, want) {
		t.Errorf("an unknown pre-tokenizer gives %v, the default %v", got, want)
	}
	if !strings.Contains(tok.Note(), `"made-up"`) || other.Note() != "" {
		t.Errorf("notes %q and %q", tok.Note(), other.Note())
	}
}

// llamaPreTokenizers are the names that llama.cpp compares tokenizer.ggml.pre with: tokenizer_pre in
// src/llama-vocab.cpp at v0.5.0.
const llamaPreTokenizers = `
a.x-4.0 afmoe bailingmoe bailingmoe2 bloom chameleon chatglm-bpe codeshell cohere2moe command-r dbrx deepseek-coder deepseek-llm
deepseek-r1-qwen deepseek-v3 default exaone exaone-moe exaone4 f2llmv2 falcon falcon-h1 falcon3 gemma4 gigachat glm4 gpt-2 gpt-4o
gpt3-finnish granite-docling granite-embed-multi-311m granite-embed-multi-97m grok-2 hunyuan hunyuan-dense hy_v4 jais jais-2 jina-de jina-es
jina-v1-en jina-v2-code jina-v2-de jina-v2-es jina-v5-nano joyai-llm kanana2 kimi-k2 kormo laguna lfm2 llada-moe llama-bpe llama-v3 llama3
llama4 megrez mellum mellum2 midm-2.0 minerva-7b minicpm5 minimax-m2 modern-bert mpt olmo phi-2 pixtral poro-chat qwen2 qwen35 refact
roberta-bpe sarvam-moe seed-coder smaug-bpe smollm solar-open stablelm2 spark2_5 starcoder superbpe talkie tekken tiny_aya trillion
ufakzeka viking whitespace youtu`

// TestLlamaPreTokenizers: every name that llama.cpp knows is known.
func TestLlamaPreTokenizers(t *testing.T) {
	for _, name := range strings.Fields(llamaPreTokenizers) {
		if !KnownPreTokenizer(name) {
			t.Errorf("%s is cut by the default expressions", name)
		}
	}
	if KnownPreTokenizer("none of them") {
		t.Error("every name is known")
	}
}
