package engine

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// surely is step; where a card fails, the others or the processor go on without it: the model is loaded anew, and the sequence, whose
// keys and values were lost, is evaluated again.
func (e *Engine) surely(s *Sequence, tokens []int32, at int, wanted func(i int) bool) (int, error) {
	for e.broken == nil {
		held, n := s.tokens, 0
		err := e.restore(s)
		if err == nil {
			n, err = e.step(s, tokens, at, wanted)
		}
		if err == nil || e.options.Plan == nil {
			return n, err
		}
		var card *hybrid.CardError
		if !errors.As(err, &card) {
			return n, err
		}
		s.tokens = held // restored or not
		if err := e.giveUpCard(card); err != nil {
			return 0, err
		}
	}
	return 0, e.broken
}

// giveUpCard loads the model anew without the card that failed, for others, if there is a plan for them, or for the processor alone. All
// keys and values are lost.
func (e *Engine) giveUpCard(cause *hybrid.CardError) error {
	past := e.neurons()
	_ = e.dev.Close() // says only that a card has failed
	e.options.Progress, e.idle = nil, nil
	for e.options.Plan != nil {
		plan := e.options.Plan
		rest, says := plan.Without(cause.Card)
		if plan.Notice != nil {
			plan.Notice(fmt.Sprintf("%v; %s", cause, says))
		}
		e.options.Plan = rest
		err := e.load()
		if err == nil {
			break
		}
		if rest == nil || !errors.As(err, &cause) {
			e.broken = fmt.Errorf("%w, and what is left cannot go on: %w", cause, err)
			return e.broken
		}
	}
	// What was counted stays counted: NeuronUse.Since takes away.
	e.past = make([]model.NeuronUse, len(past))
	for l, u := range past {
		e.past[l] = model.NeuronUse{}.Since(u)
	}
	return nil
}

// restore evaluates s again if its keys and values are lost.
func (e *Engine) restore(s *Sequence) error {
	if s.pool == e.pages {
		return nil
	}
	lost := s.tokens
	s.tokens, s.pages, s.pool = nil, nil, e.pages
	for len(lost) > 0 {
		n, err := e.step(s, lost[:min(e.ubatch, len(lost))], 0, nil)
		if err != nil {
			return err
		}
		lost = lost[n:]
	}
	return nil
}

// readable says whether the n rows of logits of a step can be had: a card may be lost when its work is done and its results are not yet
// read.
func (e *Engine) readable(n int) error {
	d, ok := e.dev.(beside)
	if !ok {
		return nil
	}
	for i := range n {
		e.model.Logits(i)
	}
	return d.Err()
}

// rehearse has the cards take what steps of every size need, so that it is missing now or never.
func (e *Engine) rehearse() error {
	d, ok := e.dev.(beside)
	if !ok || e.options.Observer != nil {
		return nil
	}
	return d.Rehearse(func() error {
		for _, n := range vulkan.Steps(e.ubatch) {
			if err := e.rehearseStep(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// rehearseStep has the largest step of n tokens recorded: in the last positions of the context, with as many logits as there may be.
func (e *Engine) rehearseStep(n int) error {
	p := &e.params
	p.Tokens, p.Pos, p.Seq, p.Out = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, min(n, e.outputs))
	e.view[0] = make([]int32, len(e.pages.refs))
	p.Pages = e.view[:]
	return e.model.Forward(p)
}
