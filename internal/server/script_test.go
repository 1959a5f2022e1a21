package server_test

import (
	"bytes"
	"fmt"
	"math"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// itself is what a script returns for a model that says what it will.
const itself = "\x00"

// A script has a model say what a test needs. All else is real: prompts are read, tokens are evaluated, held to the
// requests' grammars, decoded, parsed and sent.
type script struct {
	tok *tokenizer.Tokenizer
	m   *server.Model
	mu  sync.Mutex
	say func(prompt string) string // nil: the model itself decides
}

// answer lets say answer the next requests; it is given their prompts.
func (s *script) answer(say func(prompt string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say = say
}

// text answers the next requests with text.
func (s *script) text(text string) { s.answer(func(string) string { return text }) }

func (s *script) hold(g *server.Generation, c sample.Constraint) sample.Constraint {
	s.mu.Lock()
	say := s.say
	s.mu.Unlock()
	if say == nil {
		return c
	}
	text := say(s.m.PromptText(g))
	if text == itself {
		return c
	}
	return &scripted{inner: c, tokens: append(s.tokensOf(text), s.tok.EOS())}
}

// tokensOf returns tokens of exactly this text, without a space that the tokenizer might add.
func (s *script) tokensOf(text string) []int32 {
	ids := s.tok.Encode("\n"+text, false, true)
	for i := range ids {
		var b bytes.Buffer
		for _, id := range ids[i:] {
			b.Write(s.tok.Piece(id, true))
		}
		if b.String() == text {
			return ids[i:]
		}
	}
	return nil
}

// scripted allows nothing but its tokens, if the constraint within allows them.
type scripted struct {
	inner  sample.Constraint // nil: none
	tokens []int32
	at     int
}

func (s *scripted) Apply(logits []float32) error {
	if s.inner != nil {
		if err := s.inner.Apply(logits); err != nil {
			return err
		}
	}
	next := s.tokens[s.at]
	if math.IsInf(float64(logits[next]), -1) {
		return fmt.Errorf("the request's grammar does not let the script's token %d of %d follow", s.at, len(s.tokens))
	}
	for id := range logits {
		if int32(id) != next {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return nil
}

func (s *scripted) Accept(id int32) error {
	s.at++
	if s.inner != nil {
		return s.inner.Accept(id)
	}
	return nil
}

func (s *scripted) Done() bool { return s.inner != nil && s.inner.Done() }
