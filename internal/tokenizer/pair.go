package tokenizer

import "slices"

// EncodePair returns the tokens of two texts as a model of pairs reads them, such as a query and a document: with the
// special tokens that a definition has for two texts, else as llama.cpp writes them by the flags of a file. The texts
// of control tokens are not looked for.
func (t *Tokenizer) EncodePair(a, b string) []int32 {
	p := t.pair()
	return slices.Concat(p.before, t.Encode(a, false, false), p.between, t.Encode(b, false, false), p.after)
}

// PairTypes returns BERT's types of the tokens of a pair: those after the separator have the second text's. Nil: all
// have the first.
func (t *Tokenizer) PairTypes(tokens []int32) []int32 {
	p := t.pair()
	if p.second == 0 || len(p.between) == 0 {
		return nil
	}
	at := slices.Index(tokens, p.between[0])
	if at < 0 || at+len(p.between) >= len(tokens) {
		return nil
	}
	types := make([]int32, len(tokens))
	for i := at + len(p.between); i < len(types); i++ {
		types[i] = p.second
	}
	return types
}

// pair returns the tokens around two texts.
func (t *Tokenizer) pair() pairTokens {
	if d := t.v.Definition; d != nil {
		p, ok := d.pair()
		if all := slices.Concat(p.before, p.between, p.after); ok && !slices.ContainsFunc(all, func(id int32) bool { return id < 0 || int(id) >= t.Size() }) {
			return p
		}
	}
	one := func(add bool, id int32) []int32 {
		if add && id >= 0 {
			return []int32{id}
		}
		return nil
	}
	end := t.v.EOS
	if end < 0 {
		end = t.v.SEP
	}
	p := pairTokens{before: one(t.v.AddBOS, t.v.BOS), between: one(t.v.AddEOS, end), after: one(t.v.AddEOS, end)}
	if t.v.Model == "bert" { // its end is the separator, and its second text has the second type
		p.second = 1
	} else {
		p.between = slices.Concat(p.between, one(t.v.AddSEP, t.v.SEP))
	}
	return p
}
