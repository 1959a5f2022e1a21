// Command compare times this engine and others side by side: every round runs each of them once, in turn, and every
// other round in the opposite order, so that a machine's drift meets all alike. It prints medians and their range as a
// Markdown table, ratios taken within rounds, and what share of the read bandwidth, measured in the same rounds,
// decoding used.
//
//	go run ./bench/compare --ours ./powerinfer --peer llama.cpp=/path/llama-bench --peer "ik -rtr=/path/llama-bench -rtr 1" \
//	    --model a.gguf --model b.gguf -t 1,2,4 -p 512 -n 64 --rounds 3
//
// A mode of our own is a peer, too: --peer "dense=/path/powerinfer bench --sparse off".
//
// With --old it times two binaries of ours in pairs, test by test, with each of the --flags in turn, and fails where
// the new one is slower by more than --within percent, both in the median of the pairs and in the fastest rounds:
//
//	go run ./bench/compare --ours ./powerinfer --old ../old/powerinfer --model a.gguf --flags "--sparse off" --flags "--sparse exact" \
//	    -t 1,2 -p 512 -n 64 --rounds 9
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cmd := &cli.Command{
		Name: "compare", Usage: "time this engine and others side by side", DisableSliceFlagSeparator: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "ours", Usage: "our `BINARY`", Required: true},
			&cli.StringSliceFlag{Name: "peer", Usage: "`NAME=COMMAND` with llama-bench's flags; may be repeated"},
			&cli.StringFlag{Name: "old", Usage: "an older `BINARY` of ours, timed in pairs with the new one"},
			&cli.StringSliceFlag{Name: "flags", Usage: "further `FLAGS` of our bench, old and new; each that is given gets a table of its own"},
			&cli.FloatFlag{Name: "within", Value: 3, Usage: "`PERCENT` by which the new binary may be slower than --old"},
			&cli.StringSliceFlag{Name: "model", Aliases: []string{"m"}, Usage: "GGUF `FILE`; may be repeated", Required: true},
			&cli.StringFlag{Name: "n-prompt", Aliases: []string{"p"}, Value: "512", Usage: "prompt tokens"},
			&cli.StringFlag{Name: "n-gen", Aliases: []string{"n"}, Value: "64", Usage: "generated tokens"},
			&cli.StringFlag{Name: "threads", Aliases: []string{"t"}, Value: "1,2,4", Usage: "thread counts"},
			&cli.IntFlag{Name: "rounds", Value: 3, Usage: "runs of each"},
		},
		Action: compare,
	}
	if err := cmd.Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// engine is a command that understands llama-bench's flags.
type engine struct {
	name string
	args []string
}

// engines returns the new binary, with flags, the older one likewise unless it is "", and the peers.
func engines(ours, old, flags string, peers []string) ([]engine, error) {
	list := []engine{{"ours", append([]string{ours, "bench"}, strings.Fields(flags)...)}}
	if old != "" {
		list = append(list, engine{oldName, append([]string{old, "bench"}, strings.Fields(flags)...)})
	}
	for _, p := range peers {
		name, command, ok := strings.Cut(p, "=/")
		if !ok || name == "" {
			return nil, fmt.Errorf("--peer %q is not NAME=/PATH ARGUMENTS", p)
		}
		list = append(list, engine{name, strings.Fields("/" + command)})
	}
	return list, nil
}

// oldName is the engine's name that --old is.
const oldName = "old"

func compare(ctx context.Context, c *cli.Command) error {
	threads, err := threadCounts(c.String("threads"))
	if err != nil {
		return err
	}
	sets := c.StringSlice("flags")
	if len(sets) == 0 {
		sets = []string{""}
	}
	var slow []string
	for _, model := range c.StringSlice("model") {
		weights, err := weightsOf(model)
		if err != nil {
			return err
		}
		for _, flags := range sets {
			list, err := engines(c.String("ours"), c.String("old"), flags, c.StringSlice("peer"))
			if err != nil {
				return err
			}
			name := strings.TrimSpace(filepath.Base(model) + " " + flags)
			got, read, err := rounds(ctx, c, name, model, list, threads)
			if err != nil {
				return err
			}
			fmt.Println(table(name, list, got))
			fmt.Println(shares(weights, list, got, read))
			for _, t := range got.slower(c.Float("within") / 100) {
				slow = append(slow, name+", "+t)
			}
		}
	}
	if len(slow) > 0 {
		return fmt.Errorf("slower than the old binary by more than %g %%: %s", c.Float("within"), strings.Join(slow, "; "))
	}
	return nil
}

// rounds runs all engines in turn, and measures the read bandwidth between.
func rounds(ctx context.Context, c *cli.Command, name, model string, list []engine, threads []int) (results, bandwidths, error) {
	got, read := results{}, bandwidths{}
	for round := range c.Int("rounds") {
		say := func(what string) {
			fmt.Fprintf(os.Stderr, "%s round %d/%d: %s\n", name, round+1, c.Int("rounds"), what)
		}
		say("read bandwidth")
		if err := read.measure(ctx, threads); err != nil {
			return nil, nil, err
		}
		turns := slices.Clone(list)
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, tests := range visits(c) {
			for _, e := range turns {
				say(e.name + " " + strings.Join(tests, " "))
				out, err := e.run(ctx, append([]string{"-m", model, "-r", "1", "-o", "json"}, tests...)...)
				if err != nil {
					return nil, nil, err
				}
				if err := got.add(e.name, out); err != nil {
					return nil, nil, fmt.Errorf("%s: %w", e.name, err)
				}
			}
		}
	}
	return got, read, nil
}

// visits returns the flags of tests that an engine makes before it is another's turn: all, for loading takes long; with
// --old one, because a pair sees the machine in one state only where it is short.
func visits(c *cli.Command) [][]string {
	prompt, gen := c.String("n-prompt"), c.String("n-gen")
	if c.String("old") == "" {
		return [][]string{{"-p", prompt, "-n", gen, "-t", c.String("threads")}}
	}
	var list [][]string
	for _, t := range strings.Split(c.String("threads"), ",") {
		if prompt != "0" {
			list = append(list, []string{"-p", prompt, "-n", "0", "-t", t})
		}
		if gen != "0" {
			list = append(list, []string{"-p", "0", "-n", gen, "-t", t})
		}
	}
	return list
}

// run returns the engine's standard output.
func (e engine) run(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, e.args[0], append(slices.Clone(e.args[1:]), args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return out, nil
}

// threadCounts reads a list such as 1,2,4.
func threadCounts(list string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--threads %q is not a list of integers from 1", list)
		}
		out = append(out, n)
	}
	return out, nil
}
