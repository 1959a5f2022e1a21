package tokenizer

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxCached bounds the cached words of an encoder, in bytes: longer ones hardly ever come twice.
	maxCached = 48
	// maxRemembered bounds how many words it remembers.
	maxRemembered = 1 << 16
)

// encoder is the scratch space of one Encode.
type encoder struct {
	t      *Tokenizer
	merger merger
	bpe    bpeMerger
	best   []best
	plamo  []plamoWay
	out    []int32
	short  []shortEntry    // words of at most shortest bytes, by hash
	seen   map[string]span // longer word -> its tokens in out

	reserve func(n int64) error // see EncodeWithin; nil: memory is not limited
	err     error               // reserve's
	scratch int                 // symbols of a word that scratch was reserved for
	since   int                 // bytes since reserve was last called

	steps []splitter
	emit  []func(part string, start bool) // step -> what takes its parts
	begin []bool                          // step -> whether its text stands at the begin of all
}

type span struct{ start, end int }

// wordEncoder appends the tokens of a word to e.out.
type wordEncoder interface{ encode(e *encoder, word string) }

// slowEncoder encodes a word that is not remembered.
type slowEncoder interface{ encodeNew(e *encoder, word string) }

const (
	shortest  = 15 // bytes of a word that is remembered across texts
	shortBits = 14 // log2 of their number: 512 KiB, which fit a core's own cache
)

// shortEntry is a remembered word: its bytes and, in the last, its length; then its tokens.
type shortEntry struct {
	a, b uint64
	ids  [3]int32
	n    int32
}

// shortKey returns the bytes of a word of at most shortest, and its length in the upper byte of b.
func shortKey(word string) (a, b uint64) {
	n := len(word)
	switch {
	case n >= 8:
		a, b = load64(word, 0), load64(word, n-8)>>(8*(16-n)&63)
		if n == 8 {
			b = 0
		}
	case n >= 4:
		a = uint64(load32(word, 0)) | uint64(load32(word, n-4))<<(8*(n-4)&63)
	case n > 0:
		a = uint64(word[0]) | uint64(word[n/2])<<(8*(n/2)&63) | uint64(word[n-1])<<(8*(n-1)&63)
	}
	return a, b | uint64(n)<<56
}

func load64(s string, at int) uint64 {
	s = s[at : at+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func load32(s string, at int) uint32 {
	s = s[at : at+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// remember appends the tokens of word: the cached ones, or m's.
func (e *encoder) remember(word string, m slowEncoder) {
	if len(word) > shortest {
		e.word(word, m)
		return
	}
	a, b := shortKey(word)
	entry := &e.short[(a*0x9E3779B97F4A7C15^b*0xC2B2AE3D27D4EB4F)>>(64-shortBits)]
	if entry.a == a && entry.b == b {
		e.out = append(e.out, entry.ids[:entry.n]...)
		return
	}
	start := len(e.out)
	m.encodeNew(e, word)
	if made := e.out[start:]; len(made) <= len(entry.ids) {
		*entry = shortEntry{a: a, b: b, n: int32(len(made))}
		copy(entry.ids[:], made)
	}
}

// Encode returns the tokens of text. addSpecial adds BOS and EOS as the vocabulary says; parseSpecial recognises
// the texts of control tokens in text, so it is for templates, not for what a user typed.
func (t *Tokenizer) Encode(text string, addSpecial, parseSpecial bool) []int32 {
	tokens, _ := t.encode(text, addSpecial, parseSpecial, false, nil)
	return tokens
}

// EncodeTemplate returns the tokens of a chat template's text, with BOS and EOS as the vocabulary says; BOS is not
// doubled if the template wrote it. It recognises control tokens as Encode does, and also those that only a folder's
// tokenizer_config.json names.
func (t *Tokenizer) EncodeTemplate(text string) []int32 {
	tokens, _ := t.EncodeTemplateWithin(text, nil)
	return tokens
}

// EncodeWithin returns the tokens of text like Encode. It calls reserve with the bytes of memory that it is about to
// take, if they are many, and with 0 now and then. If reserve returns an error, it stops and returns that.
func (t *Tokenizer) EncodeWithin(text string, addSpecial, parseSpecial bool, reserve func(n int64) error) ([]int32, error) {
	return t.encode(text, addSpecial, parseSpecial, false, reserve)
}

// EncodeTemplateWithin returns the tokens of text as EncodeTemplate does, with memory as EncodeWithin.
func (t *Tokenizer) EncodeTemplateWithin(text string, reserve func(n int64) error) ([]int32, error) {
	tokens, err := t.encode(text, true, true, true, reserve)
	if t.AddsBOS() && len(tokens) > 1 && tokens[0] == t.BOS() && tokens[1] == t.BOS() {
		tokens = tokens[1:]
	}
	return tokens, err
}

func (t *Tokenizer) encode(text string, addSpecial, parseSpecial, template bool, reserve func(n int64) error) ([]int32, error) {
	e := t.encoders.Get().(*encoder)
	e.reserve, e.err, e.scratch, e.since = reserve, nil, 0, 0
	if len(text) > longWord && !e.ask(perText*len(text)) {
		t.encoders.Put(e)
		return nil, e.err
	}
	e.prepare(t, len(text))
	if t.pipe != nil {
		e.pipeline(t.pipe, text, addSpecial, parseSpecial, template)
	} else {
		e.file(text, addSpecial, parseSpecial)
	}
	out, err := e.out, e.err
	if e.out, e.reserve = nil, nil; e.scratch == 0 { // the scratch of long words is not kept
		t.encoders.Put(e)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Bytes of memory that encoding takes at most, including garbage that is not collected yet.
const (
	perText   = 2       // for each byte of a text, in addition to the growth of its tokens
	perSymbol = 80      // for each symbol of the scratch space, while a long word is merged
	longWord  = 1 << 16 // bytes; what shorter words and texts take is not worth reserving
)

// ask reserves n bytes, and reports whether encoding may go on.
func (e *encoder) ask(n int) bool {
	if e.since = 0; e.reserve != nil && e.err == nil {
		e.err = e.reserve(int64(n))
	}
	return e.err == nil
}

// enter reserves the memory for encoding a part of the text with at most n symbols. It reports whether it may be
// encoded.
func (e *encoder) enter(part string, n int) bool {
	if n > longWord && n > e.scratch {
		e.scratch = n + n/2 // as the scratch grows
		e.ask(perSymbol * e.scratch)
	}
	if n := len(e.out) + len(part) + 1; n > cap(e.out) && n > longWord {
		n = max(n, 2*cap(e.out))
		if e.ask(4 * n) {
			e.out = append(make([]int32, 0, n), e.out...)
		}
	}
	if e.since += len(part); e.since > longWord {
		e.ask(0)
	}
	return e.err == nil
}

// prepare readies scratch space that may have served another text.
func (e *encoder) prepare(t *Tokenizer, size int) {
	e.t, e.out = t, make([]int32, 0, size/4+2)
	if e.seen == nil || len(e.seen) > 1<<10 {
		e.seen = map[string]span{}
	}
	clear(e.seen)
	if e.short == nil {
		e.short = make([]shortEntry, 1<<shortBits)
	}
	e.steps = t.split
	e.begin = append(e.begin[:0], make([]bool, len(e.steps)+1)...)
	for i := len(e.emit); i <= len(e.steps); i++ {
		e.emit = append(e.emit, func(part string, start bool) {
			e.begin[i] = start && (i == 0 || e.begin[i-1])
			e.cut(i, part)
		})
	}
}

// cut hands a part to a step, or after the last to the model.
func (e *encoder) cut(step int, part string) {
	switch {
	case part == "":
	case step == len(e.steps):
		if e.enter(part, len(part)) {
			e.t.model.encode(e, part)
		}
	case e.err == nil:
		e.steps[step](part, e.begin[step], e.emit[step+1])
	}
}

// pipeline encodes as a Definition says.
func (e *encoder) pipeline(p *pipeline, text string, addSpecial, parseSpecial, template bool) {
	raw := p.raw
	if template {
		raw = p.template
	}
	if addSpecial {
		e.out = append(e.out, p.before...)
	}
	raw.cut(replaceInvalid(text, false), parseSpecial, func(part string, id int32, first bool) {
		if id >= 0 {
			if e.enter("", 0) {
				e.out = append(e.out, id)
			}
			return
		}
		p.normalized.cut(apply(p.normalize, part), parseSpecial, func(part string, id int32, start bool) {
			if id >= 0 {
				if e.enter("", 0) {
					e.out = append(e.out, id)
				}
			} else {
				e.emit[0](part, first && start)
			}
		})
	})
	if addSpecial {
		e.out = append(e.out, p.after...)
	}
}

// file encodes as llama.cpp does with a GGUF file's vocabulary.
func (e *encoder) file(text string, addSpecial, parseSpecial bool) {
	t := e.t
	if addSpecial && t.v.AddBOS {
		e.out = append(e.out, t.v.BOS)
	}
	afterSpecial := true // the text's beginning counts as one
	for _, f := range t.fragments(text, parseSpecial, e.ask) {
		switch {
		case f.id >= 0:
			if !e.enter("", 0) {
				return
			}
			e.out = append(e.out, f.id)
		case t.spm != nil:
			e.sentencePiece(f.text, t.v.AddSpacePrefix && afterSpecial)
		default:
			part := replaceInvalid(f.text, true)
			if t.prepare != nil {
				part = t.prepare(part)
			}
			e.emit[0](part, true)
		}
		afterSpecial = f.id >= 0
	}
	if addSpecial && t.v.AddEOS {
		e.out = append(e.out, t.v.EOS)
	}
}

// word appends the tokens of a longer word: those of the same word earlier in this text, or m's.
func (e *encoder) word(word string, m slowEncoder) {
	if len(word) > maxCached {
		m.encodeNew(e, word)
		return
	}
	if s, ok := e.seen[word]; ok {
		e.out = append(e.out, e.out[s.start:s.end]...)
		return
	}
	start := len(e.out)
	m.encodeNew(e, word)
	if len(e.seen) < maxRemembered {
		e.seen[word] = span{start, len(e.out)}
	}
}

// replaceInvalid writes U+FFFD for invalid UTF-8: for each longest begin of a character, as decoders do before Hugging
// Face's library sees a text, or for each byte, as llama.cpp does.
func replaceInvalid(text string, each bool) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 && !each {
			n = subpart([]byte(text[:min(len(text), utf8.UTFMax)]))
		}
		b.WriteRune(r)
		text = text[n:]
	}
	return b.String()
}
