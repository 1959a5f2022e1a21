package tokenizer

import (
	"sort"
	"strings"
)

// specials finds special tokens in a text: longer ones first, whole text per token, as llama.cpp does.
type specials struct {
	list []specialToken // longest first
}

type specialToken struct {
	id      int32
	text    string
	control bool // recognised only on request
}

func newSpecials(v *Vocab) specials {
	var s specials
	for i, typ := range v.Types {
		if (typ == Control || typ == UserDefined || typ == Unknown) && v.Tokens[i] != "" {
			s.list = append(s.list, specialToken{int32(i), v.Tokens[i], typ != UserDefined})
		}
	}
	sort.SliceStable(s.list, func(i, j int) bool { return len(s.list[i].text) > len(s.list[j].text) })
	return s
}

// fragment is a piece of text, or a token where id >= 0.
type fragment struct {
	text string
	id   int32
}

// cut calls part for text and token for special tokens, in order. Empty parts are left out.
func (s *specials) cut(text string, control bool, part func(string), token func(int32)) {
	frags := []fragment{{text, -1}}
	for _, sp := range s.list {
		if sp.control && !control || !strings.Contains(text, sp.text) {
			continue
		}
		frags = sp.split(frags)
	}
	for _, f := range frags {
		switch {
		case f.id >= 0:
			token(f.id)
		case f.text != "":
			part(f.text)
		}
	}
}

func (sp *specialToken) split(frags []fragment) []fragment {
	out := make([]fragment, 0, len(frags))
	for _, f := range frags {
		if f.id >= 0 {
			out = append(out, f)
			continue
		}
		for {
			before, after, found := strings.Cut(f.text, sp.text)
			if before != "" {
				out = append(out, fragment{before, -1})
			}
			if !found {
				break
			}
			out = append(out, fragment{"", sp.id})
			f.text = after
		}
	}
	return out
}
