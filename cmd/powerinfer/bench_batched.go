package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/hw"
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
func benchBatched(ctx context.Context, c *cli.Command, trace *powerinfer.Trace, threads []int) error {
	tests, err := batchedTests(c)
	if err != nil {
		return err
	}
	w, err := bench.NewBatchedWriter(screen.Out, c.String("output"))
	if err != nil {
		return err
	}
	text, err := benchText(c)
	if err != nil {
		return err
	}
	longest, sequences := 0, 0
	for _, t := range tests {
		longest, sequences = max(longest, t.Tokens()), max(sequences, t.Sequences)
	}
	for _, t := range threads {
		b, err := openBench(ctx, c, trace, t, longest, sequences)
		if err != nil {
			return err
		}
		if err := errors.Join(b.timeSequences(ctx, tests, b.encoded(text), w), b.Close()); err != nil {
			return err
		}
	}
	return w.Close()
}

// timeSequences runs every test. Before each, a short test with as many sequences warms up, because a GPU records steps
// of each size once.
func (b *benchModel) timeSequences(ctx context.Context, tests []bench.Batched, tokens []int32, w *bench.BatchedWriter) error {
	plan, err := b.Plan()
	if err != nil {
		return err
	}
	o := &b.options
	row := bench.BatchedRow{Context: o.Limits.Context, Batch: o.Limits.Batch, UBatch: o.Limits.UBatch, Threads: o.CPU.Threads, Layers: plan.OnGPUs()}
	for _, row.Batched = range tests {
		bar := progress.New(fmt.Sprintf("%d sequences of %d+%d tokens", row.Sequences, row.Prompt, row.Gen), progress.Runs)
		test := evaluate.Benchmark{Prompt: row.Prompt, Generate: row.Gen, Sequences: row.Sequences, Tokens: tokens}
		warm := test
		warm.Generate = min(warm.Generate, 4)
		if _, _, _, err := warm.RunTogether(ctx, b.Model); err != nil {
			return err
		}
		prompts, generation, counted, err := test.RunTogether(ctx, b.Model)
		bar.Finish()
		if err != nil {
			return err
		}
		row.PromptNS, row.GenNS = prompts.Nanoseconds(), generation.Nanoseconds()
		row.Neurons = countedBy(b.Info().Sparse, counted)
		row.Planned = len(plan.GPUs) > 0 && plan.Rate > 0
		row.PromptExpected, row.GenExpected = b.Expected(row.Sequences*row.Prompt, row.Sequences)
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// defaultThreads returns the numbers of threads of the flag, or the machine's physical cores.
func defaultThreads(c *cli.Command) ([]int, error) {
	if c.IsSet("threads") {
		return intList(c, "threads", 1)
	}
	return []int{hw.DefaultThreads()}, nil
}
