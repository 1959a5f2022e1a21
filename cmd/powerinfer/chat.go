package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/conversation"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/editor"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

func chatCommand() *cli.Command {
	return &cli.Command{
		Name: "chat", UsageText: `powerinfer chat qwen3:0.6b
powerinfer chat model.gguf -sys "Answer briefly."
echo "What is a neuron?" | powerinfer chat model.gguf --single-turn`, Usage: "talk with a model", Flags: slices.Concat(generationFlags(), flags.Chat()),
		Description: "A message is a line; it goes on after a line that ends with \\, and between two lines of \"\"\".\n" +
			"Lines that begin with / are commands: /help lists them. Ctrl-C stops an answer, Ctrl-D leaves.\n" +
			"Without a terminal each line of standard input is a message, and plain text comes out.",
		Action: func(ctx context.Context, c *cli.Command) error {
			return traced(c, func(t *powerinfer.Trace) error { return runChat(ctx, c, t) })
		},
	}
}

// talk is a conversation of a user with an open model.
type talk struct {
	command     *cli.Command // /set changes its flags
	model       *powerinfer.Model
	trace       *powerinfer.Trace // nil: nothing is traced
	said        conversation.Conversation
	format      *answer.Format        // nil: answers are read as they are
	sampling    powerinfer.Sampling   // for the next answer, without its seed
	constraint  powerinfer.Generation // grammar or schema of every answer
	input       editor.Reader
	interactive bool                 // a person sits there
	styled      bool                 // escape sequences may be written
	interrupts  <-chan os.Signal     // Ctrl-C; nil: it ends the program
	keep        int                  // tokens of a prompt that a shift of the context leaves
	attached    string               // by /read, to the next message
	pictures    []attachment.Picture // by /image, to the next message

	load            time.Duration // time to load the model
	answers, tokens int           // so far
	further         int           // tokens after an answer's first
	time            time.Duration // that generating these took
	last            powerinfer.Result
	evaluated       []int32 // the text with keys and values in the model: the last answer with its prompt, or the text that /load read
}

// runChat holds a conversation.
func runChat(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) error {
	if c.Bool("list-devices") {
		return listDevices()
	}
	t, err := openTalk(ctx, c, trace)
	if err != nil {
		return err
	}
	defer func() { t.model.Close() }() // which /model changes
	t.interactive = screen.Interactive()
	plain := c.Bool("simple-io") || os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != ""
	t.styled = !plain && screen.Out.IsTerminal()
	if t.interactive {
		signal.Reset(os.Interrupt) // which ends any other command
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

// openTalk opens the model and reads all flags.
func openTalk(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) (*talk, error) {
	if err := flags.CheckGeneration(c); err != nil {
		return nil, err
	}
	if c.IsSet("prompt-cache") {
		return nil, errors.New("--prompt-cache is for a text that is continued; /save keeps a conversation with its keys and values, /load goes on with it")
	}
	if n := c.Int64("save-cache"); n < 0 || n > 1<<40 {
		return nil, fmt.Errorf("--save-cache %d is not a number of MiB", n)
	}
	t := &talk{command: c, trace: trace}
	var err error
	if t.said.System, err = readSystem(c); err != nil {
		return nil, err
	}
	if t.said.Kwargs, err = flags.ReadKwargs(c); err != nil {
		return nil, err
	}
	if err := readGrammar(c, &t.constraint); err != nil {
		return nil, err
	}
	if t.keep, err = flags.ReadKeep(c); err != nil {
		return nil, err
	}
	if t.pictures, err = readImages(c); err != nil {
		return nil, err
	}
	return t, t.openModel(ctx)
}

// openModel opens the model that -m names, with its template and its settings for sampling.
func (t *talk) openModel(ctx context.Context) error {
	begin := time.Now()
	template, err := modelTemplate(t.command)
	if err != nil {
		return err
	}
	m, err := open(ctx, t.command, func(o *powerinfer.Options) { o.Trace = t.trace })
	if err != nil {
		return err
	}
	chosen, err := flags.ReadSampling(t.command, m)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	t.model, t.load, t.sampling, t.said.Template, t.format = m, time.Since(begin), chosen, template, nil
	t.evaluated, t.said.Left = nil, 0 // its cache is empty, and its context may have room for all messages
	if template != nil {
		can := template.Can(false)
		t.format = answer.FormatOf(template.Source(), can.Tools, can.ToolCalls)
	}
	return nil
}

// greet tells the user which model answers.
func (t *talk) greet() {
	if t.interactive && !t.command.Bool("single-turn") {
		i := t.model.Info()
		t.note("%s, a context of %s; /help lists commands, Ctrl-D leaves", screen.Plain(i.Name), quantity.Of(i.Context, "token"))
	}
	switch {
	case flags.IsDemo(t.command):
		t.note("%s", demoNote)
	case t.said.Template == nil:
		t.note("this model has no chat template: it continues your text; --chat-template NAME gives it one if it was trained on it")
	}
}

// note tells the user something, on standard error.
func (t *talk) note(format string, a ...any) {
	line := t.fitted(terminal.Clean(fmt.Sprintf(format, a...)), "")
	if t.styled && t.interactive && screen.Err.IsTerminal() {
		fmt.Fprintln(screen.Err.Styled(), screen.Faint+line+screen.Normal)
		return
	}
	fmt.Fprintln(screen.Err, line)
}

// fitted returns text broken between words to the width of the terminal's window. All lines except the first begin with
// indent. If the output is a pipe, the text does not change.
func (t *talk) fitted(text, indent string) string {
	if !t.interactive {
		return text
	}
	width, _ := screen.Err.Size()
	return screen.Broken(text, indent, width)
}

// converse answers -p or -f, if given, and then what the user types.
func (t *talk) converse(ctx context.Context) error {
	c := t.command
	if c.IsSet("prompt") || c.IsSet("file") {
		text, err := readText(c)
		if err != nil {
			return err
		}
		if err := t.take(ctx, text); err != nil || c.Bool("single-turn") {
			return err
		}
	}
	again := false // Ctrl-C was pressed at the prompt
	for {
		message, err := editor.ReadMessage(t.input, c.Bool("multiline-input"))
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
		if c.Bool("single-turn") && t.answers > before {
			return nil
		}
	}
}

// handle does what a message asks for. A person is told of what fails and goes on; otherwise an error ends the
// conversation.
func (t *talk) handle(ctx context.Context, message string) error {
	var err error
	switch {
	case strings.HasPrefix(message, "/") && !strings.Contains(message, "\n") && !(t.interactive && attachment.BeginsMessage(message)):
		err = t.obey(ctx, message)
	case strings.TrimSpace(message) == "":
	default:
		err = t.take(ctx, message)
	}
	if err == nil || !t.interactive || errors.Is(err, errExit) || errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) {
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
