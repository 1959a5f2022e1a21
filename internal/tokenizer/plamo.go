package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// plamo finds the tokens of a text with the greatest sum of scores: PLaMo 2's tokenizer, as in llama.cpp. Scores are
// whole ten-thousandths, and of equal sums the one with the longer first token is taken. Unlike llama.cpp it finds
// control and unused tokens only where special tokens are asked for, so that a user's text cannot imitate a template's.
type plamo struct {
	tree   *prefixTree
	scores []int64 // token -> score
	bytes  [256]int32
}

// In ten-thousandths: the score of a character without a token, which is written in bytes, and the score up to which a
// token is never used.
const (
	plamoUnknown = -1000 * 10_000
	plamoNever   = -2000 * 10_000
)

// plamoLargest bounds scores, so that no sum overflows.
const plamoLargest = 1e6

func (t *Tokenizer) followPlamo() error {
	v := &t.v
	b := bpe{}
	b.findByteIDs(t.ids)
	if at := slices.Index(b.byteIDs[:], -1); at >= 0 {
		return fmt.Errorf("the vocabulary lacks the token <0x%02X> of a byte", at)
	}
	p := &plamo{tree: newPrefixTree(4 * len(v.Tokens)), scores: make([]int64, len(v.Tokens)), bytes: b.byteIDs}
	for text, id := range t.ids {
		score := float64(v.Scores[id])
		if score > plamoLargest {
			return fmt.Errorf("token %d: its score of %g is above %g", id, score, float64(plamoLargest))
		}
		if v.kind(id) != Normal && v.kind(id) != UserDefined || !(score*10_000 > plamoNever) { // nor is a NaN
			continue
		}
		if p.scores[id] = int64(math.Round(score * 10_000)); p.scores[id] > plamoNever {
			p.tree.add(text, id)
		}
	}
	t.model, t.writing = p, plain
	t.prepare = func(s string) string { return strings.TrimPrefix(s, "\ufeff") }
	return nil
}

func (p *plamo) encode(e *encoder, text string) {
	ways := e.bests(len(text))
	ways[len(text)] = plamoWay{}
	for at := len(text); at > 0; {
		_, n := utf8.DecodeLastRuneInString(text[:at])
		at -= n
		ways[at] = p.from(text, at, n, ways)
	}
	for at := 0; at < len(text); {
		w := ways[at]
		if w.id >= 0 {
			e.out = append(e.out, w.id)
		} else {
			for _, b := range []byte(text[at:w.to]) {
				e.out = append(e.out, p.bytes[b])
			}
		}
		at = int(w.to)
	}
}

// plamoWay is the best way from a place in a text to its end.
type plamoWay struct {
	score int64
	to    int32 // end of its first token
	id    int32 // -1: the bytes of a character
}

// from returns the best way from at, where a character of n bytes begins. Those of later places are known.
func (p *plamo) from(text string, at, n int, ways []plamoWay) plamoWay {
	w := plamoWay{ways[at+n].score + plamoUnknown, int32(at + n), -1}
	node, ok := int32(0), true
	for end := at; end < len(text); {
		if node, _, ok = p.tree.edges.get(node, int32(text[end])); !ok {
			break
		}
		end++
		id := p.tree.value[node]
		if id < 0 {
			continue
		}
		if score := ways[end].score + p.scores[id]; score >= w.score {
			w = plamoWay{score, int32(end), id}
		}
	}
	return w
}

// bests returns scratch space for a text with this many bytes.
func (e *encoder) bests(size int) []plamoWay {
	if cap(e.plamo) <= size {
		e.plamo = make([]plamoWay, size+1)
	}
	return e.plamo[:size+1]
}
