package engine

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/speculate"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// StopReason says why a generation ended.
type StopReason string

// The reasons.
const (
	StopEOG       StopReason = "end of text"      // the model said so
	StopToken     StopReason = "stop token"       // one of Request.StopTokens
	StopString    StopReason = "stop string"      // one of Request.StopStrings
	StopLength    StopReason = "token limit"      // Request.Max tokens were generated
	StopContext   StopReason = "context full"     // no position is left
	StopCancelled StopReason = "cancelled"        // ctx ended
	StopCaller    StopReason = "caller stopped"   // Close was called
	StopGrammar   StopReason = "grammar complete" // Request.Constraint lets nothing follow
)

// Sampler chooses tokens for one request. It is called by one goroutine, the request's own.
type Sampler interface {
	// Accept gets the tokens of the prompt and of the text, in order.
	Accept(id int32)
	// Sample chooses the next token by logits [n_vocab]. It may not change them, and they are valid until it returns.
	Sample(logits []float32) int32
	// Constrain restricts the following tokens to what c allows; nil: no restriction.
	Constrain(c sample.Constraint)
	// Done reports whether the constraint allows nothing more.
	Done() bool
	// Err returns why no more tokens can be chosen, or nil.
	Err() error
}

// Reuse says which keys and values that are still in the cache may serve a request's prompt.
type Reuse int

// The ways of reuse.
const (
	ReuseSame Reuse = iota // keys and values that evaluating the prompt would give, to the byte
	ReuseAny               // also keys and values of generated text, which may differ in rounding: for conversations
	ReuseNone              // none
)

// Request asks for a continuation of Prompt.
type Request struct {
	Prompt      []int32
	Pictures    []vision.Placed // in Prompt, in its order; their tokens there are ignored
	Max         int             // tokens to generate; negative: until the model or the context ends
	Context     int             // limit on the tokens of prompt and text, at most the engine's context; 0: that
	Sampler     Sampler
	IgnoreEOG   bool
	StopTokens  []int32  // end the text without being part of it, as do StopStrings
	StopStrings []string // may span several tokens
	Text        bool     // Token.Text is wanted
	Special     bool     // Text shows special tokens, too
	Logprobs    bool     // Token.Logprob is wanted
	TopLogprobs int      // the number of likeliest tokens wanted in Token.Top, if Logprobs is set
	Chances     bool     // Logprobs are probabilities after the sampler's changes, not before them, if the sampler knows them
	Shift       *Shift   // what stays of the text when the context is full; nil: the text ends, as texts with pictures do
	Reuse       Reuse
	Scales      []float32 // the adapters' scales for this request, which then has steps of its own; nil: the engine's
	Neurons     bool      // Result.Neurons is wanted
	// Constraint, if set, restricts the text after the prompt. It is at the text's beginning. Sampler gets it.
	Constraint sample.Constraint
	// Progress, if set, receives how many prompt tokens have been read. Stream.Next calls it.
	Progress func(done, total int)
	// Drafts is the largest number of draft tokens in a step of the text, at most Options.Drafts; 0: Options.Drafts;
	// negative: none. The text is the same.
	Drafts int
	// FewestDrafts is the least number of draft tokens that a step checks: if there are fewer, it checks none. More
	// than Drafts counts as Drafts.
	FewestDrafts int
	// LeastDraft ends a draft of a draft model, of hot neurons and of the MTP layer before a token with a smaller
	// probability; nil: Options say.
	LeastDraft *float32
}

// Shift lets a text continue when the context is full. The oldest tokens are forgotten, except Keep ones, and the
// remaining ones are evaluated again at their new positions.
type Shift struct {
	Keep    int // tokens at the beginning that stay
	Discard int // tokens after them that are forgotten each time; 0: half of the remaining ones
}

// Token is one generated token.
type Token struct {
	ID      int32
	Text    string  // text that is now certain; it may end within earlier tokens: see Request.Text
	Logprob float32 // natural logarithm of its probability: see Request.Chances
	Top     []Likely
}

// Likely is a token that could have been chosen.
type Likely struct {
	ID      int32
	Logprob float32
}

// NoteYielded is the least share of the cores' time that other programs took at which the user is told; less is hardly
// noticed. See Result.Yielded.
const NoteYielded = 0.2

// Result describes a generation that has ended.
type Result struct {
	Stop         StopReason
	StopText     string        // which of Request.StopStrings it was
	Text         string        // the end of the text, in no Token.Text: see Request.Text
	Reused       int           // prompt tokens with keys and values that were still in the cache
	PromptTokens int           // prompt tokens evaluated
	Wait         time.Duration // until the model began with the request
	PromptTime   time.Duration // from then until the first token could be chosen
	Tokens       int           // tokens generated
	Drafts       int           // steps that checked draft tokens
	Drafted      int           // draft tokens that were checked
	Accepted     int           // accepted draft tokens
	HotDrafted   int           // part of Drafted: draft tokens by the model's own hot neurons
	HotAccepted  int           // part of HotDrafted: accepted draft tokens

	FurtherDrafted, FurtherAccepted int // the same for the file's MTP layer or a draft head

	Yielded float64           // share of the threads' time that other programs had while tokens were generated: 0 to 1
	Shifts  int               // how often the context was full and shifted: see Request.Shift
	Time    time.Duration     // that they took
	Neurons []model.NeuronUse // [layers] what the steps computed meanwhile, also for other requests, if Request.Neurons asks for it
	Slots   compute.SlotUse   // use of slots for experts meanwhile, also for other requests
	Units   compute.UnitUse   // use of units on disk while tokens were generated, also for other requests
	Experts compute.ExpertUse // use by this request alone, including its prompt, in layers with slots; drafting steps do not count
}

// Stream is a generation in progress. One goroutine uses it and chooses its tokens: while it handles a token, the model
// already evaluates that token, and steps for others do not wait for it. It ends by itself or by Close.
type Stream struct {
	e      *Engine
	t      *task
	ctx    context.Context
	unhook func() bool // ctx's
	r      Request
	res    Result
	err    error
	ended  bool
	begin  time.Duration // time of Submit, then of the first token
	first  bool          // the first token was chosen
	before []model.NeuronUse
	slots  compute.SlotUse // before
	units  compute.UnitUse // before
	yield  int64           // Engine.yielded before
	text   *stopText

	guess guesser     // nil: no tokens are drafted
	most  int         // most draft tokens at a time
	hot   bool        // hot neurons made the last draft tokens
	times []float64   // times for scheduler.checking
	rows  [][]float32 // [1 + drafted][n_vocab] logits of the last step, after the last token and after each draft token
	right int         // accepted draft tokens among these
}

// guesser drafts the next tokens of a text.
type guesser interface {
	// Accept gets the text's next token.
	Accept(id int32)
	// Draft returns at most most draft tokens; cost returns what checking up to that many costs.
	Draft(most int, cost func(most int) speculate.Cost) []int32
	// Outcome gets the numbers of checked and of accepted tokens of the last draft.
	Outcome(drafted, accepted int)
}

// Submit queues r. When ctx ends, the request leaves at any stage and frees its memory at once.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	if len(r.Prompt) == 0 {
		return nil, errors.New("the prompt is empty: give at least one token")
	}
	r.Context = e.contextOf(&r)
	if len(r.Prompt) > r.Context {
		return nil, &ContextError{len(r.Prompt), r.Context}
	}
	if err := e.checkTokens(r.Prompt); err != nil {
		return nil, err
	}
	if err := e.checkHead(); err != nil {
		return nil, err
	}
	if err := e.checkPictures(&r); err != nil {
		return nil, err
	}
	if r.Scales != nil {
		if err := e.checkScales(r.Scales); err != nil {
			return nil, err
		}
	}
	st := &Stream{e: e, t: newTask(), ctx: ctx, r: r, begin: monotime.Now()}
	if r.Text || len(r.StopStrings) > 0 {
		st.text = newStopText(e.tok.NewStream(r.Special), r.StopStrings)
	}
	t := st.t
	t.scales, t.extension = r.Scales, e.options.Cache.Extension
	t.generates, t.reuse, t.progress = true, r.Reuse, r.Progress != nil
	longest := r.Context
	if r.Max >= 0 {
		longest = min(longest, len(r.Prompt)+r.Max)
	}
	t.labels = make([]kvcache.Label, 0, longest)
	for _, id := range r.Prompt {
		t.labels = append(t.labels, kvcache.LabelOf(id, len(r.Prompt) < e.sched.short))
	}
	e.show(t, r.Pictures)
	if st.most, t.draft.fewest, t.draft.least = e.DraftsOf(&r); st.most > 0 {
		if e.hot != nil {
			e.hot.budget.Begin()
		}
		st.guess = e.guesser(&r)
	}
	for i, id := range r.Prompt {
		if p, _ := t.picture(i); p == nil {
			r.Sampler.Accept(id)
			st.note(id)
		}
	}
	if r.Constraint != nil {
		r.Sampler.Constrain(r.Constraint)
	}
	if err := e.sched.join(t); err != nil {
		return nil, err
	}
	st.unhook = context.AfterFunc(ctx, func() { e.sched.leave(t, ctx.Err()) })
	return st, nil
}

// Next chooses and returns the next token. It returns false when the generation has ended: Result says why, and Err
// whether it failed.
func (st *Stream) Next() (tok Token, ok bool) {
	if st.ended {
		return tok, false
	}
	row, ok := st.logits()
	if !ok {
		return tok, false
	}
	if !st.first {
		st.begins()
	}
	if st.r.Max == 0 {
		return tok, st.end(StopLength, nil)
	}
	id := st.r.Sampler.Sample(row)
	if err := st.r.Sampler.Err(); err != nil {
		return tok, st.end("", err)
	}
	if v := row[id]; v-v != 0 { // such a logit is chosen only if there is no other
		return tok, st.end("", st.e.ErrNotFinite())
	}
	tok.ID = id
	if st.r.Logprobs {
		tok.Logprob, tok.Top = st.likeliest(row, id)
	}
	switch {
	case !st.r.IgnoreEOG && st.e.tok.IsEOG(id):
		return Token{}, st.end(StopEOG, nil)
	case slices.Contains(st.r.StopTokens, id):
		return Token{}, st.end(StopToken, nil)
	}
	st.r.Sampler.Accept(id)
	if err := st.r.Sampler.Err(); err != nil {
		return Token{}, st.end("", err)
	}
	st.note(id)
	st.accepted(&tok)
	return tok, true
}

// accepted ends the generation with tok, or makes the model evaluate it.
func (st *Stream) accepted(tok *Token) {
	st.res.Tokens++
	stop := false
	if st.text != nil {
		tok.Text, stop = st.text.push(tok.ID)
	}
	switch {
	case stop:
		st.res.StopText = st.text.word
		st.end(StopString, nil)
	case st.r.Sampler.Done():
		st.end(StopGrammar, nil)
	case st.res.Tokens == st.r.Max:
		st.end(StopLength, nil)
	case len(st.t.labels)+st.right+1 > st.r.Context:
		st.full(tok.ID)
	default:
		st.next(tok.ID)
	}
}

// note passes the text's next token to the guesser.
func (st *Stream) note(id int32) {
	if st.guess != nil {
		st.guess.Accept(id)
	}
}

// next makes the model evaluate id, with draft tokens after it, unless id was a draft token itself.
func (st *Stream) next(id int32) {
	if drafted := len(st.rows) - 1; st.right < drafted && st.t.draft.labels[st.right].Token() == id {
		st.right++
		return
	}
	label := kvcache.LabelOf(id, true)
	st.giveBack(&label)
}

// giveBack gives the step's logits back, and makes the model evaluate next if it is not nil.
func (st *Stream) giveBack(next *kvcache.Label) {
	accepted, drafted, taken := st.right, max(0, len(st.rows)-1), len(st.rows) > 0
	st.rows, st.right = nil, 0
	st.res.Drafted, st.res.Accepted = st.res.Drafted+drafted, st.res.Accepted+accepted
	if drafted > 0 {
		st.res.Drafts++
	}
	var drafts []int32
	if st.guess != nil {
		again := accepted < drafted && st.e.pages.States > 0 // the next step evaluates the tokens before the wrong one again, without draft tokens
		if taken {                                           // otherwise a step may be computing the cost now
			st.outcome(drafted, accepted, again)
		}
		if next != nil && !again {
			var wish int
			if drafts, wish = st.drafts(len(st.t.labels) + accepted + 1); wish > 0 {
				st.e.sched.backHot(st.t, accepted, *next, wish)
				return
			}
		}
	}
	st.e.sched.back(st.t, accepted, next, drafts...)
}

// outcome tells the guesser how many tokens of the last draft were checked, how many were accepted, and the time that
// they saved. again: the next step evaluates tokens again because of them.
func (st *Stream) outcome(drafted, accepted int, again bool) {
	x := st.t.draft.settled
	gained := float64(accepted)*x.token - x.extra
	if st.hot {
		if st.e.sched.further != nil {
			st.res.FurtherDrafted, st.res.FurtherAccepted = st.res.FurtherDrafted+drafted, st.res.FurtherAccepted+accepted
		} else {
			st.res.HotDrafted, st.res.HotAccepted = st.res.HotDrafted+drafted, st.res.HotAccepted+accepted
		}
		st.e.hot.chances.Note(ofModel, drafted, accepted)
		st.e.hot.budget.Note(x.token, gained)
	} else {
		st.guess.Outcome(drafted, accepted)
		if g, ok := st.guess.(*textGuesser); ok {
			g.settle(x.token, gained)
		}
		if st.e.hot != nil {
			st.e.hot.budget.Note(x.token, 0)
		}
	}
	st.hot = st.hot && again
}

// drafts returns draft tokens that follow the text's first n tokens, or the number of draft tokens that the model's own
// hot neurons should make.
func (st *Stream) drafts(n int) (guesses []int32, wish int) {
	most := min(st.most, st.r.Context-n)
	if st.r.Max >= 0 {
		most = min(most, st.r.Max-st.res.Tokens-1)
	}
	cost := func(most int) speculate.Cost {
		cost := st.e.sched.checking(st.t, most, st.times)
		st.times = cost.Times
		return cost
	}
	guesses = st.guess.Draft(most, cost)
	if len(guesses) > 0 || st.e.hot == nil || st.t.extension.on() || st.t.pictures != nil { // the positions of extended texts and of pictures are not those in the cache
		return guesses, 0
	}
	atOnce := false
	switch f := st.e.sched.further; {
	case f != nil && f.Block > 0:
		if atOnce, most = true, min(most, f.Block-1); n+f.Block > st.r.Context {
			return nil, 0
		}
	case f != nil && f.Most > 0:
		most = min(most, f.Most)
	}
	wish = st.e.hot.wish(most, cost, st.e.sched.guessTime, atOnce)
	st.hot = wish > 0
	return nil, wish
}

// full ends a text when the context is full, or shifts the context and continues the text after id.
func (st *Stream) full(id int32) {
	sh := st.r.Shift
	if sh == nil || st.t.pictures != nil {
		st.end(StopContext, nil)
		return
	}
	st.giveBack(nil) // right draft tokens are part of the text
	old := st.t
	keep := min(max(sh.Keep, 0), st.r.Context-leastShift)
	left := len(old.labels) - keep
	gone := sh.Discard
	if gone <= 0 {
		gone = left / 2
	}
	gone = min(max(gone, 1), left)
	t := newTask()
	t.generates, t.reuse, t.extension = true, st.r.Reuse, old.extension
	t.draft.fewest, t.draft.least = old.draft.fewest, old.draft.least
	st.res.Experts.Add(st.uses(old))
	t.labels = make([]kvcache.Label, 0, cap(old.labels))
	short := len(old.labels)-gone+1 < st.e.sched.short
	for i, l := range old.labels {
		if i < keep || i >= keep+gone {
			t.labels = append(t.labels, kvcache.LabelOf(l.Token(), short))
		}
	}
	t.labels = append(t.labels, kvcache.LabelOf(id, short))
	st.res.Shifts++
	st.unhook()
	st.e.sched.leave(old, nil)
	if err := st.e.sched.join(t); err != nil {
		st.end("", err)
		return
	}
	st.t = t
	st.unhook = context.AfterFunc(st.ctx, func() { st.e.sched.leave(t, st.ctx.Err()) })
}

// leastShift is the least number of tokens after the kept ones that a context has when it shifts, as in llama.cpp.
const leastShift = 4

// logits returns the logits [n_vocab] after the last token. It waits for them unless the token was a draft token.
func (st *Stream) logits() (row []float32, ok bool) {
	for {
		if st.ctx.Err() != nil {
			return nil, st.end(StopCancelled, nil)
		}
		if st.right < len(st.rows) {
			return st.rows[st.right], true
		}
		select {
		case <-st.t.turn:
		case <-st.ctx.Done():
			continue
		}
		rows, read, err := st.e.sched.take(st.t)
		switch {
		case st.ctx.Err() != nil:
		case err != nil:
			return nil, st.end("", err)
		case len(rows) > 0:
			if !st.first && st.r.Progress != nil {
				st.r.Progress(read, len(st.r.Prompt))
			}
			st.rows, st.right = rows, 0
			return rows[0], true
		case !st.first && st.r.Progress != nil:
			st.r.Progress(read, len(st.r.Prompt))
		}
	}
}

// uses returns t's use of experts so far.
func (st *Stream) uses(t *task) compute.ExpertUse {
	st.e.sched.mu.Lock()
	defer st.e.sched.mu.Unlock()
	return t.uses
}

// begins records the prompt's time when the first token can be chosen.
func (st *Stream) begins() {
	now := monotime.Now()
	st.first = true
	st.res.Reused = st.t.reused
	st.res.PromptTokens = len(st.r.Prompt) - st.t.reused
	st.res.Wait = max(0, st.t.began-st.begin)
	st.res.PromptTime = now - st.begin - st.res.Wait
	st.begin = now
	st.yield = st.e.yielded.Load()
	st.units = st.e.UnitUse()
	if st.r.Neurons {
		st.before, st.slots = st.e.Neurons(), st.e.SlotUse()
	}
}

// end ends the generation. It returns false.
func (st *Stream) end(why StopReason, err error) bool {
	if st.ended {
		return false
	}
	st.ended, st.err, st.res.Stop = true, err, why
	if st.r.Constraint != nil {
		st.r.Sampler.Constrain(nil)
	}
	st.unhook()
	st.giveBack(nil)
	st.e.sched.leave(st.t, nil)
	st.res.Experts.Add(st.uses(st.t))
	if st.first {
		st.res.Time = monotime.Since(st.begin)
		if lost := st.e.yielded.Load() - st.yield; lost > 0 && st.res.Time > 0 { // negative after the model was loaded again
			st.res.Yielded = min(float64(lost)/float64(st.res.Time), 1)
		}
		st.res.Units = st.e.UnitUse().Since(st.units)
		if st.r.Neurons {
			st.res.Neurons, st.res.Slots = st.e.Neurons(), st.e.SlotUse().Since(st.slots)
			for l := range st.before {
				st.res.Neurons[l] = st.res.Neurons[l].Since(st.before[l])
			}
		}
	}
	if st.text != nil && why != StopString {
		st.res.Text = st.text.rest()
	}
	return false
}

// Close ends the generation, if it has not ended, and gives its memory back.
func (st *Stream) Close() { st.end(StopCaller, nil) }

// Reused returns how many tokens of the prompt had keys and values in the cache. It is known from the first call of
// Request.Progress on.
func (st *Stream) Reused() int { return st.t.reused }

// History returns the tokens with keys and values that the generation put into the cache or was about to put there: the
// prompt and the text without its last token, and without tokens that a shift removed.
func (st *Stream) History() []int32 {
	st.e.sched.mu.Lock()
	defer st.e.sched.mu.Unlock()
	tokens := make([]int32, len(st.t.labels))
	for i, l := range st.t.labels {
		tokens[i] = l.Token()
	}
	return tokens
}

// Err returns why the generation failed, or nil.
func (st *Stream) Err() error { return st.err }

// Result returns the generation's statistics, once it has ended.
func (st *Stream) Result() Result { return st.res }

// SoFar returns the generation's statistics so far, once it has a token.
func (st *Stream) SoFar() Result {
	r := st.res
	if !st.ended {
		r.Experts.Add(st.uses(st.t))
	}
	if st.first && !st.ended {
		r.Time = monotime.Since(st.begin)
	}
	return r
}

// Tokens returns the tokens that are left, and at the end an error if there is one. Leaving the loop ends the
// generation.
func (st *Stream) Tokens() iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		defer st.Close()
		for tok, ok := st.Next(); ok; tok, ok = st.Next() {
			if !yield(tok, nil) {
				return
			}
		}
		if st.err != nil {
			yield(Token{}, st.err)
		}
	}
}

// Generate runs r to its end. each gets every token and may end the generation by false. each may be nil.
func (e *Engine) Generate(ctx context.Context, r Request, each func(Token) bool) (Result, error) {
	st, err := e.Submit(ctx, r)
	if err != nil {
		return Result{}, err
	}
	for tok, err := range st.Tokens() {
		if err != nil || each != nil && !each(tok) {
			break
		}
	}
	return st.Result(), st.Err()
}
