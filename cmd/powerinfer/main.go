// Command powerinfer runs language models that are larger than the graphics card.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/urfave/cli/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "powerinfer:", oneLine(err))
		os.Exit(1)
	}
}

// oneLine keeps an error to one line, whatever a library or a file's name put into it.
func oneLine(err error) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, err.Error())
}

// command is the whole command line. A bare `powerinfer -m … -p …` means run.
func command() *cli.Command {
	root := &cli.Command{
		Name:                      "powerinfer",
		Usage:                     "local inference for language models larger than the graphics card",
		Description:               "Flags are llama.cpp's, with one dash or two; LLAMA_ARG_* variables are read too.\nWithout -m the embedded demo model runs: powerinfer run -p \"Once upon a time\"",
		Flags:                     runFlags(),
		Action:                    bareRun,
		EnableShellCompletion:     true,
		DisableSliceFlagSeparator: true,
		Version:                   version(),
		HideVersion:               true,
		ExitErrHandler:            func(context.Context, *cli.Command, error) {},
		OnUsageError:              usageError,
		Commands: []*cli.Command{
			runCommand(), tokenizeCommand(), inspectCommand(), perplexityCommand(),
			benchCommand(), convertCommand(), versionCommand(),
		},
	}
	for _, c := range root.Commands {
		c.OnUsageError = usageError
		c.DisableSliceFlagSeparator = true
	}
	return root
}

// usageError keeps a mistyped flag to one line instead of a page of help.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return fmt.Errorf("%w; see %s --help", err, c.FullName())
}

// bareRun is the root's action: run with flags, help without.
func bareRun(ctx context.Context, c *cli.Command) error {
	if c.Args().Present() {
		return fmt.Errorf("unknown command %q; see powerinfer --help", c.Args().First())
	}
	if c.NumFlags() == 0 {
		return cli.ShowAppHelp(c)
	}
	return run(ctx, c)
}

var errArguments = errors.New("unexpected argument")

// noArguments refuses stray words, which are mostly prompts without -p.
func noArguments(c *cli.Command) error {
	if c.Args().Present() {
		return fmt.Errorf("%w %q; a prompt goes behind -p", errArguments, c.Args().First())
	}
	return nil
}
