package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/markdown"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// answer generates an answer to the conversation, shows it while it comes, and adds it to the conversation.
func (t *talk) answer(ctx context.Context) error {
	r, prompt, err := t.request()
	if err != nil {
		return err
	}
	if len(r.Prompt) > t.model.Context() {
		return fmt.Errorf("the conversation has %d tokens, more than the context of %d; /clear begins a new one, -c gives a larger context", len(r.Prompt), t.model.Context())
	}
	ctx, stop := t.untilInterrupted(ctx)
	defer stop()
	bar := newProgress("reading the prompt", unitTokens)
	r.Progress = func(done, total int) { bar.set(int64(done), int64(total)) }
	defer bar.finish()
	stream, err := t.model.Submit(ctx, r)
	if err != nil {
		return err
	}
	show := t.newAnswer(prompt)
	text := t.model.Tokenizer().NewStream(t.format != nil)
	for tok, ok := stream.Next(); ok; tok, ok = stream.Next() {
		bar.finish()
		if err := show.push(text.Push(tok.ID)); err != nil {
			stream.Close()
			return errors.Join(err, show.end(""))
		}
	}
	if err := errors.Join(show.end(text.Flush()), stream.Err()); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	t.last = stream.Result()
	t.answers++
	t.tokens += t.last.Tokens
	t.time += t.last.Time
	t.said.messages = append(t.said.messages, chat.Message{Role: "assistant", Content: show.message.Content, Reasoning: show.message.Reasoning})
	if t.last.Stop == engine.StopCancelled && t.interrupts == nil {
		return errInterrupted
	}
	t.status(len(r.Prompt))
	return nil
}

// request returns what is asked of the model, and the prompt's text.
func (t *talk) request() (engine.Request, string, error) {
	prompt, err := t.said.prompt()
	if err != nil {
		return engine.Request{}, "", err
	}
	tok := t.model.Tokenizer()
	o := t.sampling
	o.Seed = (o.Seed + uint64(t.answers)) % sample.RandomSeed // another one for each answer, so that /regen gives another
	sampler, err := sample.New(o, t.model.Config().Vocab)
	if err != nil {
		return engine.Request{}, "", err
	}
	constraint, err := constrain(t.grammar, tok)
	if err != nil {
		return engine.Request{}, "", err
	}
	return engine.Request{
		Prompt: t.said.tokens(prompt, tok), Max: t.command.Int("n-predict"), Sampler: sampler, IgnoreEOG: t.command.Bool("ignore-eos"),
		Constraint: constraint, Reuse: engine.ReuseAny, Neurons: true,
	}, prompt, nil
}

// untilInterrupted returns a context that ends with ctx or when Ctrl-C is pressed. stop must be called.
func (t *talk) untilInterrupted(ctx context.Context) (_ context.Context, stop func()) {
	select {
	case <-t.interrupts: // it came between two prompts, before there was an answer to stop
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-t.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// status tells what the last answer took, of a prompt of so many tokens.
func (t *talk) status(prompt int) {
	r := t.last
	if r.Stop == engine.StopContext {
		t.note("the context of %d tokens is full, %d of them the prompt's; /clear begins a new conversation, -c gives a larger context", t.model.Context(), prompt)
	}
	if !t.interactive {
		return
	}
	parts := []string{count(r.Tokens, "token")}
	if r.Tokens > 1 && r.Time > 0 {
		parts = append(parts, fmt.Sprintf("%.1f tokens/s", float64(r.Tokens-1)/r.Time.Seconds()))
	}
	parts = append(parts, fmt.Sprintf("prompt %d read, %d reused", r.PromptTokens, r.Reused))
	if active, ok := activeShare(r.Neurons); ok {
		parts = append(parts, fmt.Sprintf("%.0f %% of neurons active", 100*active))
	}
	if r.Stop == engine.StopLength || r.Stop == engine.StopCancelled {
		parts = append(parts, string(r.Stop))
	}
	t.note("[%s]", strings.Join(parts, " | "))
}

// activeShare returns the share of neurons that were active, and whether any were counted.
func activeShare(use []model.NeuronUse) (float64, bool) {
	var active, all int64
	for _, u := range use {
		active += u.Active
		all += u.Tokens * int64(u.Neurons)
	}
	return float64(active) / float64(max(all, 1)), all > 0
}

// shownAnswer is an answer on its way to the user.
type shownAnswer struct {
	out      *bufio.Writer
	parser   *answer.Parser   // nil: all is content
	styler   *markdown.Styler // nil: as it is
	styled   bool
	message  answer.Message
	thinking bool // the last that was shown is a thought
	lineOpen bool // what was shown last is no newline
}

func (t *talk) newAnswer(prompt string) *shownAnswer {
	a := &shownAnswer{out: bufio.NewWriter(os.Stdout), styled: t.styled}
	if t.format != nil {
		a.parser = t.format.NewParser(answer.Options{Prompt: prompt})
		if t.styled {
			a.styler = &markdown.Styler{}
		}
	}
	return a
}

// push shows a piece of the text that the model writes.
func (a *shownAnswer) push(text string) error {
	if a.parser == nil {
		a.show(answer.Event{Kind: answer.Content, Text: text})
	} else {
		a.show(a.parser.Feed(text)...)
	}
	return a.out.Flush()
}

// end shows the last piece and ends the line.
func (a *shownAnswer) end(text string) error {
	err := a.push(text)
	if a.parser != nil {
		a.show(a.parser.Finish()...)
	}
	a.thought(false)
	if a.styler != nil {
		a.write(a.styler.Finish())
	}
	if a.lineOpen {
		a.write("\n")
	}
	return errors.Join(err, a.out.Flush())
}

func (a *shownAnswer) show(events ...answer.Event) {
	a.message.Add(events...)
	for _, e := range events {
		if e.Text == "" {
			continue
		}
		a.thought(e.Kind == answer.Reasoning)
		if a.styler != nil && e.Kind != answer.Reasoning {
			e.Text = a.styler.Feed(e.Text)
		}
		a.write(e.Text)
	}
}

// thought begins or ends a thought, which is faint or, in plain text, between two lines.
func (a *shownAnswer) thought(begins bool) {
	if begins == a.thinking {
		return
	}
	a.thinking = begins
	switch {
	case a.styled && begins:
		a.write("\x1b[2m")
	case a.styled:
		a.out.WriteString("\x1b[0m")
		a.write("\n")
	case begins:
		a.write("[thoughts]\n")
	default:
		if a.lineOpen {
			a.write("\n")
		}
		a.write("[answer]\n")
	}
}

func (a *shownAnswer) write(text string) {
	if text != "" {
		a.out.WriteString(text)
		a.lineOpen = !strings.HasSuffix(text, "\n")
	}
}
