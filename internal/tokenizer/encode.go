package tokenizer

// maxCached bounds the words that an encoder remembers, in bytes: longer ones hardly ever come twice.
const maxCached = 48

// encoder is the scratch space of one Encode.
type encoder struct {
	t      *Tokenizer
	merger merger
	out    []int32
	seen   map[string]span // word -> where out already holds its tokens
}

type span struct{ start, end int }

// Encode returns the tokens of text. addSpecial adds BOS and EOS as the vocabulary says; parseSpecial recognises
// the texts of control tokens in text, so it is for templates, not for what a user typed.
func (t *Tokenizer) Encode(text string, addSpecial, parseSpecial bool) []int32 {
	e := &encoder{t: t, seen: map[string]span{}, out: make([]int32, 0, len(text)/4+2)}
	if addSpecial && t.v.AddBOS {
		e.out = append(e.out, t.v.BOS)
	}
	afterSpecial := true // the text's begin counts as one
	for _, f := range t.fragments(text, parseSpecial) {
		switch {
		case f.id >= 0:
			e.out = append(e.out, f.id)
		case t.spm != nil:
			e.sentencePiece(f.text, t.v.AddSpacePrefix && afterSpecial)
		default:
			t.bpe.split(f.text, e.byteLevelWord)
		}
		afterSpecial = f.id >= 0
	}
	if addSpecial && t.v.AddEOS {
		e.out = append(e.out, t.v.EOS)
	}
	return e.out
}

// word appends the tokens of word, which no merge leaves: encode's, or those of the same word before.
func (e *encoder) word(word string, encode func(word string)) {
	if s, ok := e.seen[word]; ok {
		e.out = append(e.out, e.out[s.start:s.end]...)
		return
	}
	start := len(e.out)
	encode(word)
	if len(word) <= maxCached {
		e.seen[word] = span{start, len(e.out)}
	}
}
