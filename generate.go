package powerinfer

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// Generation describes what to generate. The zero value continues the prompt until the model or the context ends.
type Generation struct {
	Max          int       // tokens at most; 0: until the model or the context ends; negative: none, the prompt is only read
	Sampling     *Sampling // nil: Model.Sampling
	Stop         []string  // texts that end the generation and are not part of it
	IgnoreEnd    bool      // go on where the model would end the text
	Special      bool      // Token.Text has the texts of control tokens, too
	Grammar      string    // what may be generated, in GBNF; empty: anything
	Schema       string    // a JSON Schema that the generated JSON text must fit; empty: anything
	Template     string    // the chat template that made the prompt; if it makes the model begin with thoughts, Grammar and Schema hold after these
	Logprobs     bool      // Token.Logprob is wanted
	TopLogprobs  int       // so many of the likeliest tokens are wanted in Token.Top; needs Logprobs
	Neurons      bool      // Result.Neurons is wanted
	Shift        bool      // if the context is full, the text goes on without its oldest tokens, and the others are evaluated again
	Keep         int       // for Shift: tokens at the beginning of the prompt that stay, besides the token that begins a text
	Reproducible bool      // does not reuse keys and values of generated texts, because they may differ in rounding

	Pictures *Places // in the prompt: see Model.TokenizeMarked; nil: there are none

	Looking  func(done, total int) // is told how much of the pictures is computed; may be nil
	Progress func(read, total int) // is told how many tokens of the prompt are read; may be nil
}

// Token is a generated token.
type Token struct {
	ID      int32   // -1: the end of the text, held back because a stop text might have begun there
	Text    string  // what it adds to the text, in whole characters; bytes of an unfinished character come with a later token
	Logprob float32 // natural logarithm of its probability before sampling changed it
	Top     []Likely
}

// Likely is a token that could have been chosen.
type Likely struct {
	ID      int32
	Logprob float32
}

// Stopped says why a generation ended.
type Stopped string

// The reasons.
const (
	StoppedEnd     = Stopped(engine.StopEOG)     // the model ended the text
	StoppedText    = Stopped(engine.StopString)  // one of Generation.Stop came
	StoppedMax     = Stopped(engine.StopLength)  // Generation.Max tokens were generated
	StoppedContext = Stopped(engine.StopContext) // the context is full
	StoppedGrammar = Stopped(engine.StopGrammar) // the grammar lets nothing follow
	StoppedEarly   = Stopped(engine.StopCaller)  // Close was called
	StoppedByCtx   = Stopped(engine.StopCancelled)
)

// Result says what a generation took.
type Result struct {
	Stopped    Stopped
	Cached     int           // tokens of the prompt that the KV cache already held
	Prompt     int           // tokens of the prompt that were computed
	Tokens     int           // generated tokens
	Wait       time.Duration // until the model began with the prompt
	PromptTime time.Duration // from then until the first token could be chosen
	Time       time.Duration // from then until the end
	Yielded    float64       // share of the threads' time, 0 to 1, that went to other programs because fewer threads were faster
	Drafted    int           // tokens that were guessed and checked: see Options.Drafts
	Accepted   int           // drafted tokens that were accepted

	HotDrafted, HotAccepted         int // of these, drafts by hot neurons: see Drafts.Hot
	FurtherDrafted, FurtherAccepted int // of these, drafts by the file's MTP layer or a draft head: see Drafts.Further

	Neurons []LayerNeurons // what the layers computed meanwhile, also for other generations; only if Generation.Neurons asked for it; [layers]
	Experts ExpertUse      // uses of experts that follow the text: see GPUs.MoECache
	Disk    DiskUse        // reads from disk meanwhile, also for other generations
}

// ExpertUse counts uses and copies of experts in layers where a GPU holds the experts that the text needs at the time.
type ExpertUse struct {
	OnGPU, Elsewhere int64 // uses of an expert by the request's tokens, prompt included: on a GPU, and in RAM or on disk
	Copied           int64 // experts copied to a GPU meanwhile, also for other generations; only if Generation.Neurons asked for it
	Bytes            int64 // bytes of these copies
}

// DiskUse counts uses and reads of experts or neurons that stay on disk because the model is larger than memory. It is
// zero for other models.
//
//   - Kept int64: uses of units that RAM held
//   - Ahead int64: uses of units read ahead by a correct guess
//   - Read int64: uses of units that had to be read at once
//   - Bytes int64: bytes read, including wrong guesses
//   - Left int64: experts left out instead of read; not among the uses: see Skip
//   - Reading time.Duration: time in which reads were under way
//   - Waited time.Duration: time in which steps waited for reads
type DiskUse = compute.DiskUse

// Stream is a generation in progress. One goroutine uses it. It ends by itself, with its context, or by Close.
type Stream struct {
	s     *engine.Stream
	ended bool
}

// Generate returns the tokens that continue prompt. Leaving the loop ends the generation; an error is the last element.
func (m *Model) Generate(ctx context.Context, prompt string, g Generation) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		s, err := m.Start(ctx, m.Tokenize(prompt, true, true), g)
		if err != nil {
			yield(Token{}, err)
			return
		}
		for t, err := range s.Tokens() {
			if !yield(t, err) {
				return
			}
		}
	}
}

// Start begins to continue the tokens of a prompt and returns at once. If the prompt has pictures that are not cached,
// it first computes them. The end of ctx ends the generation and frees its memory.
func (m *Model) Start(ctx context.Context, prompt []int32, g Generation) (*Stream, error) {
	constraint, err := m.constraint(ctx, &g, prompt)
	if err != nil {
		return nil, err
	}
	return m.start(ctx, prompt, g, constraint)
}

// start begins to continue prompt under constraint, which may be nil.
func (m *Model) start(ctx context.Context, prompt []int32, g Generation, constraint sample.Constraint) (*Stream, error) {
	o := m.Sampling()
	if g.Sampling != nil {
		o = *g.Sampling
	}
	sampler, err := m.sampler(o)
	if err != nil {
		return nil, err
	}
	r := engine.Request{
		Prompt: prompt, Max: g.Max, Sampler: sampler, IgnoreEOG: g.IgnoreEnd, StopStrings: g.Stop, Text: true, Special: g.Special, Neurons: g.Neurons,
		Logprobs: g.Logprobs, TopLogprobs: g.TopLogprobs, Reuse: engine.ReuseAny, Constraint: constraint, Progress: g.Progress,
	}
	switch {
	case g.Max == 0:
		r.Max = -1
	case g.Max < 0:
		r.Max = 0
	}
	if g.Shift {
		r.Shift = m.shift(g.Keep, len(prompt))
	}
	if g.Reproducible {
		r.Reuse = engine.ReuseSame
	}
	if r.Pictures, err = m.shown(ctx, g.Pictures, g.Looking); err != nil {
		return nil, tell(err)
	}
	s, err := m.session.Submit(ctx, r)
	if err != nil {
		return nil, tell(err)
	}
	return &Stream{s: s}, nil
}

// shift returns what stays of a text when the context is full.
func (m *Model) shift(keep, prompt int) *engine.Shift {
	keep = min(max(keep, 0), prompt)
	if m.session.Tokenizer().AddsBOS() && keep < prompt {
		keep++
	}
	return &engine.Shift{Keep: keep}
}

// Validate returns an error if the grammar or the schema cannot be read. It needs no model.
func (g *Generation) Validate() error {
	_, err := g.rules(context.Background(), "")
	return err
}

// form returns the grammar or the schema of the generated text.
func (g *Generation) form() (grammar.Text, error) {
	switch {
	case g.Grammar != "" && g.Schema != "":
		return grammar.Text{}, errors.New("Generation.Grammar and Generation.Schema both say what may be generated; give one")
	case g.Schema != "":
		return grammar.Text{Schema: json.RawMessage(g.Schema)}, nil
	}
	return grammar.Text{GBNF: g.Grammar}, nil
}

// rules returns the grammar of the text after a prompt, or nil if there is none.
func (g *Generation) rules(ctx context.Context, prompt string) (*grammar.Grammar, error) {
	form, err := g.form()
	switch {
	case err != nil:
		return nil, err
	case form.Any():
		return nil, nil
	case g.Template == "":
		return form.Grammar(ctx)
	}
	c, err := answer.FormatOf(g.Template, false, false).Constraint(ctx, answer.ConstraintOptions{Text: form, Prompt: prompt})
	if err != nil {
		return nil, err
	}
	return c.Grammar, nil
}

// constraint returns the constraint of g's grammar or schema on the text after a prompt, or nil if there is none.
func (m *Model) constraint(ctx context.Context, g *Generation, prompt []int32) (sample.Constraint, error) {
	if g.Grammar == "" && g.Schema == "" {
		return nil, nil
	}
	text, place := "", ""
	if g.Template != "" {
		text = m.session.Tokenizer().Decode(prompt, true)
		place = answer.FormatOf(g.Template, false, false).Place(text)
	}
	compiled, err := m.rules.of(strings.Join([]string{g.Grammar, g.Schema, g.Template, place}, "\x00"), func() (*grammar.Compiled, error) {
		rules, err := g.rules(ctx, text)
		if err != nil {
			return nil, err
		}
		return m.compile(rules)
	})
	if err != nil {
		return nil, err
	}
	return compiled.NewState(ctx), nil
}

// Next returns the next token. It returns false when the generation has ended: Err says whether it failed.
func (s *Stream) Next() (Token, bool) {
	if s.ended {
		return Token{}, false
	}
	t, ok := s.s.Next()
	if !ok {
		s.ended = true
		rest := s.s.Result().Text
		return Token{ID: -1, Text: rest}, rest != ""
	}
	token := Token{ID: t.ID, Text: t.Text, Logprob: t.Logprob}
	for _, l := range t.Top {
		token.Top = append(token.Top, Likely(l))
	}
	return token, true
}

// Tokens returns the tokens that are left, and at the end an error if there is one. Leaving the loop ends the
// generation.
func (s *Stream) Tokens() iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		defer s.Close()
		for t, ok := s.Next(); ok; t, ok = s.Next() {
			if !yield(t, nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(Token{}, err)
		}
	}
}

// Close ends the generation, if it has not ended, and gives its memory back.
func (s *Stream) Close() {
	s.ended = true
	s.s.Close()
}

// Err returns why the generation failed, or nil.
func (s *Stream) Err() error { return tell(s.s.Err()) }

// Result returns what the generation took, once it has ended.
func (s *Stream) Result() Result {
	r := s.s.Result()
	return Result{
		Stopped: Stopped(r.Stop), Cached: r.Reused, Prompt: r.PromptTokens, Tokens: r.Tokens,
		Wait: r.Wait, PromptTime: r.PromptTime, Time: r.Time, Yielded: r.Yielded, Drafted: r.Drafted, Accepted: r.Accepted, HotDrafted: r.HotDrafted, HotAccepted: r.HotAccepted, FurtherDrafted: r.FurtherDrafted, FurtherAccepted: r.FurtherAccepted, Neurons: layerNeurons(r.Neurons),
		Experts: ExpertUse{OnGPU: r.Experts.Hits, Elsewhere: r.Experts.Misses, Copied: r.Slots.Promotions, Bytes: r.Slots.Bytes},
		Disk:    r.Units.Disk(),
	}
}
