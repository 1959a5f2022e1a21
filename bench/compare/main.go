// Command compare times this engine and others side by side: every round runs each of them once, in turn, so that a
// machine's drift meets all alike. It prints medians, spread and ratios as a Markdown table.
//
//	go run ./bench/compare --ours ./powerinfer --peer llama.cpp=/path/llama-bench --peer "ik -rtr=/path/llama-bench -rtr 1" \
//	    --model a.gguf --model b.gguf -t 1,2,4 -p 512 -n 64 --rounds 3
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
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

// test is what one figure was measured on.
type test struct {
	threads, prompt, gen int
}

func (t test) String() string {
	if t.prompt > 0 {
		return fmt.Sprintf("pp%d, %d threads", t.prompt, t.threads)
	}
	return fmt.Sprintf("tg%d, %d threads", t.gen, t.threads)
}

// results are tokens per second by test and engine, one a round.
type results map[test]map[string][]float64

func compare(ctx context.Context, c *cli.Command) error {
	list, err := engines(c.String("ours"), c.StringSlice("peer"))
	if err != nil {
		return err
	}
	for _, model := range c.StringSlice("model") {
		got := results{}
		for round := range c.Int("rounds") {
			for _, e := range list {
				fmt.Fprintf(os.Stderr, "%s round %d/%d: %s\n", filepath.Base(model), round+1, c.Int("rounds"), e.name)
				args := append(slices.Clone(e.args[1:]), "-m", model, "-p", c.String("n-prompt"), "-n", c.String("n-gen"),
					"-t", c.String("threads"), "-r", "1", "-o", "json")
				out, err := exec.CommandContext(ctx, e.args[0], args...).Output()
				if err != nil {
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
					}
					return fmt.Errorf("%s: %w", e.name, err)
				}
				if err := got.add(e.name, out); err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
			}
		}
		fmt.Println(table(filepath.Base(model), list, got))
	}
	return nil
}

// add reads llama-bench's JSON: an array of rows.
func (r results) add(engine string, out []byte) error {
	var rows []struct {
		Threads int     `json:"n_threads"`
		Prompt  int     `json:"n_prompt"`
		Gen     int     `json:"n_gen"`
		Rate    float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return fmt.Errorf("no JSON of llama-bench's form: %w", err)
	}
	if len(rows) == 0 {
		return errors.New("no test was run")
	}
	for _, row := range rows {
		t := test{row.Threads, row.Prompt, row.Gen}
		if r[t] == nil {
			r[t] = map[string][]float64{}
		}
		r[t][engine] = append(r[t][engine], row.Rate)
	}
	return nil
}

// table prints medians with their range and, per peer, our median over its.
func table(model string, list []engine, r results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| test |", model)
	for _, e := range list {
		fmt.Fprintf(&b, " %s |", e.name)
	}
	for _, e := range list[1:] {
		fmt.Fprintf(&b, " ours / %s |", e.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", 2*len(list)-1) + "\n")
	tests := make([]test, 0, len(r))
	for t := range r {
		tests = append(tests, t)
	}
	slices.SortFunc(tests, func(a, b test) int {
		if d := b.prompt - a.prompt; d != 0 {
			return d
		}
		return a.threads - b.threads
	})
	for _, t := range tests {
		fmt.Fprintf(&b, "| %s |", t)
		for _, e := range list {
			v := r[t][e.name]
			if len(v) == 0 {
				b.WriteString(" - |")
				continue
			}
			fmt.Fprintf(&b, " %.1f (%.1f–%.1f) |", median(v), slices.Min(v), slices.Max(v))
		}
		for _, e := range list[1:] {
			if len(r[t][e.name]) == 0 {
				b.WriteString(" - |")
				continue
			}
			fmt.Fprintf(&b, " %.2f |", median(r[t]["ours"])/median(r[t][e.name]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}
