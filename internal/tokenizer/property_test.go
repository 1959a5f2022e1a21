package tokenizer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// bytesVocab returns a small byte-level vocabulary: all bytes, a few merges, one user-defined and two control tokens.
func bytesVocab(pre string) Vocab {
	v := Vocab{Model: "gpt2", Pre: pre, BOS: -1, EOS: 0, UNK: -1, EOT: 1, PAD: -1, AddEOS: true}
	add := func(text string, kind int32) {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, kind)
	}
	add("<|endoftext|>", Control)
	add("<|im_end|>", Control)
	for b := range 256 {
		add(string(byteRune(byte(b))), Normal)
	}
	for _, m := range []string{"a b", "ab c", "b c", "a bc", "Ġ a", "Ġ ab", "1 2", "Ã ©", "x y", "xy xy"} {
		v.Merges = append(v.Merges, m)
		add(strings.ReplaceAll(m, " ", ""), Normal)
	}
	v.Merges = append(v.Merges, "c c") // its product is not a token
	add("  ", UserDefined)
	return v
}

// piecesVocab returns a small SentencePiece vocabulary.
func piecesVocab() Vocab {
	v := Vocab{Model: "llama", BOS: 1, EOS: 2, UNK: 0, EOT: -1, PAD: -1, AddBOS: true, AddEOS: true, AddSpacePrefix: true}
	add := func(text string, kind int32, score float32) {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, text), append(v.Types, kind), append(v.Scores, score)
	}
	add("<unk>", Unknown, 0)
	add("<s>", Control, 0)
	add("</s>", Control, 0)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), Byte, 0)
	}
	add("s><", UserDefined, -1000)
	for i, text := range []string{"▁a", "▁▁", "ab", "bc", "abc", "▁ab", "aa", "aaaa", "▁▁▁▁", "é", "日本", "a", "b", "c", "▁", "日", "本", "<", "s"} {
		add(text, Normal, -float32(i/2)) // ties in pairs
	}
	return v
}

func mustNew(t testing.TB, v Vocab) *Tokenizer {
	t.Helper()
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// greedy returns the definition of merging: join the best pair, the left one of equals, until there is none. It needs
// time in the square of the symbols.
func greedy(symbols []string, priority func(left, right string) (float64, bool)) []string {
	for {
		at, best := -1, 0.0
		for i := 0; i+1 < len(symbols); i++ {
			if p, ok := priority(symbols[i], symbols[i+1]); ok && (at < 0 || p > best) {
				at, best = i, p
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] += symbols[at+1]
		symbols = slices.Delete(symbols, at+1, at+2)
	}
}

// expectGreedy compares the ids of a SentencePiece text without special tokens with the definition.
func expectGreedy(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	var want []int32
	symbols := strings.Split(strings.ReplaceAll(" "+text, " ", space), "")
	for _, s := range greedy(symbols, func(l, r string) (float64, bool) {
		id, ok := tok.ids[l+r]
		return float64(tok.v.Scores[max(id, 0)]), ok
	}) {
		if id, ok := tok.ids[s]; ok {
			want = append(want, id)
			continue
		}
		for _, b := range []byte(s) {
			want = append(want, tok.ids[fmt.Sprintf("<0x%02X>", b)])
		}
	}
	if got := tok.Encode(text, false, false); text != "" && !slices.Equal(got, want) {
		t.Errorf("%q: %v, want %v", text, got, want)
	}
}

func TestSentencePieceMergesGreedily(t *testing.T) {
	tok := mustNew(t, piecesVocab())
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	alphabet := []string{"a", "a", "b", "c", " ", " ", "日", "本", "é", "z", "\n"}
	for range 3000 {
		var text strings.Builder
		for range 1 + rng.IntN(40) {
			text.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		if expectGreedy(t, tok, text.String()); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestByteLevelMergesByRank(t *testing.T) {
	tok := mustNew(t, bytesVocab("gpt-2"))
	rank := map[string]int{}
	for i, m := range tok.v.Merges {
		rank[m] = i
	}
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		word := make([]byte, 1+rng.IntN(30)) // letters only: one word for every pre-tokenizer
		for i := range word {
			word[i] = "aabbccxy"[rng.IntN(8)]
		}
		var want []int32
		for _, s := range greedy(strings.Split(string(word), ""), func(l, r string) (float64, bool) {
			i, ok := rank[l+" "+r]
			return -float64(i), ok
		}) {
			if id, ok := tok.ids[s]; ok {
				want = append(want, id)
				continue
			}
			for _, c := range s {
				want = append(want, tok.ids[string(c)])
			}
		}
		if got := tok.Encode(string(word), false, false); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %q: %v, want %v", seed, word, got, want)
		}
	}
}

// TestSpecialTokensLongestFirst compares with the definition: for each special token, the longest first, every
// stretch of plain text is searched for it from the left.
func TestSpecialTokensLongestFirst(t *testing.T) {
	v := bytesVocab("gpt-2")
	specials := []string{"aba", "ab", "ba", "bab", "aabb", "b"}
	for i, text := range specials {
		v.Tokens = append(v.Tokens, text)
		v.Types = append(v.Types, []int32{Control, UserDefined}[i%2])
	}
	tok := mustNew(t, v)
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	order := []string{"aabb", "aba", "bab", "ab", "ba", "b"} // by length, then by id
	for range 2000 {
		text := make([]byte, 1+rng.IntN(14))
		for i := range text {
			text[i] = "abbac"[rng.IntN(5)]
		}
		for _, parseSpecial := range []bool{false, true} {
			want := []string{string(text)}
			isSpecial := []bool{false}
			for _, s := range order {
				if !parseSpecial && slices.Index(specials, s)%2 == 0 {
					continue
				}
				var next []string
				var nextSpecial []bool
				for i, part := range want {
					for !isSpecial[i] {
						before, after, found := strings.Cut(part, s)
						if !found {
							break
						}
						if before != "" {
							next, nextSpecial = append(next, before), append(nextSpecial, false)
						}
						next, nextSpecial = append(next, s), append(nextSpecial, true)
						part = after
					}
					if part != "" {
						next, nextSpecial = append(next, part), append(nextSpecial, isSpecial[i])
					}
				}
				want, isSpecial = next, nextSpecial
			}
			var got []string
			for _, f := range tok.fragments(string(text), parseSpecial, func(int) bool { return true }) {
				got = append(got, f.text)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q (parseSpecial %v): %q, want %q", seed, text, parseSpecial, got, want)
			}
		}
	}
}

// TestStream pushes the example of the Unicode Standard (section 3.9, U+FFFD substitution of maximal subparts) byte
// by byte, and sees that a character comes with its last byte and not before.
func TestStream(t *testing.T) {
	tok := mustNew(t, bytesVocab("gpt-2"))
	push := func(bytes string) (out []string) {
		s := tok.NewStream(false)
		for _, b := range []byte(bytes) {
			out = append(out, s.Push(tok.model.(*bpe).bytes[b]))
		}
		return out
	}
	for _, c := range []struct{ bytes, want string }{
		{"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd"},
		{"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", strings.Repeat("\uFFFD", 8) + "A"},
		{"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", strings.Repeat("\uFFFD", 8) + "A"},
		{"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", strings.Repeat("\uFFFD", 5) + "A\uFFFD\uFFFDB"},
		{"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", strings.Repeat("\uFFFD", 4) + "A"},
		{"a\xF0\x9F\xA6", "a"}, // it is never finished
		{"\uFFFD", "\uFFFD"},
	} {
		if got := strings.Join(push(c.bytes), ""); got != c.want {
			t.Errorf("% X: %q, want %q", c.bytes, got, c.want)
		}
	}
	if got := push("é🦙"); !slices.Equal(got, []string{"", "é", "", "", "", "🦙"}) {
		t.Errorf("é🦙 came as %q", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, spoil := range map[string]func(v *Vocab){
		"no model":           func(v *Vocab) { v.Model = "" },
		"no unknown word":    func(v *Vocab) { v.Model, v.UNK = "bert", -1 },
		"no tokens":          func(v *Vocab) { *v = Vocab{Model: "llama"} },
		"types cut short":    func(v *Vocab) { v.Types = v.Types[:3] },
		"type 9":             func(v *Vocab) { v.Types[5] = 9 },
		"scores cut short":   func(v *Vocab) { v.Scores = v.Scores[:3] },
		"score not a number": func(v *Vocab) { v.Scores[4] = float32(math.NaN()) },
		"BOS outside":        func(v *Vocab) { v.BOS = 1 << 20 },
		"EOT below -1":       func(v *Vocab) { v.EOT = -2 },
		"BOS to add, none":   func(v *Vocab) { v.BOS = -1 },
		"EOS to add, none":   func(v *Vocab) { v.EOS = -1 },
		"byte token's text":  func(v *Vocab) { v.Tokens[9] = "<0xZZ>" },
		"no unknown token":   func(v *Vocab) { v.Tokens[9], v.Types[9], v.UNK = "x", Normal, -1 },
		"merge of one":       func(v *Vocab) { *v = bytesVocab(""); v.Merges[1] = "ab" },
		"merge of three":     func(v *Vocab) { *v = bytesVocab(""); v.Merges[1] = "a b c" },
		"merge of nothing":   func(v *Vocab) { *v = bytesVocab(""); v.Merges[1] = " b" },
	} {
		v := piecesVocab()
		spoil(&v)
		if _, err := New(v); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzEncodeSPM(f *testing.F) {
	for _, text := range []string{"", "abc  aab", "日本é\n", "<s>a</s> b", "s><s>", "\xe2\x96 a", "aaaaaaaa\xff", "▁a"} {
		f.Add(text)
	}
	tok := mustNew(f, piecesVocab())
	f.Fuzz(func(t *testing.T, text string) {
		expectInRange(t, tok, tok.Encode(text, true, true))
		ids := tok.Encode(text, false, false)
		expectInRange(t, tok, ids)
		if !utf8.ValidString(text) || strings.Contains(text, "s><") { // a space follows special tokens
			return
		}
		expectDecoded(t, tok, strings.ReplaceAll(text, space, " "), ids)
		if len(text) < 300 {
			expectGreedy(t, tok, text)
		}
	})
}

func FuzzEncodeBPE(f *testing.F) {
	for _, text := range []string{"", "abc  aab", "don't 'LL 12345 x", "<|im_end|>ccc\n\n é", "\xe2\x82 \u3000\u0085", "xyxyxyxy"} {
		f.Add(text)
	}
	var toks []*Tokenizer
	for _, pre := range []string{"", "falcon", "llama-bpe", "qwen2", "smollm"} {
		toks = append(toks, mustNew(f, bytesVocab(pre)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			for _, parseSpecial := range []bool{false, true} {
				ids := tok.Encode(text, false, parseSpecial)
				expectInRange(t, tok, ids)
				if got := tok.Decode(ids, true); got != replaceInvalid(text, true) {
					t.Errorf("%q decodes to %q", text, got)
				}
			}
		}
	})
}

func FuzzNew(f *testing.F) {
	f.Add(true, "", "<unk>\x00<s>\x00</s>\x00▁a\x00a\x00b\x00ab", []byte{2, 3, 3, 1, 1, 1, 1}, []byte{0, 0, 0, 1, 2, 3, 4}, "", "ab a", 1, 0)
	f.Add(false, "falcon", "a\x00b\x00ab\x00<x>", []byte{1, 1, 1, 3}, []byte{}, "a b\x00ab ab", "abab <x>", -1, -1)
	f.Add(false, "llama3", "Ġa\x00\x00\x00a", []byte{}, []byte{}, "Ġ a", " a a", 0, 0)
	f.Fuzz(func(t *testing.T, spm bool, pre, tokens string, types, scores []byte, merges, text string, bos, unk int) {
		v := Vocab{Model: "gpt2", Pre: pre, Tokens: strings.Split(tokens, "\x00"), BOS: int32(bos), EOS: -1, UNK: int32(unk), EOT: -1, PAD: -1}
		if spm {
			v.Model, v.AddSpacePrefix = "llama", true
		}
		for _, x := range types {
			v.Types = append(v.Types, int32(x))
		}
		for _, x := range scores {
			v.Scores = append(v.Scores, float32(x))
		}
		if merges != "" {
			v.Merges = strings.Split(merges, "\x00")
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		for _, parseSpecial := range []bool{false, true} {
			ids := tok.Encode(text, true, parseSpecial)
			expectInRange(t, tok, ids)
			s := tok.NewStream(parseSpecial)
			for _, id := range ids {
				if out := s.Push(id); !utf8.ValidString(out) {
					t.Errorf("streamed %q", out)
				}
			}
		}
		tok.Decode([]int32{-1, 0, int32(tok.Size())}, true)
	})
}

func expectInRange(t *testing.T, tok *Tokenizer, ids []int32) {
	t.Helper()
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Size() {
			t.Fatalf("id %d of %d tokens", id, tok.Size())
		}
	}
}
