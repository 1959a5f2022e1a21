package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/talk"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
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

// runChat holds a conversation.
func runChat(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) error {
	if c.Bool("list-devices") {
		return listDevices()
	}
	o, err := readTalk(c)
	if err != nil {
		return err
	}
	o.Open = func(ctx context.Context, name string) (m talk.Model, err error) {
		before := c.String("model")
		if name != "" {
			if err := modelname.Use(ctx, c, name, "model"); err != nil {
				return m, err
			}
		}
		if m, err = openTalk(ctx, c, trace); err != nil {
			err = errors.Join(err, c.Set("model", before))
		}
		return m, err
	}
	if c.IsSet("prompt") || c.IsSet("file") {
		o.First = func() (string, error) { return readText(c) }
	}
	if flags.IsDemo(c) {
		o.About = demoNote
	}
	return talk.Run(ctx, o)
}

// readTalk reads the flags of a conversation.
func readTalk(c *cli.Command) (o talk.Options, err error) {
	if err := flags.CheckGeneration(c); err != nil {
		return o, err
	}
	if c.IsSet("prompt-cache") {
		return o, errors.New("--prompt-cache is for a text that is continued; /save keeps a conversation with its keys and values, /load goes on with it")
	}
	if n := c.Int64("save-cache"); n < 0 || n > 1<<40 {
		return o, fmt.Errorf("--save-cache %d is not a number of MiB", n)
	}
	o = talk.Options{
		Flags: flags.NewChanging(c), SingleTurn: c.Bool("single-turn"), Multiline: c.Bool("multiline-input"), Plain: c.Bool("simple-io"),
		Shift: c.Bool("context-shift"), SaveCache: c.Int64("save-cache"),
	}
	if o.System, err = readSystem(c); err != nil {
		return o, err
	}
	if o.Kwargs, err = flags.ReadKwargs(c); err != nil {
		return o, err
	}
	if err := readGrammar(c, &o.Constraint); err != nil {
		return o, err
	}
	if o.Constraint.Stop, err = flags.ReadStops(c); err != nil {
		return o, err
	}
	if o.Keep, err = flags.ReadKeep(c); err != nil {
		return o, err
	}
	o.Pictures, err = readImages(c)
	return o, err
}

// openTalk opens the model that -m names, with its template and its settings for sampling.
func openTalk(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) (m talk.Model, err error) {
	if m.Template, err = modelTemplate(c); err != nil {
		return m, err
	}
	if m.Model, err = open(ctx, c, func(o *powerinfer.Options) { o.Trace = trace }); err != nil {
		return m, err
	}
	if m.Sampling, err = flags.ReadSampling(c, m.Model); err != nil {
		return m, errors.Join(err, m.Close())
	}
	m.Name = c.String("model")
	return m, nil
}

// talks reports whether run holds a conversation.
func talks(c *cli.Command) bool {
	if c.Bool("no-conversation") {
		return false
	}
	onlyChat := slices.ContainsFunc(flags.Chat(), func(f cli.Flag) bool {
		return c.IsSet(f.Names()[0]) && !c.IsSet("prompt") && !c.IsSet("file")
	})
	if c.IsSet("prompt-cache") && !c.Bool("conversation") {
		return false
	}
	return c.Bool("conversation") || onlyChat || !c.IsSet("prompt") && !c.IsSet("file") && screen.Interactive()
}

// readSystem returns the system's text.
func readSystem(c *cli.Command) (string, error) {
	if !c.IsSet("system-prompt-file") {
		return c.String("system-prompt"), nil
	}
	if c.IsSet("system-prompt") {
		return "", errors.New("--system-prompt and --system-prompt-file both name the system's text; give one")
	}
	text, err := readFile(c.String("system-prompt-file"), wholefile.Setting)
	return strings.TrimSuffix(text, "\n"), err
}

// modelTemplate returns the template of the flags or the model's file, or nil if there is none. It runs before the
// model is loaded, so that errors in a template appear at once.
func modelTemplate(c *cli.Command) (*chat.Template, error) {
	f, err := openModel(c)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readTemplate(c, f)
}

// readTemplate returns the template of the flags or of f, or nil if there is none.
func readTemplate(c *cli.Command, f *gguf.File) (*chat.Template, error) {
	source := c.String("chat-template")
	if c.IsSet("chat-template-file") {
		if source != "" {
			return nil, errors.New("--chat-template and --chat-template-file both name a template; give one")
		}
		var err error
		if source, err = readFile(c.String("chat-template-file"), wholefile.Setting); err != nil {
			return nil, fmt.Errorf("--chat-template-file: %w", err)
		}
	}
	if source != "" {
		return chat.Named(source, f)
	}
	t, err := chat.FromGGUF(f, "")
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, nil
	}
	return t, err
}
