package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/clock"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// StopReason says why a generation ended.
type StopReason string

// The reasons.
const (
	StopEOG       StopReason = "end of text"    // the model said so
	StopLength    StopReason = "token limit"    // Request.Max tokens were generated
	StopContext   StopReason = "context full"   // no position is left
	StopCancelled StopReason = "cancelled"      // ctx ended
	StopCaller    StopReason = "caller stopped" // Token returned false
)

// Request asks for a continuation of Prompt.
type Request struct {
	Prompt    []int32
	Max       int // tokens to generate; negative: until the model or the context ends
	Sampler   *sample.Sampler
	IgnoreEOG bool
	// Progress, if set, is told how many prompt tokens have been read.
	Progress func(done, total int)
	// Token receives each generated token before it is evaluated; false stops.
	Token func(id int32) bool
}

// Result is what a generation took.
type Result struct {
	Stop         StopReason
	Reused       int // prompt tokens whose KV was still there
	PromptTokens int // prompt tokens evaluated
	PromptTime   time.Duration
	Tokens       int // tokens generated
	Time         time.Duration
	Neurons      []model.NeuronUse // [layers] what the generated tokens' steps computed
}

// Generate evaluates the prompt and samples until something stops it. Cancelling ctx stops it
// between two steps; the Result is valid then too.
func (e *Engine) Generate(ctx context.Context, r Request) (Result, error) {
	var res Result
	if len(r.Prompt) == 0 {
		return res, errors.New("the prompt is empty: give at least one token")
	}
	if len(r.Prompt) > e.context {
		return res, fmt.Errorf("the prompt has %d tokens, more than the context of %d; raise it with -c or shorten the prompt", len(r.Prompt), e.context)
	}
	e.mu.Lock()
	s := e.resume(r.Prompt)
	e.mu.Unlock()
	defer e.retire(s)
	for _, id := range r.Prompt {
		r.Sampler.Accept(id)
	}

	g := generation{e: e, s: s, sampler: r.Sampler}
	begin := clock.Now()
	res.Reused = s.Len()
	if err := g.readPrompt(ctx, &r, &res); err != nil || res.Stop != "" {
		return res, err
	}
	res.PromptTime = clock.Since(begin)
	before := e.Neurons()
	begin = clock.Now()
	err := g.loop(ctx, &r, &res)
	res.Time = clock.Since(begin)
	res.Neurons = e.Neurons()
	for l := range res.Neurons {
		res.Neurons[l] = res.Neurons[l].Since(before[l])
	}
	return res, err
}

// generation is the state of one Generate; its method values are made once, so that a token allocates nothing.
type generation struct {
	e       *Engine
	s       *Sequence
	sampler *sample.Sampler
	next    int32
	broken  bool // next was chosen by a logit that is no number
	one     [1]int32
}

func (g *generation) readPrompt(ctx context.Context, r *Request, res *Result) error {
	rest := r.Prompt[res.Reused:]
	last := len(rest) - 1
	for at := 0; at < len(rest); {
		if ctx.Err() != nil {
			res.Stop = StopCancelled
			return nil
		}
		n := min(g.e.ubatch, len(rest)-at)
		wanted := func(i int) bool { return at+i == last }
		if err := g.e.Evaluate(g.s, rest[at:at+n], wanted, g.sample); err != nil {
			return err
		}
		at += n
		res.PromptTokens = at
		if r.Progress != nil {
			r.Progress(res.Reused+at, len(r.Prompt))
		}
	}
	return nil
}

// sample chooses the next token. A token is chosen by a logit that is no number only if there is none that is.
func (g *generation) sample(_ int, logits []float32) {
	g.next = g.sampler.Sample(logits)
	l := logits[g.next]
	g.broken = l-l != 0
}

func always(int) bool { return true }

func (g *generation) loop(ctx context.Context, r *Request, res *Result) error {
	pick := g.sample
	for {
		if g.broken {
			return g.e.ErrNotFinite()
		}
		switch {
		case r.Max >= 0 && res.Tokens >= r.Max:
			res.Stop = StopLength
		case ctx.Err() != nil:
			res.Stop = StopCancelled
		case !r.IgnoreEOG && g.e.tok.IsEOG(g.next):
			res.Stop = StopEOG
		}
		if res.Stop != "" {
			return nil
		}
		g.sampler.Accept(g.next)
		res.Tokens++
		if r.Token != nil && !r.Token(g.next) {
			res.Stop = StopCaller
			return nil
		}
		if res.Tokens == r.Max {
			continue // its logits are not needed
		}
		g.one[0] = g.next
		err := g.e.Evaluate(g.s, g.one[:], always, pick)
		var full *ErrContextFull
		if errors.As(err, &full) {
			res.Stop = StopContext
			return nil
		}
		if err != nil {
			return err
		}
	}
}
