package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/bench"
)

// benchRow holds the fields of llama-bench's JSON rows that the check needs, and those that `powerinfer bench` adds.
type benchRow struct {
	Prompt    int     `json:"n_prompt"`
	Generated int     `json:"n_gen"`
	Layers    int     `json:"n_gpu_layers"`
	Rate      float64 `json:"avg_ts"` // tokens per second
	Deviation float64 `json:"stddev_ts"`
	Planned   float64 `json:"plan_ts"`
	DiskBytes float64 `json:"disk_bytes_per_token"`
	DiskKept  float64 `json:"disk_kept_share"`
	DiskWait  float64 `json:"disk_wait_share"`
}

func (r benchRow) test() string { return bench.Test{Prompt: r.Prompt, Gen: r.Generated}.Name() }

// benched returns the rows that a program prints in the form of llama-bench.
func benched(ctx context.Context, program string, args ...string) ([]benchRow, error) {
	out, err := outputOf(ctx, program, args...)
	if err != nil {
		return nil, err
	}
	return readBench(out)
}

func readBench(out []byte) ([]benchRow, error) {
	var rows []benchRow
	if err := json.Unmarshal(out, &rows); err != nil {
		return nil, fmt.Errorf("llama-bench printed no JSON of its form: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("llama-bench ran no test")
	}
	return rows, nil
}

// outputOf returns what a program writes to standard output. The error has the end of what it writes to standard error,
// or is errCut.
func outputOf(ctx context.Context, program string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if ctx.Err() != nil {
		return nil, errCut
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said := strings.TrimSpace(string(exit.Stderr))
		err = fmt.Errorf("%w: %s", err, said[max(0, len(said)-500):])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return out, nil
}

// program runs a program and ignores its output.
func program(ctx context.Context, path string, args ...string) error {
	_, err := outputOf(ctx, path, args...)
	return err
}

// batchedRow holds the fields of a row of llama-batched-bench's JSON that the check needs.
type batchedRow struct {
	Sequences  int     `json:"pl"`
	PromptRate float64 `json:"speed_pp"` // tokens per second
	PromptTime float64 `json:"t_pp"`     // seconds
	Rate       float64 `json:"speed_tg"` // of generation, tokens per second of all sequences
}

// sequences times generation of many sequences at a time.
func sequences(ctx context.Context, c *check, w *checkup.Report) error {
	if c.engine == "" {
		return nil
	}
	m := shapes()[0]
	path, err := m.path(ctx, c, w, m.spec(c, false))
	if err != nil {
		return err
	}
	counts, tokens := "1,2,4,8,12,16,24,32,48,64", "64"
	if c.tiny {
		counts, tokens = "1,2", "2"
	}
	out, err := outputOf(ctx, c.engine, c.benchArgs(path, "--sparse", "off", "-npp", "32", "-ntg", tokens, "-npl", counts)...)
	if err != nil {
		return err
	}
	var rows []batchedRow
	if err := json.Unmarshal(out, &rows); err != nil {
		return fmt.Errorf("powerinfer bench printed no JSON of llama-batched-bench's form: %w", err)
	}
	w.Say("Tokens per second of all sequences together, each after 32 tokens. The goals: another sequence never makes less, and 32 make 12 times as much as one.")
	w.Table([]string{"sequences", "tokens/s", "over one", "goal", "prompts, tokens/s", "prompts, s"}, shownSequences(rows)...)
	return nil
}

// noise is the share by which more sequences may be slower than fewer without missing the goal.
const noise = 0.03

// shownSequences returns the rows of the table that sequences prints.
func shownSequences(rows []batchedRow) (table [][]string) {
	const enough, times = 32, 12 // the goal: enough sequences together are times as fast as one
	best := 0.0
	for _, r := range rows {
		over := r.Rate / rows[0].Rate
		well := r.Rate >= (1-noise)*best && (r.Sequences != enough || over >= times)
		table = append(table, []string{
			fmt.Sprint(r.Sequences), fmt.Sprintf("%.1f", r.Rate), fmt.Sprintf("%.2f", over), reached(well), fmt.Sprintf("%.0f", r.PromptRate), fmt.Sprintf("%.3f", r.PromptTime),
		})
		best = max(best, r.Rate)
	}
	return table
}
