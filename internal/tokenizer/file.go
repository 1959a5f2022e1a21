package tokenizer

import (
	"fmt"
	"strings"
)

// follow builds what llama.cpp does with the keys of a GGUF file.
func (t *Tokenizer) follow() error {
	v := &t.v
	switch v.Model {
	case "llama":
		var err error
		t.spm, err = newSentencePiece(v, t.ids)
		return err
	case "bert":
		return t.followBert()
	case "t5":
		return t.followT5()
	case "rwkv":
		return t.followRWKV()
	case "plamo2":
		return t.followPlamo()
	case "wordlevel":
		return fmt.Errorf("a vocabulary of words needs the key %q with the ends of words; convert the model again", DefinitionKey)
	}
	name := v.Pre
	if v.Model == "gemma4" || v.Model == "whitespace" {
		name = v.Model
	}
	pre, _ := preTokenizer(name)
	b, err := newFileBPE(v, t.ids, pre)
	if err != nil {
		return err
	}
	t.model = b
	if t.split, err = pre.splitters(); err != nil {
		return err
	}
	t.writing = inBytes
	switch {
	case name == "whitespace":
		t.writing = plain
		t.split = nil
		blank, err := partSplitters(&Component{Type: "WhitespaceSplit"}, false)
		t.split = blank
		return err
	case pre.characters:
		t.writing = spaced
		t.prepare = func(s string) string { return strings.ReplaceAll(s, " ", space) }
	}
	if pre.lines {
		t.model = &lineEncoder{b}
	}
	return nil
}

// lineEncoder takes a run of newlines that is a token as that token, before any merge.
type lineEncoder struct{ *bpe }

func (l *lineEncoder) encode(e *encoder, word string) {
	if id, ok := l.ids[word]; ok && strings.Trim(word, "\n") == "" {
		e.out = append(e.out, id)
		return
	}
	l.bpe.encode(e, word)
}

// followBert builds a WordPiece model; its tokens have ▁ where a word begins.
func (t *Tokenizer) followBert() error {
	v := &t.v
	if v.UNK < 0 {
		return fmt.Errorf("the vocabulary lacks the unknown token of a WordPiece model")
	}
	yes := true
	t.prepare = bertNormalizer(&Component{CleanText: &yes, Chinese: &yes, Lowercase: &v.Lowercase, StripAccents: &v.StripAccents})
	var err error
	if t.split, err = partSplitters(&Component{Type: "BertPreTokenizer"}, false); err != nil {
		return err
	}
	t.model = newWordPiece(t.ids, v.UNK)
	return nil
}

// followT5 builds SentencePiece's Unigram model.
func (t *Tokenizer) followT5() error {
	v := &t.v
	var m *charsmap
	if len(v.Charsmap) > 0 {
		var err error
		if m, err = newCharsmap(v.Charsmap); err != nil {
			return err
		}
	}
	ids := make(map[string]int32, len(v.Tokens))
	bytes := map[string]int32{}
	scores := make([]float64, len(v.Tokens))
	for i, text := range v.Tokens {
		id := int32(i)
		switch scores[i] = float64(v.Scores[i]); v.kind(id) {
		case UserDefined:
			scores[i] = 0
			ids[text] = id
		case Normal, Unused:
			if text != "" {
				ids[text] = id
			}
		case Byte:
			bytes[text] = id
		}
	}
	u, err := newUnigram(ids, scores, v.UNK, bytes, t.control)
	if err != nil {
		return err
	}
	t.model = u
	t.prepare = func(s string) string { return v.sentence(s, m) }
	return nil
}

// sentence normalizes as SentencePiece does: characters by the map, spaces joined and put before the text.
func (v *Vocab) sentence(s string, m *charsmap) string {
	if m != nil {
		s = m.replace(s)
	}
	if v.RemoveExtraWhitespaces {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' }), " ")
	}
	if v.AddSpacePrefix && s != "" {
		s = " " + s
	}
	return strings.ReplaceAll(s, " ", space)
}

// replace replaces the longest sequence at each place that has a replacement.
func (m *charsmap) replace(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	most := mostBytes(len(text))
	for s := text; s != ""; {
		if b.Len() > most {
			return text
		}
		_, longest, n := m.find(s)
		if n == 0 {
			_, n = character(s)
			longest = s[:n]
		}
		b.WriteString(longest)
		s = s[n:]
	}
	return b.String()
}

// rwkv takes the longest token at each place. Unlike llama.cpp it finds control and unused tokens only where special
// tokens are asked for, so that a user's text cannot imitate a template's.
type rwkv struct {
	tree    *prefixTree
	unknown int32
}

func (t *Tokenizer) followRWKV() error {
	r := &rwkv{tree: newPrefixTree(4 * len(t.v.Tokens)), unknown: t.v.UNK}
	for id, text := range t.v.Tokens {
		if kind := t.v.kind(int32(id)); kind != Control && kind != Unused {
			r.tree.add(unescape(text), int32(id))
		}
	}
	t.model, t.writing = r, escaped
	return nil
}

func (r *rwkv) encode(e *encoder, text string) {
	for text != "" {
		id, n := r.tree.longest(text)
		if n == 0 {
			id, n = r.unknown, 1
		}
		if id >= 0 {
			e.out = append(e.out, id)
		}
		text = text[n:]
	}
}

// unescape reads a token of an RWKV vocabulary: \t, \n, \r, \x41, and other characters after a backslash as they are.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'x':
			if i+2 < len(s) {
				upper := strings.ToUpper(s[i+1 : i+3])
				if hi, lo := strings.IndexByte(hexDigits, upper[0]), strings.IndexByte(hexDigits, upper[1]); hi >= 0 && lo >= 0 {
					b.WriteByte(byte(hi<<4 | lo))
					i += 2
				}
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
