package server

import (
	"context"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// Generation is one text that a request asks for.
type Generation struct {
	engine.Request // but Sampler, Constraint and Progress
	Sampling       sample.Options
	Constrain      func() sample.Constraint // makes the text's constraint; nil: none
	Form           grammar.Text             // that Constrain holds the text to
	ReportProgress bool
	ReportTimings  bool // with each token
	Limits         Limits
	Slot           int     // which has to generate it, or AnySlot
	shown          *Prompt // Prompt with the pictures in it; nil: there are none

	ctx    context.Context // the request's, or nil
	client string          // see clientOf
}

// context returns the context of g's request.
func (g *Generation) context() context.Context {
	if g.ctx == nil {
		return context.Background()
	}
	return g.ctx
}

// A Prompt is what a text follows: tokens, and pictures among them.
type Prompt = vision.Prompt

// Ask makes p the prompt.
func (g *Generation) Ask(p *Prompt) { g.Prompt, g.shown = p.IDs, p }

// Continue replaces the first cut tokens of the prompt by before.
func (g *Generation) Continue(before []int32, cut int) {
	g.shown.Prepend(before, cut)
	g.Prompt = g.shown.IDs
}

// HasPictures reports whether there are pictures in the prompt.
func (g *Generation) HasPictures() bool { return g.shown.HasPictures() }

// PromptText returns the text of g's prompt, in which MediaMark stands for pictures.
func (m *Model) PromptText(g *Generation) string {
	var text strings.Builder
	from, tok := 0, m.Engine.Tokenizer()
	g.shown.Places(func(at, n int) {
		text.WriteString(tok.Decode(g.Prompt[from:at], true) + MediaMark)
		from = at + n
	})
	text.WriteString(tok.Decode(g.Prompt[from:], true))
	return text.String()
}

// An Event is something that happened to one of a request's texts. One of Token, Progress and End is set, or none: then
// nothing happened for a while, and the client may be told that the server is alive.
type Event struct {
	Index    int // number of the text
	Token    *engine.Token
	Progress *Progress
	End      *engine.Result
	Err      error // with End
	Slot     int
	Timings  *Timings // so far, with Token and Progress, on request
}

// Progress says how much of a prompt has been read.
type Progress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	TimeMS    int64 `json:"time_ms"`

	Pictures *PictureProgress `json:"pictures,omitempty"` // nil: they are computed, or there are none
}

// PictureProgress says how much of a prompt's pictures has been computed, before anything of the prompt is read: how many
// layers of the tower, of all that it goes through for them.
type PictureProgress struct {
	Total     int `json:"total"`
	Processed int `json:"processed"`
}

// quiet is the time without an event after which clients get a sign of life.
const quiet = 15 * time.Second

// retryAfter is after how many seconds a client that was turned away may try again.
const retryAfter = 2

// enter counts n texts in, or refuses them where too many wait.
func (m *Model) enter(n int) error {
	if m.waiting.Add(int64(n)) > int64(m.Slots+m.Queue) {
		m.waiting.Add(int64(-n))
		return Unavailable("too many requests wait; try again later")
	}
	return nil
}

// canTake returns an error for a request of more texts than slots and queue have room for, which no waiting changes.
func (m *Model) canTake(texts int) error {
	if most := m.Slots + m.Queue; texts > most {
		return Invalid("the request asks for %d texts, and the server takes %d at a time; send fewer prompts, or a smaller n", texts, most)
	}
	return nil
}

// Generate queues texts and returns what happens to them until all have ended. Leaving the loop, or the end of ctx,
// ends them.
func (m *Model) Generate(ctx context.Context, texts []Generation) (iter.Seq[Event], error) {
	if err := m.canTake(len(texts)); err != nil {
		return nil, err
	}
	for i := range texts {
		if n := len(texts[i].Prompt); n == 0 {
			return nil, Invalid("the prompt is empty")
		} else if n > m.Context() {
			return nil, &engine.ContextError{Tokens: n, Context: m.Context()}
		}
		if err := texts[i].Sampling.Check(m.Engine.Config().Vocab); err != nil {
			return nil, Invalid("%s", err)
		}
	}
	return func(yield func(Event) bool) {
		if err := m.enter(len(texts)); err != nil {
			yield(Event{End: &engine.Result{}, Err: err})
			return
		}
		begin := time.Now()
		ctx, cancel := context.WithCancel(ctx)
		events := make(chan Event, 64)
		var group sync.WaitGroup
		for i := range texts {
			group.Go(func() {
				defer m.waiting.Add(-1)
				m.generate(ctx, &texts[i], begin, func(e Event) {
					e.Index = i
					select {
					case events <- e:
					case <-ctx.Done():
					}
				})
			})
		}
		defer group.Wait()
		defer cancel()
		deliver(ctx, events, len(texts), yield)
	}, nil
}

// deliver yields events until n texts have ended.
func deliver(ctx context.Context, events <-chan Event, n int, yield func(Event) bool) {
	alive := time.NewTicker(quiet)
	defer alive.Stop()
	for n > 0 {
		select {
		case e := <-events:
			alive.Reset(quiet)
			if e.End != nil {
				n--
			}
			if !yield(e) {
				return
			}
		case <-alive.C:
			if !yield(Event{}) {
				return
			}
		case <-ctx.Done():
			yield(Event{End: &engine.Result{Stop: engine.StopCancelled}, Err: ctx.Err()})
			return
		}
	}
}

// generate makes one text, when a slot is free. The request came in at begin.
func (m *Model) generate(ctx context.Context, g *Generation, begin time.Time, tell func(Event)) {
	slot, err := m.slots.take(ctx, g.Slot)
	if err != nil {
		return
	}
	defer m.slots.give(slot)
	m.slots.begin(slot, g)
	waited := time.Since(begin)
	res, err := m.run(ctx, g, slot, begin, func(e Event) {
		if e.Slot = slot; e.Token != nil {
			m.slots.change(slot, func(p *Slot) { p.Decoded++ })
		}
		tell(e)
	})
	m.Count.Ended(&res, waited+res.Wait, time.Since(begin))
	tell(Event{End: &res, Err: err, Slot: slot})
	if err == nil {
		m.Log.Info("generated", "slot", slot, "prompt_tokens", res.Reused+res.PromptTokens, "cached", res.Reused, "tokens", res.Tokens, "ms", res.Time.Milliseconds(), "end", string(res.Stop))
		if res.Yielded > engine.NoteYielded {
			m.Log.Info("other programs kept cores busy", "slot", slot, "their_share", math.Round(100*res.Yielded)/100)
		}
	}
}

// run generates one text in its slot, and reports events until its end.
func (m *Model) run(ctx context.Context, g *Generation, slot int, begin time.Time, tell func(Event)) (engine.Result, error) {
	r, held, err := m.request(g)
	if err != nil {
		return engine.Result{}, err
	}
	if r.Pictures, err = m.Tower.Compute(ctx, g.shown, g.pictureProgress(tell)); err != nil {
		return engine.Result{}, err
	}
	var st *engine.Stream
	if g.ReportProgress {
		r.Progress = g.progress(func() int { return st.Reused() }, tell)
	}
	if st, err = m.Engine.Submit(ctx, r); err != nil {
		return engine.Result{}, err
	}
	defer st.Close()
	said, limit := newTranscript(m, g), limiter{Limits: g.Limits}
	goesOn := m.pass(g, st, &limit, begin, func(e Event) {
		said.add(e.Token.Text)
		tell(e)
	})
	st.Close()
	res, err := st.Result(), st.Err()
	m.slots.change(slot, func(p *Slot) {
		if p.Tokens, p.Result = st.History(), res; g.HasPictures() {
			p.Tokens = nil // they do not show what is in the cache
		}
	})
	if goesOn {
		res.Text, _ = limit.pass(res.Text)
		res.Text += limit.rest()
	} else {
		res.Text, res.Stop = "", engine.StopLength
	}
	said.end(res.Text)
	if err != nil && held != nil && held.err != nil {
		m.Log.Warn("a text was ended because its grammar allows nothing more", "reason", held.err)
		res.Stop, err = engine.StopGrammar, nil
	}
	return res, err
}

// request returns the engine's request and its constraint, or nil if there is none.
func (m *Model) request(g *Generation) (engine.Request, *heldTo, error) {
	r := g.Request
	sampler, err := sample.New(g.Sampling, m.Engine.Config().Vocab)
	if err != nil {
		return r, nil, Invalid("%s", err)
	}
	r.Sampler = sampler
	if g.Sampling.DRY.Multiplier != 0 {
		sampler.BreakAt(sample.NewBreakers(g.Sampling.DRY.Breakers, m.Engine.Config().Vocab, m.Piece))
	}
	if g.Shift != nil {
		r.Shift = m.keep(g)
	}
	c := m.constraint(g)
	if c == nil {
		return r, nil, nil
	}
	held := &heldTo{Constraint: c}
	r.Constraint = held
	return r, held, nil
}

// pictureProgress returns a function that reports how much of the pictures has been computed; nil if nobody asked.
func (g *Generation) pictureProgress(tell func(Event)) func(done, total int) {
	if !g.ReportProgress {
		return nil
	}
	begun := time.Now()
	return func(done, total int) {
		tell(Event{Progress: &Progress{Total: len(g.Prompt), TimeMS: time.Since(begun).Milliseconds(), Pictures: &PictureProgress{total, done}}})
	}
}

// progress returns a function that reports how much of the prompt has been read and, before that, how much was cached.
func (g *Generation) progress(reused func() int, tell func(Event)) func(done, total int) {
	submitted, known := time.Now(), false
	say := func(done, total, cached int) {
		e := Event{Progress: &Progress{Total: total, Cache: cached, Processed: done, TimeMS: time.Since(submitted).Milliseconds()}}
		if g.ReportTimings {
			e.Timings = promptTimings(cached, max(0, done-cached), time.Since(submitted))
		}
		tell(e)
	}
	return func(done, total int) {
		if cached := reused(); !known && done > cached {
			say(cached, total, cached)
		}
		known = true
		say(done, total, reused())
	}
}

// pass reports a stream's tokens until it ends or reaches its limits. goesOn says whether the text may continue.
func (m *Model) pass(g *Generation, st *engine.Stream, limit *limiter, begin time.Time, tell func(Event)) (goesOn bool) {
	last := begin
	for tok, ok := st.Next(); ok; tok, ok = st.Next() {
		now := time.Now()
		m.Count.Token(now.Sub(last), last == begin)
		last = now
		tok.Text, goesOn = limit.pass(tok.Text)
		e := Event{Token: &tok}
		if g.ReportTimings {
			so := st.SoFar()
			e.Timings = TimingsOf(&so)
		}
		if tell(e); !goesOn {
			return false
		}
	}
	return true
}

// keep returns g's shift with the number of tokens that stay: at most the prompt's, plus the token that begins a
// sequence.
func (m *Model) keep(g *Generation) *engine.Shift {
	s := *g.Shift
	s.Keep = min(s.Keep, len(g.Prompt))
	if m.Engine.Tokenizer().AddsBOS() && s.Keep < len(g.Prompt) {
		s.Keep++
	}
	return &s
}

// transcript logs prompts and answers, if the user wants that.
type transcript struct {
	m    *Model // nil: it does not
	text strings.Builder
}

func newTranscript(m *Model, g *Generation) *transcript {
	if !m.LogPrompts {
		return &transcript{}
	}
	m.Log.Info("prompt", "text", m.PromptText(g))
	return &transcript{m: m}
}

func (t *transcript) add(text string) {
	if t.m != nil {
		t.text.WriteString(text)
	}
}

func (t *transcript) end(text string) {
	if t.m != nil {
		t.m.Log.Info("answer", "text", t.text.String()+text)
	}
}

// constraint returns the constraint of a text, or nil if there is none.
func (m *Model) constraint(g *Generation) sample.Constraint {
	var c sample.Constraint
	if g.Constrain != nil {
		c = g.Constrain()
	}
	if m.Restrict != nil {
		c = m.Restrict(g, c)
	}
	return c
}

// heldTo remembers why a constraint failed: that ends the text without an error of the server.
type heldTo struct {
	sample.Constraint
	err error
}

func (h *heldTo) Apply(logits []float32) error {
	err := h.Constraint.Apply(logits)
	h.keep(err)
	return err
}

func (h *heldTo) Accept(id int32) error {
	err := h.Constraint.Accept(id)
	h.keep(err)
	return err
}

func (h *heldTo) keep(err error) {
	if err != nil && h.err == nil {
		h.err = err
	}
}

// Several returns n texts like g, with seeds that follow each other where g has one.
func Several(g Generation, n int) []Generation {
	all := make([]Generation, n)
	for i := range all {
		all[i] = g
		if g.Sampling.Seed != sample.RandomSeed {
			all[i].Sampling.Seed += uint64(i)
		}
	}
	return all
}
