package server

import (
	"bytes"
	"math"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// limitThought ends the thought that g begins with after that many tokens. It changes nothing for models that were not
// trained to think.
func (m *Model) limitThought(g *Generation, r *Reading, tokens int) {
	begin, end, inside := r.format.Thought(r.options.Prompt)
	if end == "" {
		return
	}
	closing := m.Engine.Tokenizer().Encode(end, false, true)
	inner := g.Constrain
	g.Constrain = func() sample.Constraint {
		b := &budget{piece: m.Piece, begin: begin, end: end, closing: closing, left: tokens, within: inside}
		if inner != nil {
			b.inner = inner()
		}
		b.spend(0)
		return b
	}
}

// A budget ends a thought that takes too long: the tokens of its end are the only ones that may come then.
type budget struct {
	inner      sample.Constraint // nil: none
	piece      func(id int32) []byte
	begin, end string  // markers of thoughts
	closing    []int32 // the end's tokens
	forced     []int32 // remaining forced tokens
	left       int     // tokens that the thought may still have
	within     bool
	over       bool   // no thought comes any more
	text       []byte // the last of what was written, in which a marker may begin
}

// Apply allows only the end's next token where the budget is spent.
func (b *budget) Apply(logits []float32) error {
	if len(b.forced) > 0 {
		for id := range logits {
			if int32(id) != b.forced[0] {
				logits[id] = float32(math.Inf(-1))
			}
		}
		return nil
	}
	if b.inner != nil {
		return b.inner.Apply(logits)
	}
	return nil
}

// Accept follows the text with a token.
func (b *budget) Accept(id int32) error {
	if len(b.forced) > 0 && id == b.forced[0] {
		b.forced = b.forced[1:]
	}
	if !b.over {
		b.follow(b.piece(id))
	}
	if b.inner != nil {
		return b.inner.Accept(id)
	}
	return nil
}

// Done reports whether the text is complete by the constraint within.
func (b *budget) Done() bool { return b.inner != nil && b.inner.Done() }

// follow looks for markers in the text.
func (b *budget) follow(piece []byte) {
	b.text = append(b.text, piece...)
	if !b.within {
		text := strings.TrimLeft(string(b.text), " \t\r\n")
		rest, begun := strings.CutPrefix(text, b.begin)
		b.within, b.over = begun, !begun && !strings.HasPrefix(b.begin, text)
		if begun {
			b.text = []byte(rest)
			b.spend(0)
		}
		return
	}
	b.over = bytes.Contains(b.text, []byte(b.end))
	b.text = b.text[max(0, len(b.text)-len(b.end)):]
	b.spend(1)
}

// spend takes tokens off the budget, and ends the thought when nothing is left and its last character is whole.
func (b *budget) spend(tokens int) {
	b.left -= tokens
	if b.within && !b.over && b.left <= 0 && len(b.forced) == 0 && answer.WholeRunes(b.text) == len(b.text) {
		b.forced = b.closing
	}
}
