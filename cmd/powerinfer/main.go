// Command powerinfer runs language models that are larger than the GPU.
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/help"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/peers"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/fault"
)

func main() {
	evaluate.SandboxChild()
	os.Exit(execute(os.Args))
}

// Exit statuses. A command that a signal ended has the shell's status for it: statusSignal plus the signal's number.
const (
	statusError       = 1
	statusSignal      = 128
	statusInterrupted = statusSignal + int(syscall.SIGINT)
)

// grace is the time that an interrupted command has to end by itself. A step of a large model can take longer.
const grace = time.Second

// savingGrace is the grace of commands that save their work.
const savingGrace = time.Minute

type endingKey struct{}

// allowEnding gives the command that runs with ctx the time d to end, instead of grace.
func allowEnding(ctx context.Context, d time.Duration) {
	if ending, ok := ctx.Value(endingKey{}).(*atomic.Int64); ok {
		ending.Store(int64(d))
	}
}

// errInterrupted ends an interrupted command without a message.
var errInterrupted = errors.New("interrupted")

// endingSignals returns the signals that ask a command to end: Ctrl-C, kill, and a closed terminal, unless nohup
// ignores it.
func endingSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// execute runs the command line and returns the exit status. The first ending signal cancels the command's context,
// which stops a generation between two tokens. The second ends the process at once.
func execute(args []string) int {
	cli.HelpPrinter = help.Print
	var ending atomic.Int64
	ending.Store(int64(grace))
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), endingKey{}, &ending))
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endingSignals()...)
	defer signal.Stop(signals)
	status := statusInterrupted
	done := make(chan error, 1)
	go func() {
		done <- fault.Guard(func() error { return runCommandLine(ctx, args) })
	}()
	var err error
	select {
	case err = <-done:
	case s := <-signals:
		signal.Stop(signals)
		if n, ok := s.(syscall.Signal); ok {
			status = statusSignal + int(n)
		}
		cancel()
		select {
		case err = <-done:
		case <-time.After(time.Duration(ending.Load())):
			err = errInterrupted
		}
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return status
	case readerLeft(err): // the reader of the output has closed it
		return statusError
	}
	fmt.Fprintln(screen.Err, screen.Lines("powerinfer: "+screen.Error(err)))
	return statusError
}

// runCommandLine runs a command line.
func runCommandLine(ctx context.Context, args []string) error {
	root := command()
	out := &written{to: screen.Out}
	root.Writer, root.ErrWriter, cli.ErrWriter = out, screen.Err, screen.Err
	if name, unknown := withoutCommand(root, args); unknown { // whatever flags it has
		return unknownCommand(root, name)
	}
	err := root.Run(ctx, withOptionalValues(withCommand(args)))
	if err == nil {
		return out.err
	}
	if topic, ok := strings.CutPrefix(err.Error(), "No help topic for '"); ok { // cli's own words
		return unknownCommand(root, strings.TrimSuffix(topic, "'"))
	}
	return err
}

// written remembers its first write error, because cli drops it when it prints help.
type written struct {
	to  io.Writer
	err error
}

func (w *written) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// withCommand inserts the command that a command line lacks: run before flags, chat on a terminal without arguments.
func withCommand(args []string) []string {
	if len(args) == 1 && screen.Interactive() {
		return append(slices.Clone(args), "chat")
	}
	if len(args) < 2 || !strings.HasPrefix(args[1], "-") {
		return args
	}
	switch strings.TrimLeft(args[1], "-") {
	case "h", "help":
		return args
	case "version":
		return []string{args[0], "version"}
	}
	return slices.Insert(slices.Clone(args), 1, "run")
}

// withoutCommand returns the first word of a command line if it names no command.
func withoutCommand(root *cli.Command, args []string) (name string, unknown bool) {
	if len(args) < 2 || args[1] == "" || strings.HasPrefix(args[1], "-") || args[1] == "help" || args[1] == "h" {
		return "", false
	}
	return args[1], root.Command(args[1]) == nil
}

// command returns the whole command line.
func command() *cli.Command {
	root := &cli.Command{
		Name:  "powerinfer",
		Usage: "local inference for language models larger than the GPU",
		Description: `Flags are llama.cpp's, with one dash or two; LLAMA_ARG_* variables are read, too. powerinfer alone, on a
terminal, means powerinfer chat; flags without a command mean powerinfer run.

Flags and examples of a command: powerinfer run --help`,
		UsageText: `powerinfer chat qwen3:0.6b              talk with a model, downloaded once
powerinfer serve qwen3:0.6b             a page and the APIs at 127.0.0.1:8080
powerinfer run -m model.gguf -p "Why?"  continue a prompt with a file of yours
powerinfer run "Once upon a time"       a tale by the small embedded model`,
		Action:         noCommand,
		HideVersion:    true,
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		OnUsageError:   usageError,
		Commands: slices.Concat(
			commandsFor("Use a model", chatCommand(), runCommand(), serveCommand(), batchCommand(), embeddingCommand(), tokenizeCommand()),
			commandsFor("Get models", modelsCommand(), pullCommand(), listCommand(), showCommand(), rmCommand()),
			commandsFor("See what this machine does", doctorCommand(), planCommand(), benchCommand(), inspectCommand(), psCommand(), stopCommand(), healthCommand()),
			commandsFor("Measure quality", perplexityCommand(), evalCommand(), sweepCommand()),
			commandsFor("Make model files", convertCommand(), quantizeCommand(), imatrixCommand(), profileCommand(), prepareCommand()),
			commandsFor("Program", completionCommand(), versionCommand(), completeCommand()),
		),
	}
	for _, c := range root.Commands {
		c.OnUsageError = usageError
		c.Action = modelname.ReadWords(modelname.FetchModels(guarded(c.Action)))
		modelname.Describe(c)
		help.Extend(c)
		grant(c)
		c.DisableSliceFlagSeparator = true
		c.HideHelpCommand = true // an argument named h or help is a file; --help is the flag
	}
	return root
}

// commandsFor sets the purpose under which help lists commands.
func commandsFor(purpose string, list ...*cli.Command) []*cli.Command {
	for _, c := range list {
		c.Category = purpose
	}
	return list
}

// usageError reports a mistyped flag in one line instead of a page of help, and names the nearest flag.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		if instead, ok := peers.InsteadOf(peers.Flags(), name); ok {
			return fmt.Errorf("%s has no flag --%s; %s", c.FullName(), name, instead)
		}
		if instead, ok := peers.InsteadOf(peers.MissingFlags(), name); ok {
			return fmt.Errorf("llama.cpp has --%s, %s does not; %s", name, c.FullName(), instead)
		}
		if why, ok := granted(name); ok {
			return fmt.Errorf("%s has no flag --%s, which would change nothing: %s", c.FullName(), name, why)
		}
		if others := commandsWith(c.Root(), name); others != "" {
			return fmt.Errorf("%s has no flag --%s, which belongs to powerinfer %s", c.FullName(), name, others)
		}
		var names []string
		for _, f := range c.VisibleFlags() {
			names = append(names, f.Names()...)
		}
		suggestion := peers.Nearest(name, names)
		if suggestion != "" {
			suggestion = "--" + suggestion
		}
		err = fmt.Errorf("unknown flag %s%s", "--"+name, peers.DidYouMean(suggestion))
	}
	return fmt.Errorf("%w; see %s --help", err, c.FullName())
}

// commandsWith returns the names of the commands that show a flag.
func commandsWith(root *cli.Command, flag string) string {
	var names []string
	for _, c := range root.VisibleCommands() {
		if slices.ContainsFunc(c.VisibleFlags(), func(f cli.Flag) bool { return slices.Contains(f.Names(), flag) }) {
			names = append(names, c.Name)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// noCommand is the root's action, for command lines without a command.
func noCommand(_ context.Context, c *cli.Command) error {
	if name := c.Args().First(); name != "" {
		return unknownCommand(c, name)
	}
	return cli.ShowRootCommandHelp(c)
}

func unknownCommand(root *cli.Command, name string) error {
	if instead, ok := peers.InsteadOf(peers.Commands(), name); ok {
		return fmt.Errorf("there is no command %q: %s", name, instead)
	}
	switch {
	case modelname.IsModel(root, name):
		return fmt.Errorf("there is no command %q; to talk with that model: powerinfer chat %s", name, name)
	case strings.Contains(name, " "):
		return fmt.Errorf("there is no command %.40q; a text is answered by powerinfer run \"…\"", name)
	}
	var names []string
	for _, c := range root.VisibleCommands() {
		names = append(names, c.Names()...)
	}
	return fmt.Errorf("unknown command %q%s; see powerinfer --help", name, peers.DidYouMean(peers.Nearest(name, names)))
}

// noArguments refuses stray words.
func noArguments(c *cli.Command) error {
	if !c.Args().Present() {
		return nil
	}
	return fmt.Errorf("unexpected argument %q", c.Args().First())
}
