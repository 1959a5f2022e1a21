// Command compare times this engine and others side by side: every round runs each of them once, in turn, and every other
// round in the opposite order, so that a machine's drift meets all alike. It prints medians and their range as a Markdown
// table, ratios taken within rounds, and what share of the read bandwidth, measured in the same rounds, decoding used.
//
//	go run ./bench/compare --ours ./powerinfer --peer llama.cpp=/path/llama-bench --peer "ik -rtr=/path/llama-bench -rtr 1" \
//	    --model a.gguf --model b.gguf -t 1,2,4 -p 512 -n 64 --rounds 3
//
// A mode of our own is a peer, too: --peer "dense=/path/powerinfer bench --sparse off".
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

func engines(ours string, peers []string) ([]engine, error) {
	list := []engine{{"ours", []string{ours, "bench"}}}
	for _, p := range peers {
		name, command, ok := strings.Cut(p, "=/")
		if !ok || name == "" {
			return nil, fmt.Errorf("--peer %q is not NAME=/PATH ARGUMENTS", p)
		}
		list = append(list, engine{name, strings.Fields("/" + command)})
	}
	return list, nil
}

func compare(ctx context.Context, c *cli.Command) error {
	list, err := engines(c.String("ours"), c.StringSlice("peer"))
	if err != nil {
		return err
	}
	threads, err := threadCounts(c.String("threads"))
	if err != nil {
		return err
	}
	for _, model := range c.StringSlice("model") {
		info, err := os.Stat(model)
		if err != nil {
			return err
		}
		got, read := results{}, bandwidths{}
		for round := range c.Int("rounds") {
			say := func(what string) {
				fmt.Fprintf(os.Stderr, "%s round %d/%d: %s\n", filepath.Base(model), round+1, c.Int("rounds"), what)
			}
			say("read bandwidth")
			if err := read.measure(ctx, threads); err != nil {
				return err
			}
			turns := slices.Clone(list)
			if round%2 == 1 {
				slices.Reverse(turns)
			}
			for _, e := range turns {
				say(e.name)
				out, err := e.run(ctx, "-m", model, "-p", c.String("n-prompt"), "-n", c.String("n-gen"), "-t", c.String("threads"), "-r", "1", "-o", "json")
				if err != nil {
					return err
				}
				if err := got.add(e.name, out); err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
			}
		}
		fmt.Println(table(filepath.Base(model), list, got))
		fmt.Println(shares(info.Size(), list, got, read))
	}
	return nil
}

// run is the engine's standard output.
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
