package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/markdown"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// answer generates an answer to the conversation, shows it while it comes, and adds it to the conversation.
func (t *talk) answer(ctx context.Context) error {
	prompt, tokens, places, err := t.room()
	if err != nil {
		return err
	}
	if most := t.model.Info().Context; len(tokens) > most {
		what, begin := "conversation has", "/clear begins a new one, "
		if t.command.Bool("single-turn") {
			what, begin = "text and its template have", ""
		}
		return fmt.Errorf("the %s %d tokens, more than the context of %d; %s-c gives a larger context", what, len(tokens), most, begin)
	}
	prompted := len(tokens)
	ctx, stop := t.untilInterrupted(ctx)
	defer stop()
	bar := progress.New("reading the prompt", progress.Tokens)
	defer bar.Finish()
	g := t.generation()
	var limited bool
	g.Max, limited = t.answerLimit(prompted)
	g.Looking = looking()
	g.Progress = bar.Count
	g.Pictures = places
	stream, err := t.model.Start(ctx, tokens, g)
	if err != nil {
		return err
	}
	show := newReply(t.format, t.styled, prompt.Text)
	kept := places.Tokens() == 0 // pictures' keys and values are not saved
	if t.evaluated = nil; kept {
		t.evaluated = tokens
	}
	for token, ok := stream.Next(); ok; token, ok = stream.Next() {
		bar.Finish()
		if token.ID >= 0 && kept {
			t.evaluated = append(t.evaluated, token.ID)
		}
		if err := show.push(token.Text); err != nil {
			stream.Close()
			return errors.Join(err, show.end())
		}
	}
	if err := errors.Join(show.end(), stream.Err()); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	t.last = stream.Result()
	t.answers++
	t.tokens += t.last.Tokens
	t.further += max(0, t.last.Tokens-1)
	t.time += t.last.Time
	t.said.messages = append(t.said.messages, chat.Message{Role: "assistant", Content: show.message.Content, Reasoning: show.message.Reasoning})
	if t.last.Stopped == powerinfer.StoppedByCtx && t.interrupts == nil {
		return errInterrupted
	}
	t.full(prompted, limited)
	t.status(limited)
	return nil
}

// generation returns what is wanted of the next answer.
func (t *talk) generation() powerinfer.Generation {
	s := t.sampling
	s.Seed = (s.Seed + uint64(t.answers)) % powerinfer.RandomSeed // another one for each answer, so that /regen gives another
	g := t.constraint
	g.IgnoreEnd, g.Sampling = t.command.Bool("ignore-eos"), &s
	g.Special, g.Neurons = t.format != nil, true
	if t.said.template != nil {
		g.Template = t.said.template.Source()
	}
	g.Shift, g.Keep = t.command.Bool("context-shift"), t.keep
	return g
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

// status tells what the last answer took. limited says that full told why it stopped at a limit.
func (t *talk) status(limited bool) {
	r := t.last
	if !t.interactive {
		return
	}
	parts := []string{quantity.Of(r.Tokens, "token")}
	if r.Tokens > 1 && r.Time > 0 {
		parts = append(parts, fmt.Sprintf("%.1f tokens/s", float64(r.Tokens-1)/r.Time.Seconds()))
	}
	parts = append(parts, fmt.Sprintf("prompt %d read, %d reused", r.Prompt, r.Cached))
	if n := r.Tokens - 1; r.Disk.Uses() > 0 && n > 0 {
		parts = append(parts, fmt.Sprintf("%.1f MB a token from disk", float64(r.Disk.Bytes)/1e6/float64(n)))
	}
	if active, ok := summary.ActiveShare(r.Neurons); ok {
		parts = append(parts, fmt.Sprintf("%.0f %% of neurons active", 100*active))
	}
	if r.Stopped == powerinfer.StoppedMax && !limited || r.Stopped == powerinfer.StoppedByCtx {
		parts = append(parts, string(r.Stopped))
	}
	t.note("[%s]", strings.Join(parts, " | "))
}

// shownAnswer is an answer on its way to the user.
type shownAnswer struct {
	out      *bufio.Writer
	parser   *answer.Parser   // nil: all is content
	styler   *markdown.Styler // nil: the text is shown as it is
	styled   bool
	message  answer.Message
	thinking bool          // the last that was shown is a thought
	folding  *shownThought // the thought that is shown, where it is folded
	onScreen bool          // a terminal obeys what it is shown
	cleaner  terminal.Cleaner
	lineOpen bool // what was shown last is no newline
}

// newReply shows what answers prompt. format reads it, unless it is nil; styled has it written with escape sequences.
func newReply(format *answer.Format, styled bool, prompt string) *shownAnswer {
	a := &shownAnswer{out: bufio.NewWriter(screen.Out.Styled()), styled: styled, onScreen: screen.Out.IsTerminal()}
	if format != nil {
		a.parser = format.NewParser(answer.Options{Prompt: prompt})
	}
	if styled {
		a.styler = &markdown.Styler{Plain: format == nil}
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

// end shows what the parser held back and ends the line.
func (a *shownAnswer) end() error {
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
	return a.out.Flush()
}

func (a *shownAnswer) show(events ...answer.Event) {
	a.message.Add(events...)
	for _, e := range events {
		if e.Text == "" {
			continue
		}
		if a.onScreen {
			e.Text = a.cleaner.Text(e.Text)
		}
		a.thought(e.Kind == answer.Reasoning)
		if a.folding != nil {
			a.folding.write(e.Text)
			continue
		}
		if a.styler != nil && e.Kind != answer.Reasoning {
			a.styler.Width = screen.Columns(screen.Out)
			e.Text = a.styler.Feed(e.Text)
		}
		a.write(e.Text)
	}
}

// thought begins or ends a thought, which is faint and then folded or, in plain text, between two lines.
func (a *shownAnswer) thought(begins bool) {
	if begins == a.thinking {
		return
	}
	a.thinking = begins
	switch {
	case a.styled && begins:
		a.folding = beginThought(a.out, screen.Out.Size)
	case a.styled:
		a.folding.fold()
		a.folding, a.lineOpen = nil, false
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
