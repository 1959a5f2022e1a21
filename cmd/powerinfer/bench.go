package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

func benchCommand() *cli.Command {
	list := "; or a list: 16,32"
	return &cli.Command{
		Name: "bench", Usage: "time prompts and generation, with llama-bench's columns",
		Flags: slices.Concat(modelFlags(), []cli.Flag{
			&cli.StringSliceFlag{Name: "n-prompt", Aliases: []string{"p"}, Value: []string{"512"}, Usage: "`N` prompt tokens" + list},
			&cli.StringSliceFlag{Name: "n-gen", Aliases: []string{"n"}, Value: []string{"128"}, Usage: "`N` tokens to generate" + list},
			&cli.StringSliceFlag{Name: "n-depth", Aliases: []string{"d"}, Value: []string{"0"}, Usage: "`N` tokens already in the context" + list},
			&cli.StringSliceFlag{Name: "threads", Aliases: []string{"t"}, Usage: "`N` threads, default idle physical cores; or a list: 1,2,4", Sources: env("THREADS")},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "take tokens from the text in `FILE`, which leaves more neurons at zero than random ones; - is standard input"},
			&cli.IntFlag{Name: "batch-size", Aliases: []string{"b"}, Value: engine.UsualBatch, Usage: "tokens of a prompt handed in at a time"},
			&cli.IntFlag{Name: "ubatch-size", Aliases: []string{"ub"}, Value: model.UsualStep, Usage: "tokens computed at a time"},
			&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "counted runs of each test"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "md", Usage: "`FORMAT`: md, csv, json or jsonl"},
			kernelsFlag(),
			&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory"},
			sparseFlag(),
			&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
			traceFlag(),
		}, batchedFlags(), gpuFlags()),
		Action: func(ctx context.Context, c *cli.Command) error {
			return traced(c, func(l *trace.Log) error { return benchModel(ctx, c, l) })
		},
	}
}

func benchModel(ctx context.Context, c *cli.Command, l *trace.Log) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if c.Bool("list-devices") {
		return listDevices()
	}
	threads, err := defaultThreads(c)
	if err != nil {
		return err
	}
	for _, name := range []string{"batch-size", "ubatch-size", "repetitions"} {
		if v := c.Int(name); v < 1 || v > 1<<20 {
			return fmt.Errorf("--%s %d is not a number from 1 to %d", name, v, 1<<20)
		}
	}
	if c.IsSet("npl") {
		return benchBatched(ctx, c, l, threads)
	}
	tests, err := benchTests(c)
	if err != nil {
		return err
	}
	reps := c.Int("repetitions")
	w, err := bench.NewWriter(os.Stdout, c.String("output"))
	if err != nil {
		return err
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
	for _, t := range threads {
		if err := benchThreads(ctx, c, l, f, t, tests, text, reps, w); err != nil {
			return err
		}
	}
	return w.Close()
}

// benchThreads loads the model for one number of threads and runs every test on it.
func benchThreads(ctx context.Context, c *cli.Command, l *trace.Log, f *gguf.File, threads int, tests []bench.Test, text string, reps int, w *bench.Writer) error {
	o := engine.Options{
		Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size"),
		NoRepack: c.Bool("no-repack"), Activation: c.String("activation"), Trace: l,
	}
	var err error
	if o.Sparse, err = sparseMode(c); err != nil {
		return err
	}
	for _, t := range tests {
		o.Context = max(o.Context, t.Tokens())
	}
	e, err := loadEngine(ctx, c, f, o, planner.Processor{Threads: threads, Kernels: c.String("kernels")})
	if err != nil {
		return err
	}
	defer e.Engine.Close() // the file is read again for the next number of threads
	var tokens []int32
	if text != "" {
		tokens = e.Tokenizer().Encode(text, true, false)
	}
	for _, t := range tests {
		bar := newProgress(t.Name(), unitRuns)
		result, err := bench.Run(ctx, e.Engine, t, tokens, reps, func(done, total int) { bar.set(int64(done), int64(total)) })
		bar.finish()
		if err != nil {
			return err
		}
		row := bench.Row{
			Test: t, Result: result, Threads: threads, Batch: o.Batch, UBatch: o.UBatch, NoRepack: o.NoRepack,
			Commit: commit(), CPU: hw.Detect().Name, File: f.Path, Model: bench.Describe(f), Time: time.Now().UTC(),
		}
		if plan, _ := e.Planner.Plan(); plan != nil {
			row.Expected, row.Layers = plan.Rate, plan.Layers()
			for j, u := range e.Planner.Usage() {
				row.GPUs = append(row.GPUs, bench.GPU{Name: u.Name, Device: plan.GPUs[j].Device})
			}
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// benchText returns the text of -f; without the flag there is none.
func benchText(c *cli.Command) (string, error) {
	if !c.IsSet("file") {
		return "", nil
	}
	text, err := readFile(c.String("file"))
	if err == nil && text == "" {
		err = fmt.Errorf("%s is empty", c.String("file"))
	}
	return text, err
}

// benchTests is llama-bench's cross product: every prompt and every generation length at every depth.
func benchTests(c *cli.Command) ([]bench.Test, error) {
	var lists [3][]int
	for i, name := range []string{"n-prompt", "n-gen", "n-depth"} {
		var err error
		if lists[i], err = intList(c, name, 0); err != nil {
			return nil, err
		}
	}
	var tests []bench.Test
	for _, d := range lists[2] {
		for _, p := range lists[0] {
			if p > 0 {
				tests = append(tests, bench.Test{Prompt: p, Depth: d})
			}
		}
		for _, n := range lists[1] {
			if n > 0 {
				tests = append(tests, bench.Test{Gen: n, Depth: d})
			}
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("-p and -n are both 0: nothing to time")
	}
	return tests, nil
}

// mostListed bounds what a test may ask for: more tokens than any context has.
const mostListed = 1 << 24

// intList reads a flag of comma-separated integers, each at least least; the flag may be repeated.
func intList(c *cli.Command, name string, least int) ([]int, error) {
	var out []int
	text := strings.Join(c.StringSlice(name), ",")
	for _, s := range strings.Split(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || v < least || v > mostListed {
			return nil, fmt.Errorf("--%s %q is not a list of integers from %d to %d", name, text, least, mostListed)
		}
		out = append(out, v)
	}
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
