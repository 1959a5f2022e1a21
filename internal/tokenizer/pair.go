package tokenizer

import "slices"

// EncodePair returns the tokens of two texts as a model of pairs reads them, such as a query and a document: with the special tokens that a
// definition has for two texts, else as llama.cpp writes them by the flags of a file. The texts of control tokens are not looked for.
func (t *Tokenizer) EncodePair(a, b string) []int32 {
	first, second := t.Encode(a, false, false), t.Encode(b, false, false)
	if d := t.v.Definition; d != nil {
		before, between, after, ok := d.pair()
		if all := slices.Concat(before, between, after); ok && !slices.ContainsFunc(all, func(id int32) bool { return id < 0 || int(id) >= t.Size() }) {
			return slices.Concat(before, first, between, second, after)
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
	separated := t.v.AddSEP && t.v.Model != "bert" // whose end is the separator
	return slices.Concat(one(t.v.AddBOS, t.v.BOS), first, one(t.v.AddEOS, end), one(separated, t.v.SEP), second, one(t.v.AddEOS, end))
}
