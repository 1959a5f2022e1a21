package engine

import (
	"cmp"
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

// DraftModel is a smaller model that drafts tokens for a larger one: its likeliest tokens.
type DraftModel struct {
	Engine *Engine // the caller's, open as long as the larger model is
	Least  float32 // a draft ends before a token with a smaller probability
}

// mostExtraTokens is the largest allowed difference of two vocabularies' sizes, as in llama.cpp: files of one family are
// padded differently. [tokens]
const mostExtraTokens = 128

// check returns why d's tokens cannot be tokens of a model with tokenizer t, or nil.
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
	read  float64 // nanoseconds until the first draft token, including reading the new part of the text, averaged; 0: none was made
	token float64 // nanoseconds of each later draft token, averaged; 0: none was made
	ended error   // why no tokens are drafted any more
}

// took records the time of n draft tokens: first for the first one, and rest for the others.
func (d *drafter) took(n int, first, rest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	average := func(of *float64, v float64) {
		if *of == 0 {
			*of = v
		}
		*of += costMemory * (v - *of)
	}
	average(&d.read, float64(first))
	if n > 1 {
		average(&d.token, float64(rest)/float64(n-1))
	}
}

// priced adds the time of making draft tokens to the cost of checking them, if the time of a step is known.
func (d *drafter) priced(c speculate.Cost) speculate.Cost {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Step > 0 {
		token := cmp.Or(d.token, d.read)
		c.Once += (d.read - token) / c.Step // the first takes as long as reading does, each of the others the time of one token
		c.Each += token / c.Step
	}
	return c
}

// textGuesser looks for draft tokens in the text so far. If it finds none, it asks the draft model, if there is one.
type textGuesser struct {
	d       *drafter          // nil: there is none
	lookup  *speculate.Lookup // nil: no tokens are drafted from the text so far
	text    []int32           // for the draft model
	sampler *sample.Sampler   // chooses the likeliest
	asked   bool              // the draft model made the last draft tokens
	spent   time.Duration     // time of making them
	read    bool              // the draft model has read the prompt
	least   float32           // a draft of the draft model ends before a token with a smaller probability

	budgets *budgets
}

// budgets bound what wrong draft tokens cost, for each source.
type budgets struct{ lookup, model speculate.Budget }

// ofModel is the length that Chances is given for draft tokens of a draft model, which do not come from an earlier
// place in the text. It is the length of a likely draft.
const ofModel = 64

func (g *textGuesser) Accept(id int32) {
	if g.lookup != nil {
		g.lookup.Accept(id)
	}
	if g.d != nil {
		g.text = append(g.text, id)
	}
}

func (g *textGuesser) Draft(most int, cost func(most int) speculate.Cost) []int32 {
	g.asked, g.spent = false, 0
	if g.lookup != nil {
		within := func(most int) speculate.Cost { return g.budgets.lookup.Within(cost(most)) }
		if guesses := g.lookup.Draft(most, within); len(guesses) > 0 {
			return guesses
		}
	}
	if g.d == nil || most < 1 || len(g.text)+most > g.d.Engine.context {
		return nil
	}
	n := g.d.chances.Worth(ofModel, most, g.budgets.model.Within(g.d.priced(cost(most))))
	if n == 0 {
		return nil
	}
	g.asked = true
	return g.ask(n)
}

// ask returns at most n draft tokens of the draft model. An error there ends drafting, but not the text.
func (g *textGuesser) ask(n int) (guesses []int32) {
	d := g.d
	d.mu.Lock()
	ended := d.ended
	d.mu.Unlock()
	if ended != nil {
		return nil
	}
	begin := monotime.Now()
	r := Request{Prompt: g.text, Max: n, Sampler: g.sampler, IgnoreEOG: true, Logprobs: g.least > 0, Reuse: ReuseAny, Drafts: -1}
	asked := 0
	var first time.Duration
	_, err := d.Engine.Generate(context.Background(), r, func(t Token) bool {
		if asked++; asked == 1 {
			first = monotime.Since(begin)
		}
		if int(t.ID) >= d.vocab || g.least > 0 && math.Exp(float64(t.Logprob)) < float64(g.least) {
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
	if took := monotime.Since(begin); g.read { // a prompt is read only once
		g.spent = took
		d.took(asked, first, took-first)
	}
	g.read = true
	return guesses
}

func (g *textGuesser) Outcome(drafted, accepted int) {
	if g.asked {
		g.d.chances.Note(ofModel, drafted, accepted)
	} else if g.lookup != nil {
		g.lookup.Outcome(drafted, accepted)
	}
}

// settle records how many nanoseconds the last draft tokens gained. token is the time of a token without draft tokens.
func (g *textGuesser) settle(token, gained float64) {
	lookup, model := gained, 0.0
	if g.asked {
		lookup, model = 0, gained-float64(g.spent)
		g.spent = 0
	}
	g.budgets.lookup.Note(token, lookup)
	g.budgets.model.Note(token, model)
}

// guessers returns a function that makes the guesser of a new text.
func (e *Engine) guessers(m DraftModel) (func(*Request) guesser, error) {
	chances, b := &speculate.Chances{}, &budgets{}
	lookup := func() *speculate.Lookup {
		if e.options.Drafts.NoLookup {
			return nil
		}
		return speculate.NewLookup(chances)
	}
	if m.Engine == nil {
		return func(*Request) guesser {
			b.lookup.Begin()
			return &textGuesser{lookup: lookup(), budgets: b}
		}, nil
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
	return func(r *Request) guesser {
		s, err := sample.New(o, m.Engine.config.Vocab)
		if err != nil {
			panic(err) // it was made before without an error
		}
		b.lookup.Begin()
		b.model.Begin()
		g := &textGuesser{d: d, lookup: lookup(), sampler: s, budgets: b, least: m.Least}
		if r.LeastDraft != nil {
			g.least = *r.LeastDraft
		}
		return g
	}, nil
}
