package eval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Questions asks a model a task's questions. What choices share is read once, and several questions are read at once.
type Questions struct {
	Data     *task.Data
	Items    []int                                               // indices of Data.Items to ask
	Parallel int                                                 // questions read at once
	Each     func(item int, likelihoods []task.Likelihood) error // called once for each question, in the order in which they finish, never concurrently
}

// Run asks all questions. An error of Each ends it.
func (q *Questions) Run(ctx context.Context, e *engine.Engine) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var group sync.WaitGroup
	var told sync.Mutex
	for range max(1, q.Parallel) {
		group.Go(func() {
			for i := range next {
				l, err := Likelihoods(ctx, e, q.Data, &q.Data.Items[i])
				told.Lock()
				if err == nil && ctx.Err() == nil {
					err = q.Each(i, l)
				} else if err != nil {
					err = fmt.Errorf("question %s: %w", q.Data.Items[i].ID, err)
				}
				told.Unlock()
				if err != nil {
					stop(err)
				}
			}
		})
	}
	for _, i := range q.Items {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// Likelihoods returns the likelihood that the model gives each choice of an item, [choices].
func Likelihoods(ctx context.Context, e *engine.Engine, d *task.Data, it *task.Item) ([]task.Likelihood, error) {
	spans, err := spansOf(e.Tokenizer(), d, it)
	if err != nil {
		return nil, err
	}
	shared := sharedBy(spans)
	all := make([]task.Likelihood, len(spans))
	errs := make([]error, len(spans))
	read := func(i int, s *engine.Sequence) {
		defer context.AfterFunc(ctx, func() { e.Release(s) })()
		all[i], errs[i] = spans[i].evaluate(e, s)
	}
	first := e.NewBranch(shared) // the others find its keys, values and states
	defer e.Release(first)
	if read(0, first); errs[0] == nil {
		var group sync.WaitGroup
		for i := range spans[1:] {
			group.Go(func() {
				s := e.NewBranch(shared)
				defer e.Release(s)
				read(i+1, s)
			})
		}
		group.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return all, errors.Join(errs...)
}

// span is a choice in tokens; [from, to) are scored.
type span struct {
	tokens   []int32
	from, to int
}

// trailing bounds Winogrande's rule: if every choice has more tokens than this after the common beginning, llama.cpp
// does not score the word that fills the blank.
const trailing = 3

// spansOf returns the choices of an item as their definition cuts them.
func spansOf(tok *tokenizer.Tokenizer, d *task.Data, it *task.Item) ([]span, error) {
	all := make([]span, len(it.Choices))
	encode := func(text string) []int32 { return tok.Encode(text, true, false) }
	if d.Scoring == task.Harness && tok.AddsEOS() { // llama.cpp counts it among the choice's tokens
		encode = func(text string) []int32 { return withoutEnd(tok, text) }
	}
	for i, c := range it.Choices {
		context, text := c.Context, c.Context+c.Continuation
		if d.Scoring == task.Harness {
			context = strings.TrimRightFunc(context, unicode.IsSpace)
		}
		all[i] = span{tokens: encode(text), from: len(encode(context))}
		all[i].to = len(all[i].tokens)
	}
	if d.Scoring == task.Llama {
		common := commonPrefix(all)
		away := common > 0
		for _, s := range all {
			away = away && len(s.tokens)-common > trailing
		}
		for i := range all {
			s := &all[i]
			if d.Kind != task.Winogrande || !away {
				s.from = common
			}
			if d.Kind == task.Winogrande && s.to-s.from > 1 {
				s.to-- // the full stop
			}
		}
	}
	for i, s := range all {
		all[i].from = max(1, s.from) // nothing predicts the first token
		if all[i].from >= s.to {
			return nil, fmt.Errorf("choice %d has no tokens of its own", i+1)
		}
	}
	return all, nil
}

// withoutEnd returns the tokens of an unfinished text: with BOS as the vocabulary says, without EOS.
func withoutEnd(tok *tokenizer.Tokenizer, text string) []int32 {
	tokens := tok.Encode(text, true, false)
	if n := len(tokens); tok.AddsEOS() && n > 0 && tokens[n-1] == tok.EOS() {
		return tokens[:n-1]
	}
	return tokens
}

// commonPrefix returns how many tokens all spans begin with.
func commonPrefix(all []span) int {
	n := 0
	for ; ; n++ {
		for _, s := range all {
			if n >= len(s.tokens)-1 || s.tokens[n] != all[0].tokens[n] {
				return n
			}
		}
	}
}

// sharedBy returns how many leading tokens all spans share without needing their logits.
func sharedBy(all []span) int {
	n := commonPrefix(all)
	for _, s := range all {
		n = min(n, s.from-1)
	}
	return n
}

// evaluate scores a span in s, which must be empty.
func (p *span) evaluate(e *engine.Engine, s *engine.Sequence) (task.Likelihood, error) {
	l := task.Likelihood{Tokens: p.to - p.from}
	err := e.Evaluate(s, p.tokens[:p.to-1], func(i int) bool { return i >= p.from-1 }, func(i int, logits []float32) {
		l.Sum += float64(logits[p.tokens[i+1]]) - logSumExp(logits)
	})
	if err == nil && l.Sum-l.Sum != 0 {
		err = e.ErrNotFinite()
	}
	return l, err
}
