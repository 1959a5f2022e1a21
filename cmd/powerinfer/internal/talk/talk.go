// Package talk holds a conversation of a user with a model, on a terminal or through pipes.
package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/conversation"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/editor"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Options holds what a conversation needs from the command line.
type Options struct {
	// Open opens the model that name means, or the command line's if name is empty.
	Open   func(ctx context.Context, name string) (Model, error)
	Flags  flags.Changing         // which /set changes
	First  func() (string, error) // the first message; nil: the user types it
	About  string                 // a line about the first model; empty: none
	System string
	Kwargs map[string]json.RawMessage

	Constraint powerinfer.Generation // grammar or schema of every answer, and texts that end it
	Keep       int                   // tokens of a prompt that a shift of the context keeps
	Pictures   []attachment.Picture  // for the first message

	SingleTurn bool  // the first answer ends the conversation
	Multiline  bool  // see editor.ReadMessage
	Plain      bool  // no escape sequences are written
	Shift      bool  // an answer continues if the context is full
	SaveCache  int64 // MiB of keys and values that /save writes at most
}

// Model is an open model with the settings of its file and the flags.
type Model struct {
	*powerinfer.Model
	Name     string              // its name for Options.Open; empty: the embedded model
	Template *chat.Template      // nil: it has none
	Sampling powerinfer.Sampling // for the next answer, without its seed
}

// talk is a conversation of a user with an open model.
type talk struct {
	Options
	model       Model
	said        conversation.Conversation
	format      *answer.Format // nil: answers are read as they are
	input       editor.Reader
	interactive bool                 // a person reads and types
	styled      bool                 // escape sequences may be written
	interrupts  <-chan os.Signal     // Ctrl-C; nil: it ends the program
	attached    string               // text of /read for the next message
	pictures    []attachment.Picture // pictures of /image for the next message

	load            time.Duration // time to load the model
	answers, tokens int           // numbers so far
	further         int           // tokens after each answer's first
	time            time.Duration // time of generating these
	last            powerinfer.Result
	evaluated       []int32 // the text that the model holds keys and values of: the last prompt and answer, or the text of /load
}

// Run holds a conversation.
func Run(ctx context.Context, o Options) error {
	t := &talk{Options: o, pictures: o.Pictures}
	t.said.System, t.said.Kwargs = o.System, o.Kwargs
	if err := t.open(ctx, ""); err != nil {
		return err
	}
	defer func() { t.model.Close() }() // /model changes t.model
	t.interactive = screen.Interactive()
	plain := o.Plain || os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != ""
	t.styled = !plain && screen.Out.IsTerminal()
	if t.interactive {
		signal.Reset(os.Interrupt) // main's handler would end the command
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
		t.interrupts = interrupts
	}
	if t.interactive && !plain {
		lines, err := editor.Open(ctx, "chat-history.jsonl", completeAction)
		if err != nil {
			return err
		}
		defer lines.Close()
		t.input = lines
	} else {
		t.input = editor.Plain(ctx, os.Stdin, t.interrupts, t.interactive)
	}
	t.greet()
	if err := t.tellPictures(t.pictures); err != nil {
		return err
	}
	if err := t.converse(ctx); err != nil {
		return err
	}
	if !t.interactive {
		fmt.Fprintf(screen.Err, "%s, %s generated", quantity.Of(t.answers, "answer"), quantity.Of(t.tokens, "token"))
		if t.further > 0 && t.time > 0 {
			fmt.Fprintf(screen.Err, ", %.1f tokens/s", float64(t.further)/t.time.Seconds())
		}
		fmt.Fprintln(screen.Err)
	}
	return nil
}

// open opens the model that name means.
func (t *talk) open(ctx context.Context, name string) error {
	begin := time.Now()
	m, err := t.Open(ctx, name)
	if err != nil {
		return err
	}
	t.model, t.load, t.said.Template, t.format = m, time.Since(begin), m.Template, nil
	t.evaluated, t.said.Left = nil, 0 // its cache is empty, and its context may have room for all messages
	if m.Template != nil {
		can := m.Template.Can(false)
		t.format = answer.FormatOf(m.Template.Source(), can.Tools, can.ToolCalls)
	}
	return nil
}

// greet introduces the model.
func (t *talk) greet() {
	if t.interactive && !t.SingleTurn {
		i := t.model.Info()
		t.note("%s, a context of %s; /help lists commands, Ctrl-D leaves", screen.Plain(i.Name), quantity.Of(i.Context, "token"))
	}
	switch {
	case t.About != "":
		t.note("%s", t.About)
	case t.said.Template == nil:
		t.note("this model has no chat template: it continues your text; --chat-template NAME gives it one if it was trained on it")
	}
}

// note prints a note on standard error.
func (t *talk) note(format string, a ...any) {
	line := t.fitted(terminal.Clean(fmt.Sprintf(format, a...)), "")
	if t.styled && t.interactive && screen.Err.IsTerminal() {
		fmt.Fprintln(screen.Err.Styled(), screen.Faint+line+screen.Normal)
		return
	}
	fmt.Fprintln(screen.Err, line)
}

// fitted breaks text between words to the terminal's width. All lines except the first begin with indent. Text for a
// pipe does not change.
func (t *talk) fitted(text, indent string) string {
	if !t.interactive {
		return text
	}
	width, _ := screen.Err.Size()
	return screen.Broken(text, indent, width)
}

// converse answers the first message, if there is one, and then those that the user types.
func (t *talk) converse(ctx context.Context) error {
	if t.First != nil {
		text, err := t.First()
		if err != nil {
			return err
		}
		if err := t.take(ctx, text); err != nil || t.SingleTurn {
			return err
		}
	}
	again := false // Ctrl-C was pressed at the prompt
	for {
		message, err := editor.ReadMessage(t.input, t.Multiline)
		switch {
		case errors.Is(err, editor.ErrInterrupted):
			if again {
				t.note("Ctrl-D or /exit leaves")
			}
			again = true
			continue
		case errors.Is(err, io.EOF):
			if t.interactive {
				fmt.Fprintln(screen.Out)
			}
			return nil
		case err != nil:
			return err
		}
		again = false
		before := t.answers
		err = t.handle(ctx, message)
		if errors.Is(err, errExit) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.SingleTurn && t.answers > before {
			return nil
		}
	}
}

// handle answers a message or runs a command. An interactive conversation shows an error and continues; any other ends
// with it.
func (t *talk) handle(ctx context.Context, message string) error {
	var err error
	switch {
	case strings.HasPrefix(message, "/") && !strings.Contains(message, "\n") && !(t.interactive && attachment.BeginsMessage(message)):
		err = t.obey(ctx, message)
	case strings.TrimSpace(message) == "":
	default:
		err = t.take(ctx, message)
	}
	if err == nil || !t.interactive || errors.Is(err, errExit) || errors.Is(err, context.Canceled) {
		return err
	}
	t.note("%s", screen.Error(err))
	return nil
}

// take answers a message.
func (t *talk) take(ctx context.Context, message string) error {
	message, found, done, err := t.pictured(message)
	if err != nil || done {
		return err
	}
	pictures := slices.Concat(t.pictures, found)
	before := ""
	if len(found) > 0 {
		before = strings.Repeat(attachment.Mark, len(t.pictures))
	}
	if t.attached != "" {
		message = t.attached + "\n\n" + message
	}
	if len(pictures) == 0 {
		t.said.Ask(message)
	} else {
		parts, err := attachment.Parts(before+message, pictures)
		if err != nil {
			return err
		}
		t.said.Show(parts, pictures)
	}
	if err := t.answer(ctx); err != nil {
		t.said.Withdraw()
		return err
	}
	t.attached, t.pictures = "", nil
	return nil
}
