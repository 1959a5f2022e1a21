package sample

import "bytes"

// Breakers are texts across which DRY sees no repetition, such as the end of a line. Breakers knows the text of every
// token, so it finds a breaker at any place in tokens. It does not change, and samplers may share it.
type Breakers struct {
	texts   [][]byte
	longest int     // length of the longest text
	pieces  []byte  // the tokens' texts
	ends    []int32 // [n_vocab] of each one's in pieces
	widest  int     // length of the longest token's text
}

// NewBreakers returns the breakers of these texts in a vocabulary of n tokens. piece returns a token's text. The result
// is nil if all texts are empty.
func NewBreakers(texts []string, n int, piece func(id int32) []byte) *Breakers {
	b := &Breakers{ends: make([]int32, n)}
	for _, t := range texts {
		if t != "" {
			b.texts = append(b.texts, []byte(t))
			b.longest = max(b.longest, len(t))
		}
	}
	if len(b.texts) == 0 {
		return nil
	}
	for id := range b.ends {
		p := piece(int32(id))
		b.widest = max(b.widest, len(p))
		b.pieces = append(b.pieces, p...)
		b.ends[id] = int32(len(b.pieces))
	}
	return b
}

func (b *Breakers) piece(id int32) []byte {
	if id == 0 {
		return b.pieces[:b.ends[0]]
	}
	return b.pieces[b.ends[id-1]:b.ends[id]]
}

// within reports whether a token's text has a breaker in it.
func (b *Breakers) within(id int32) bool {
	for _, t := range b.texts {
		if bytes.Contains(b.piece(id), t) {
			return true
		}
	}
	return false
}

// newTail returns an empty tail for follow.
func (b *Breakers) newTail() []byte { return make([]byte, 0, b.longest+b.widest) }

// follow reports whether a breaker ends in token id after a text that ends in tail, and returns the end of the text with it, in tail's
// memory.
func (b *Breakers) follow(tail []byte, id int32) ([]byte, bool) {
	n := len(tail)
	tail = append(tail, b.piece(id)...)
	found := false
	for _, t := range b.texts {
		found = found || bytes.Contains(tail[max(0, n-len(t)+1):], t)
	}
	keep := min(len(tail), b.longest-1)
	copy(tail, tail[len(tail)-keep:])
	return tail[:keep], found
}

// BreakAt ends the sequences that DRY compares at b's texts, which replace Options.DRY.Breakers; b is of the sampler's
// vocabulary, or nil. Tokens that were accepted before are not searched for texts.
func (s *Sampler) BreakAt(b *Breakers) {
	if s.breakers = b; b != nil {
		s.tail = b.newTail()
	}
}
