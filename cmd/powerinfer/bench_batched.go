package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// batchedFlags ask for llama-batched-bench's test.
func batchedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "npl", Usage: "time `N` sequences at a time, as llama-batched-bench does; or a list: 1,2,4,8"},
		&cli.StringSliceFlag{Name: "npp", Value: []string{"128"}, Usage: "with --npl: `N` prompt tokens of each sequence; or a list"},
		&cli.StringSliceFlag{Name: "ntg", Value: []string{"128"}, Usage: "with --npl: `N` tokens to generate for each sequence; or a list"},
	}
}

// batchedTests returns the cross product of -npp, -ntg and -npl.
func batchedTests(c *cli.Command) (tests []bench.Batched, err error) {
	var lists [3][]int
	for i, name := range []string{"npp", "ntg", "npl"} {
		if lists[i], err = intList(c, name, 1); err != nil {
			return nil, err
		}
	}
	for _, p := range lists[0] {
		for _, n := range lists[1] {
			for _, s := range lists[2] {
				if s > mostSequences {
					return nil, fmt.Errorf("--npl %d: at most %d sequences are timed at a time", s, mostSequences)
				}
				tests = append(tests, bench.Batched{Prompt: p, Gen: n, Sequences: s})
			}
		}
	}
	return tests, nil
}

// mostSequences bounds the requests that generate at a time: each takes a row of logits.
const mostSequences = 256

// benchBatched times many sequences at a time, for every number of threads.
func benchBatched(ctx context.Context, c *cli.Command, l *trace.Log, threads []int) error {
	tests, err := batchedTests(c)
	if err != nil {
		return err
	}
	w, err := bench.NewBatchedWriter(os.Stdout, c.String("output"))
	if err != nil {
		return err
	}
	for _, t := range threads {
		if err := benchBatchedThreads(ctx, c, l, t, tests, w); err != nil {
			return err
		}
	}
	return w.Close()
}

func benchBatchedThreads(ctx context.Context, c *cli.Command, l *trace.Log, threads int, tests []bench.Batched, w *bench.BatchedWriter) error {
	o := engine.Options{
		Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size"),
		NoRepack: c.Bool("no-repack"), Activation: c.String("activation"), Trace: l,
	}
	var err error
	if o.Sparse, err = sparseMode(c); err != nil {
		return err
	}
	for _, t := range tests {
		o.Context, o.Outputs = max(o.Context, t.Tokens()), max(o.Outputs, t.Sequences)
	}
	text, err := benchText(c)
	if err != nil {
		return err
	}
	f, err := openModel(c)
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := loadEngine(ctx, c, f, o, planner.Processor{Threads: threads, Kernels: c.String("kernels")})
	if err != nil {
		return err
	}
	defer e.Close()
	var tokens []int32
	if text != "" {
		tokens = e.Tokenizer().Encode(text, true, false)
	}
	row := bench.BatchedRow{Context: o.Context, Batch: o.Batch, UBatch: o.UBatch, Threads: threads}
	if plan, _ := e.Planner.Plan(); plan != nil {
		row.Layers = plan.Layers()
	}
	warm := bench.Batched{Prompt: 8, Gen: 4, Sequences: 1}
	if _, err := bench.RunBatched(ctx, e.Engine, warm, tokens); err != nil {
		return err
	}
	for _, row.Batched = range tests {
		bar := newProgress(fmt.Sprintf("%d sequences of %d+%d tokens", row.Sequences, row.Prompt, row.Gen), unitRuns)
		row.BatchedResult, err = bench.RunBatched(ctx, e.Engine, row.Batched, tokens)
		bar.finish()
		if err != nil {
			return err
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// defaultThreads returns those that the flag names, or the machine's idle cores.
func defaultThreads(c *cli.Command) ([]int, error) {
	if c.IsSet("threads") {
		return intList(c, "threads", 1)
	}
	return []int{hw.DefaultThreads()}, nil
}
