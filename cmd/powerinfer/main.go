// Command powerinfer runs language models that are larger than the graphics card.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

func main() { os.Exit(execute(os.Args)) }

// Exit statuses, the shell's for an interrupt.
const (
	statusError       = 1
	statusInterrupted = 130
)

// grace is how long an interrupted command may take to end by itself: a step on a large model can take longer.
const grace = time.Second

// errInterrupted ends a command that was interrupted; its user knows.
var errInterrupted = errors.New("interrupted")

// execute runs the command line and returns the exit status. A first interrupt cancels the command's context, which
// ends a generation between two tokens; a second one ends the process at once.
func execute(args []string) int {
	cli.HelpPrinter = printHelp
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done := make(chan error, 1)
	go func() {
		err := errInterrupted // stays where untilCancelled ended the goroutine
		defer func() { done <- err }()
		root := command()
		err = root.Run(ctx, withCommand(args))
		if err != nil {
			if topic, ok := strings.CutPrefix(err.Error(), "No help topic for '"); ok { // cli's own words
				err = unknownCommand(root, strings.TrimSuffix(topic, "'"))
			}
		}
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		stop()
		select {
		case err = <-done:
		case <-time.After(grace):
			err = errInterrupted
		}
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return statusInterrupted
	case readerLeft(err): // what reads the output has seen enough
		return statusError
	}
	fmt.Fprintln(os.Stderr, "powerinfer:", oneLine(err))
	return statusError
}

// untilCancelled is a progress callback that ends its goroutine once ctx has ended. What lies between has no context of
// its own, and its deferred calls still run: a half-written file is removed.
func untilCancelled(ctx context.Context, set func(done, total int64)) func(done, total int64) {
	return func(done, total int64) {
		if ctx.Err() != nil {
			runtime.Goexit()
		}
		set(done, total)
	}
}

// strconvNoise is what strconv puts before the cause, repeating the value.
var strconvNoise = regexp.MustCompile(`strconv\.\w+: parsing "(?:[^"\\]|\\.)*": `)

// longestError is where an error is cut, in characters: files name things at any length.
const longestError = 1000

// oneLine keeps an error to one line, whatever a library or a file's name put into it.
func oneLine(err error) string {
	line := []rune(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strconvNoise.ReplaceAllString(err.Error(), "")))
	if len(line) > longestError {
		return string(line[:longestError]) + "…"
	}
	return string(line)
}

// withCommand makes a bare `powerinfer -m … -p …` mean run.
func withCommand(args []string) []string {
	if len(args) < 2 || !strings.HasPrefix(args[1], "-") {
		return args
	}
	switch strings.TrimLeft(args[1], "-") {
	case "h", "help", "generate-shell-completion":
		return args
	case "version":
		return []string{args[0], "version"}
	}
	return slices.Insert(slices.Clone(args), 1, "run")
}

// command is the whole command line.
func command() *cli.Command {
	root := &cli.Command{
		Name:  "powerinfer",
		Usage: "local inference for language models larger than the graphics card",
		Description: "Flags are llama.cpp's, with one dash or two; LLAMA_ARG_* variables are read too.\n" +
			"powerinfer -m model.gguf -p \"…\" means powerinfer run; its flags: powerinfer run --help.\n" +
			"Without -m the embedded demo model runs: powerinfer run -p \"Once upon a time\"",
		Action:                help,
		EnableShellCompletion: true,
		HideVersion:           true,
		ExitErrHandler:        func(context.Context, *cli.Command, error) {},
		OnUsageError:          usageError,
		Commands: []*cli.Command{
			runCommand(), tokenizeCommand(), inspectCommand(), perplexityCommand(),
			benchCommand(), convertCommand(), quantizeCommand(),
			profileCommand(), prepareCommand(), planCommand(), doctorCommand(), versionCommand(),
		},
	}
	for _, c := range root.Commands {
		c.OnUsageError = usageError
		c.DisableSliceFlagSeparator = true
	}
	return root
}

// usageError keeps a mistyped flag to one line instead of a page of help, and names the nearest flag.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		err = fmt.Errorf("unknown flag --%s%s", name, didYouMean(cli.SuggestFlag(c.Flags, name, false)))
	}
	return fmt.Errorf("%w; see %s --help", err, c.FullName())
}

func didYouMean(suggestion string) string {
	if suggestion == "" {
		return ""
	}
	return ", did you mean " + suggestion + "?"
}

// help is the root's action: what is left when no command was named.
func help(_ context.Context, c *cli.Command) error {
	if name := c.Args().First(); name != "" {
		return unknownCommand(c, name)
	}
	return cli.ShowRootCommandHelp(c)
}

func unknownCommand(root *cli.Command, name string) error {
	return fmt.Errorf("unknown command %q%s; see powerinfer --help", name, didYouMean(cli.SuggestCommand(root.Commands, name)))
}

// noArguments refuses stray words, which are mostly prompts without -p.
func noArguments(c *cli.Command) error {
	if !c.Args().Present() {
		return nil
	}
	hint := ""
	for _, f := range c.Flags {
		if f.Names()[0] == "prompt" {
			hint = "; a prompt goes behind -p"
		}
	}
	return fmt.Errorf("unexpected argument %q%s", c.Args().First(), hint)
}
