package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/speculate"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// DraftModel is a smaller model whose likeliest tokens are guesses of a larger one's.
type DraftModel struct {
	Engine *Engine // the caller's, open as long as the larger model is
	Least  float32 // a guess ends before a token that has a smaller probability
}

// mostExtraTokens is the number of tokens that one of two vocabularies may have more: files of one family are padded differently. As in llama.cpp.
const mostExtraTokens = 128

// check says why d's guesses are no tokens of a model with tokenizer t, or nil.
func (d *DraftModel) check(path string, t *tokenizer.Tokenizer) error {
	own := d.Engine.tok
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s cannot draft for %s: %s; take a draft model of the same family", d.Engine.path, path, fmt.Sprintf(format, args...))
	}
	if err := d.Engine.checkHead(); err != nil {
		return refuse("it gives no text")
	}
	if a, b := own.Size(), t.Size(); max(a, b)-min(a, b) > mostExtraTokens {
		return refuse("its vocabulary has %d tokens, the other %d", a, b)
	}
	for id := range int32(min(own.Size(), t.Size())) {
		if a, b := own.Piece(id, true), t.Piece(id, true); string(a) != string(b) {
			return refuse("token %d is %q in its vocabulary and %q in the other", id, a, b)
		}
	}
	return nil
}

// drafter holds a draft model and its measured figures, which all texts of an engine share.
type drafter struct {
	DraftModel
	vocab   int // tokens of the larger model
	chances speculate.Chances

	mu    sync.Mutex
	token float64 // nanoseconds of a guess, averaged; 0: none was made
	ended error   // why nothing is guessed any more
}

// took learns what n guesses took.
func (d *drafter) took(n int, time time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	each := float64(time) / float64(n)
	if d.token == 0 {
		d.token = each
	}
	d.token += costMemory * (each - d.token)
}

// priced adds what n guesses take to the cost of checking them.
func (d *drafter) priced(c speculate.Cost, step float64) speculate.Cost {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range c.Times {
		c.Times[n] += float64(n) * d.token / step
	}
	return c
}

// modelGuesser guesses what the text so far says and, where that says nothing, what a draft model does.
type modelGuesser struct {
	d       *drafter
	lookup  *speculate.Lookup
	text    []int32
	sampler *sample.Sampler // chooses the likeliest
	looked  bool            // the last guesses were the lookup's
}

// ofModel is the length that Chances is given for a draft model's guesses, which are taken from no earlier place: that of likely guesses.
const ofModel = 64

func (g *modelGuesser) Accept(id int32) {
	g.lookup.Accept(id)
	g.text = append(g.text, id)
}

func (g *modelGuesser) Draft(most int, cost func(most int) speculate.Cost) []int32 {
	guesses := g.lookup.Draft(most, cost)
	if g.looked = len(guesses) > 0; g.looked || most < 1 || len(g.text)+most > g.d.Engine.context {
		return guesses
	}
	c := cost(most)
	n := g.d.chances.Worth(ofModel, most, g.d.priced(c, c.Step))
	if n == 0 {
		return nil
	}
	return g.ask(n)
}

// ask returns at most n guesses of the draft model. What goes wrong there ends guessing and no text.
func (g *modelGuesser) ask(n int) (guesses []int32) {
	d := g.d
	d.mu.Lock()
	ended := d.ended
	d.mu.Unlock()
	if ended != nil {
		return nil
	}
	begin := monotime.Now()
	r := Request{Prompt: g.text, Max: n, Sampler: g.sampler, IgnoreEOG: true, Logprobs: d.Least > 0, Reuse: ReuseAny, Drafts: -1}
	asked := 0
	_, err := d.Engine.Generate(context.Background(), r, func(t Token) bool {
		asked++
		if int(t.ID) >= d.vocab || d.Least > 0 && math.Exp(float64(t.Logprob)) < float64(d.Least) {
			return false
		}
		guesses = append(guesses, t.ID)
		return true
	})
	if err != nil {
		d.mu.Lock()
		d.ended = err
		d.mu.Unlock()
		return nil
	}
	d.took(max(1, asked), monotime.Since(begin))
	return guesses
}

func (g *modelGuesser) Outcome(drafted, accepted int) {
	if g.looked {
		g.lookup.Outcome(drafted, accepted)
	} else {
		g.d.chances.Note(ofModel, drafted, accepted)
	}
}

// guessers returns what makes the guesser of a new text.
func (e *Engine) guessers(m DraftModel) (func() guesser, error) {
	chances := &speculate.Chances{}
	if m.Engine == nil {
		return func() guesser { return speculate.NewLookup(chances) }, nil
	}
	if err := m.check(e.path, e.tok); err != nil {
		return nil, err
	}
	o := sample.DefaultOptions()
	o.Temperature = 0
	d := &drafter{DraftModel: m, vocab: e.tok.Size()}
	if _, err := sample.New(o, m.Engine.config.Vocab); err != nil {
		return nil, err
	}
	return func() guesser {
		s, err := sample.New(o, m.Engine.config.Vocab)
		if err != nil {
			panic(err) // it was made before
		}
		return &modelGuesser{d: d, lookup: speculate.NewLookup(chances), sampler: s}
	}, nil
}
