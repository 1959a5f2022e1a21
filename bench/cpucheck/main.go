// Command cpucheck checks this engine on this machine's processor: what the machine is, whether every kernel computes
// what its definition says, and how fast prompts and generation are in the usual types, by instruction set, at depth and
// with skipped neurons, next to llama.cpp if its llama-bench is given. It needs no network and no model: it writes its
// own. Each part ends within minutes and leaves its section of report.md.
//
//	cpucheck --list
//	cpucheck --part machine,models --out results
//
// `make cpu-check` bundles it with the engine and compiled tests, for any platform; docs/cpu-check.md tells how.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/bench/rounds"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "cpucheck:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name: "cpucheck", Usage: "check the engine on this machine's processor", DisableSliceFlagSeparator: true,
		Flags: append(checkup.Flags("cpu-check-results"),
			&cli.StringFlag{Name: "bundle", Usage: "`FOLDER` of the engine and the compiled tests; default: the one of this program"},
			&cli.StringFlag{Name: "models", Usage: "`FOLDER` that models are written to, of up to 1 GB together; default: one below --out"},
			&cli.StringSliceFlag{Name: "peer", Usage: "`NAME=COMMAND` with llama-bench's flags, to compare with; may be repeated"},
			&cli.IntFlag{Name: "rounds", Value: 3, Usage: "runs of each test"},
			&cli.BoolFlag{Name: "tiny", Usage: "small models and few tokens: to try the check itself"},
		),
		Action: run,
	}
}

// check holds the values of the flags.
type check struct {
	out    string // folder of results
	models string // folder of models
	bundle string // folder of the engine and the compiled tests
	peers  []rounds.Engine
	rounds int
	tiny   bool
}

func (c *check) parts() []checkup.Part {
	return []checkup.Part{
		{Name: "machine", Says: "the processor, memory, and kernels by type", Run: c.machine},
		{Name: "tests", Says: "every kernel against its definition", Run: c.tests},
		{Name: "models", Says: "prompts and generation in the usual types", Run: c.timeTypes},
		{Name: "depth", Says: "generation after long prompts", Run: c.timeDepths},
		{Name: "sets", Says: "the same by instruction set", Run: c.timeSets},
		{Name: "neurons", Says: "feed-forward layers with nine tenths of their neurons at zero", Run: c.timeNeurons},
	}
}

func run(ctx context.Context, f *cli.Command) error {
	c := &check{out: f.String("out"), models: f.String("models"), bundle: f.String("bundle"), rounds: f.Int("rounds"), tiny: f.Bool("tiny")}
	all := &checkup.Check{Title: "CPU check", Details: runtime.GOOS + "/" + runtime.GOARCH, Parts: c.parts()}
	if f.Bool("list") {
		all.List()
		return nil
	}
	if err := all.Configure(f); err != nil {
		return err
	}
	if c.rounds < 1 || c.rounds > 99 {
		return fmt.Errorf("--rounds %d is not a number from 1 to 99", c.rounds)
	}
	if c.models == "" {
		c.models = filepath.Join(c.out, "models")
	}
	if c.bundle == "" {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		c.bundle = filepath.Dir(program)
	}
	var err error
	if c.peers, err = rounds.Peers(f.StringSlice("peer")); err != nil {
		return err
	}
	return all.Run(ctx)
}

// program returns the path of a program in the bundle.
func (c *check) program(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(c.bundle, name)
}

// engine returns the engine's bench with flags.
func (c *check) engine(name string, flags ...string) rounds.Engine {
	return rounds.Engine{Name: name, Args: append([]string{c.program("powerinfer"), "bench", "--device", "none"}, flags...)}
}

// withPeers returns the engine and the peers that --peer names.
func (c *check) withPeers() []rounds.Engine {
	return append([]rounds.Engine{c.engine("ours")}, c.peers...)
}

// machine writes what the engine's doctor says about processor and memory.
func (c *check) machine(ctx context.Context, w *checkup.Report) error {
	args := []string{"doctor", "--again", "--verbose", "--disk", "none"}
	if c.tiny {
		args = []string{"version"}
	}
	checkup.Progress("measuring the machine")
	out, err := exec.CommandContext(ctx, c.program("powerinfer"), args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return err
	}
	w.Say("```\n%s```", out)
	return nil
}

// sourceTests read the source of the kernels, which a bundle has not.
const sourceTests = "^(TestWords|TestRegistersOfAVX2)$"

// tests runs the compiled tests of the kernels.
func (c *check) tests(ctx context.Context, w *checkup.Report) error {
	out, err := filepath.Abs(c.out)
	if err != nil {
		return err
	}
	t := checkup.Tests{Path: c.program("kernel.test"), Flags: []string{"-test.skip", sourceTests}, Dir: out, Log: "tests.log"}
	if c.tiny {
		t.Pattern = "^TestPack"
	}
	return t.Run(ctx, w)
}
