// Command compare times this engine and others side by side: every round runs each of them once, in turn, and every
// other round in the opposite order, so that a machine's drift meets all alike. It prints medians and their range as a
// Markdown table, ratios taken within rounds, and what share of the read bandwidth, measured in the same rounds,
// decoding used.
//
//	go run ./bench/compare --ours ./powerinfer --peer llama.cpp=/path/llama-bench --peer "ik -rtr=/path/llama-bench -rtr 1" \
//	    --model a.gguf --model b.gguf -t 1,2,4 -p 512 -n 64 --rounds 3
//
// After several models one table shows all of them, with the processor and how busy the machine was.
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
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/bench/rounds"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/measure"
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
			&cli.StringFlag{Name: "n-depth", Aliases: []string{"d"}, Usage: "`POSITIONS` before them, as in 0,4096; not every peer's program has this flag"},
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

// engines returns the new binary and the older one, unless it is "", with flags, and the peers.
func engines(ours, old, flags string, peers []string) ([]rounds.Engine, error) {
	list := []rounds.Engine{{Name: "ours", Args: append([]string{ours, "bench"}, strings.Fields(flags)...)}}
	if old != "" {
		list = append(list, rounds.Engine{Name: rounds.Old, Args: append([]string{old, "bench"}, strings.Fields(flags)...)})
	}
	others, err := rounds.Peers(peers)
	return append(list, others...), err
}

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
	var all []rounds.Measured
	var list []rounds.Engine
	busy := hw.BusyTasks()
	for _, model := range c.StringSlice("model") {
		weights, err := rounds.WeightsOf(model)
		if err != nil {
			return err
		}
		for _, flags := range sets {
			list, err = engines(c.String("ours"), c.String("old"), flags, c.StringSlice("peer"))
			if err != nil {
				return err
			}
			name := strings.TrimSpace(filepath.Base(model) + " " + flags)
			r := rounds.Rounds{
				Name: name, Model: model, Engines: list, Threads: threads, Prompt: c.String("n-prompt"), Gen: c.String("n-gen"), Depth: c.String("n-depth"),
				Count: c.Int("rounds"), Apart: c.String("old") != "", Say: progress, ReadBandwidth: measure.ReadBandwidth,
			}
			got, read, err := r.Run(ctx)
			if err != nil {
				return err
			}
			fmt.Println(rounds.Table(name, list, got))
			fmt.Println(rounds.Shares(weights, list, got, read))
			all = append(all, rounds.Measured{Name: name, Results: got})
			for _, t := range got.Slower(c.Float("within") / 100) {
				slow = append(slow, name+", "+t)
			}
		}
	}
	if len(all) > 1 {
		found := hw.Detect()
		fmt.Printf("%s, %d cores; %d tasks of other programs were running before, and %d after.\n\n%s", found.Name, found.Usable, busy, hw.BusyTasks(), rounds.Together(list, all))
	}
	if len(slow) > 0 {
		return fmt.Errorf("slower than the old binary by more than %g %%: %s", c.Float("within"), strings.Join(slow, "; "))
	}
	return nil
}

// progress prints the present test on standard error.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

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
