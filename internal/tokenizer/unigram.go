package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram finds the tokens that make up a word with the greatest sum of scores (Kudo, Subword Regularization, 2018).
type unigram struct {
	tree    *prefixTree
	scores  []float64 // token -> score
	unknown int32
	penalty float64 // score of an unknown character
	bytes   *[256]int32
}

// unknownPenalty is how far the score of an unknown character is below the lowest score: SentencePiece's kUnkPenalty.
const unknownPenalty = 10

// newUnigram builds the model of tokens ids; text never spells control tokens. bytes are the tokens of single bytes,
// for characters without a token if all exist; nil: there are none.
func newUnigram(ids map[string]int32, scores []float64, unknown int32, bytes map[string]int32, control func(int32) bool) (*unigram, error) {
	u := &unigram{tree: newPrefixTree(4 * len(ids)), scores: scores, unknown: unknown, penalty: math.Inf(1)}
	for text, id := range ids {
		if int(id) >= len(scores) {
			return nil, fmt.Errorf("%d scores for token %d", len(scores), id)
		}
		if scores[id] != scores[id] {
			return nil, fmt.Errorf("token %d: its score is not a number", id)
		}
		u.penalty = min(u.penalty, scores[id])
		if !control(id) {
			u.tree.add(text, id)
		}
	}
	u.penalty -= unknownPenalty
	if unknown < 0 || int(unknown) >= len(scores) {
		return nil, fmt.Errorf("the vocabulary lacks the unknown token of a Unigram model")
	}
	if bytes != nil {
		b := bpe{}
		if b.findByteIDs(bytes); !slices.Contains(b.byteIDs[:], -1) {
			u.bytes = &b.byteIDs
		}
	}
	return u, nil
}

// best is the best way to a place in a word.
type best struct {
	score float64
	from  int32 // begin of its last token; -1: no way leads here
	id    int32
}

func (u *unigram) encode(e *encoder, word string) { e.remember(word, u) }

// encodeNew implements slowEncoder.
func (u *unigram) encodeNew(e *encoder, word string) {
	if cap(e.best) <= len(word) {
		e.best = make([]best, len(word)+1)
	}
	ways := e.best[:len(word)+1]
	for i := range ways {
		ways[i] = best{from: -1}
	}
	improve := func(to, from int, id int32, score float64) {
		score += ways[from].score
		if w := &ways[to]; w.from < 0 || score > w.score {
			*w = best{score, int32(from), id}
		}
	}
	for at := 0; at < len(word); {
		_, n := utf8.DecodeRuneInString(word[at:])
		single := false
		node, ok := int32(0), true
		for end := at; end < len(word); end++ {
			if node, _, ok = u.tree.edges.get(node, int32(word[end])); !ok {
				break
			}
			if id := u.tree.value[node]; id >= 0 {
				improve(end+1, at, id, u.scores[id])
				single = single || end+1 == at+n
			}
		}
		if !single {
			improve(at+n, at, u.unknown, u.penalty)
		}
		at += n
	}
	u.collect(e, word, ways)
}

// collect appends the tokens of the best way; consecutive unknown ones become one, or their bytes.
func (u *unigram) collect(e *encoder, word string, ways []best) {
	start := len(e.out)
	for end := len(word); end > 0; {
		w := ways[end]
		from := int(w.from)
		if w.id != u.unknown {
			e.out = append(e.out, w.id)
			end = from
			continue
		}
		for from > 0 && ways[from].id == u.unknown {
			from = int(ways[from].from)
		}
		if u.bytes == nil {
			e.out = append(e.out, u.unknown)
		} else {
			for i := end - 1; i >= from; i-- {
				e.out = append(e.out, u.bytes[word[i]])
			}
		}
		end = from
	}
	slices.Reverse(e.out[start:])
}
