package talk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/reply"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// answer generates an answer to the conversation, shows it while it comes, and adds it to the conversation.
func (t *talk) answer(ctx context.Context) error {
	prompt, tokens, places, err := t.room()
	if err != nil {
		return err
	}
	if most := t.model.Info().Context; len(tokens) > most {
		what, begin := "conversation has", "/clear begins a new one, "
		if t.SingleTurn {
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
	g.Looking = progress.Looking()
	g.Progress = bar.Count
	g.Pictures = places
	stream, err := t.model.Start(ctx, tokens, g)
	if err != nil {
		return err
	}
	show := reply.New(t.format, t.styled, prompt.Text)
	kept := places.Tokens() == 0 // keys and values of pictures are not saved
	if t.evaluated = nil; kept {
		t.evaluated = tokens
	}
	for token, ok := stream.Next(); ok; token, ok = stream.Next() {
		bar.Finish()
		if token.ID >= 0 && kept {
			t.evaluated = append(t.evaluated, token.ID)
		}
		if err := show.Push(token.Text); err != nil {
			stream.Close()
			return errors.Join(err, show.End())
		}
	}
	if err := errors.Join(show.End(), stream.Err()); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	t.last = stream.Result()
	t.answers++
	t.tokens += t.last.Tokens
	t.further += max(0, t.last.Tokens-1)
	t.time += t.last.Time
	t.said.Messages = append(t.said.Messages, chat.Message{Role: "assistant", Content: show.Message.Content, Reasoning: show.Message.Reasoning})
	if t.last.Stopped == powerinfer.StoppedByCtx && t.interrupts == nil {
		return context.Canceled
	}
	t.full(prompted, limited)
	t.status(limited)
	return nil
}

// generation returns the settings of the next answer.
func (t *talk) generation() powerinfer.Generation {
	s := t.model.Sampling
	s.Seed = (s.Seed + uint64(t.answers)) % powerinfer.RandomSeed // a new seed for each answer, so that /regen gives another one
	g := t.Constraint
	g.IgnoreEnd, g.Sampling = t.Flags.IgnoresEnd(), &s
	g.Special, g.Neurons = t.format != nil, true
	if t.said.Template != nil {
		g.Template = t.said.Template.Source()
	}
	g.Shift, g.Keep = t.Shift, t.Keep
	return g
}

// untilInterrupted returns a context that ends with ctx or at Ctrl-C. The caller must call stop.
func (t *talk) untilInterrupted(ctx context.Context) (_ context.Context, stop func()) {
	select {
	case <-t.interrupts: // pressed between two prompts, before there was an answer to stop
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

// status prints what the last answer took. limited says that full has explained why it stopped at a limit.
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
