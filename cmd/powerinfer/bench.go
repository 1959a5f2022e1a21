package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

func benchCommand() *cli.Command {
	list := "; or a list: 16,32"
	return &cli.Command{
		Name: "bench", UsageText: `powerinfer bench model.gguf
powerinfer bench -m model.gguf -p 512 -n 128 -t 1,2,4
powerinfer bench -m model.gguf -npp 128 -ntg 128 -npl 1,2,4,8`, Usage: "time prompts and generation, with llama-bench's columns",
		Flags: slices.Concat(flags.Model(), []cli.Flag{
			&cli.StringSliceFlag{Name: "n-prompt", Aliases: []string{"p"}, Value: []string{"512"}, Usage: "`N` prompt tokens" + list},
			&cli.StringSliceFlag{Name: "n-gen", Aliases: []string{"n"}, Value: []string{"128"}, Usage: "`N` tokens to generate" + list},
			&cli.StringSliceFlag{Name: "n-depth", Aliases: []string{"d"}, Value: []string{"0"}, Usage: "`N` tokens already in the context" + list},
			&cli.StringSliceFlag{Name: "threads", Aliases: []string{"t"}, Usage: "`N` threads, default physical cores; or a list: 1,2,4", Sources: flags.Env("THREADS")},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "take tokens from the text in `FILE`, which leaves more neurons at zero than random ones; - is standard input"},
			flags.Batch(), flags.UBatch(), flags.CacheKeys(), flags.CacheValues(),
			&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "counted runs of each test"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "md", Usage: "`FORMAT`: md, csv, json or jsonl"},
			flags.RAM(), flags.Kernels(),
			&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory"},
			flags.Sparse(),
			&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
			traceFlag(), verboseFlag(),
		}, flags.Bound(), flags.Prediction(), batchedFlags(), []cli.Flag{flags.Experts()}, flags.Rope(), flags.GPU()),
		Action: func(ctx context.Context, c *cli.Command) error {
			return traced(c, func(t *powerinfer.Trace) error { return runBench(ctx, c, t) })
		},
	}
}

func runBench(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) error {
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
	if _, err := flags.ReadCacheTypes(c); err != nil {
		return err
	}
	if c.IsSet("npl") {
		return benchBatched(ctx, c, trace, threads)
	}
	tests, err := benchTests(c)
	if err != nil {
		return err
	}
	reps := c.Int("repetitions")
	w, err := bench.NewWriter(screen.Out, c.String("output"))
	if err != nil {
		return err
	}
	text, err := benchText(c)
	if err != nil {
		return err
	}
	longest := 0
	for _, t := range tests {
		longest = max(longest, t.Tokens())
	}
	for _, t := range threads {
		b, err := openBench(ctx, c, trace, t, longest, 1)
		if err != nil {
			return err
		}
		if err := errors.Join(b.time(ctx, tests, b.encoded(text), reps, w), b.Close()); err != nil {
			return err
		}
	}
	return w.Close()
}

// benchModel is a model that is timed, opened for one number of threads.
type benchModel struct {
	*powerinfer.Model
	options powerinfer.Options
}

// openBench opens the model for this many threads and sequences. The sequences share tokens of context.
func openBench(ctx context.Context, c *cli.Command, trace *powerinfer.Trace, threads, tokens, sequences int) (*benchModel, error) {
	b := &benchModel{}
	var err error
	b.Model, err = open(ctx, c, func(o *powerinfer.Options) {
		o.CPU.Threads, o.Limits.Context, o.Limits.Sequences, o.Trace = threads, tokens, sequences, trace
		o.Limits.UBatch = c.Int("ubatch-size") // the table shows it
		expect(c, o, 0)
		b.options = *o
	})
	return b, err
}

// encoded returns the tokens of text, nil for an empty one.
func (b *benchModel) encoded(text string) []int32 {
	if text == "" {
		return nil
	}
	return b.Tokenize(text, true, false)
}

// time runs every test.
func (b *benchModel) time(ctx context.Context, tests []bench.Test, tokens []int32, reps int, w *bench.Writer) error {
	i := b.Info()
	for _, t := range tests {
		bar := progress.New(t.Name(), progress.Runs)
		test := evaluate.Benchmark{
			Prompt: t.Prompt, Generate: t.Gen, Depth: t.Depth, Runs: reps, Tokens: tokens,
			Progress: bar.Count,
		}
		timing, err := test.Run(ctx, b.Model)
		bar.Finish()
		if err != nil {
			return err
		}
		row := bench.Row{
			Test: t, Threads: b.options.CPU.Threads, Batch: b.options.Limits.Batch, UBatch: b.options.Limits.UBatch, TypeK: strings.ToLower(b.options.Cache.Key.String()), TypeV: strings.ToLower(b.options.Cache.Value.String()), NoRepack: b.options.Limits.Mapped,
			Commit: commit(), CPU: hw.Detect().Name, File: i.Path, Model: bench.Model{Type: i.Type, Bytes: i.Bytes, Params: i.Parameters}, Time: time.Now().UTC(),
		}
		row.Neurons, row.Disk = countedBy(i.Sparse, timing.Neurons), timing.Disk
		for _, d := range timing.Runs {
			row.Samples = append(row.Samples, d.Nanoseconds())
		}
		plan, err := b.Plan()
		if err != nil {
			return err
		}
		row.Layers = plan.OnGPUs()
		row.Planned, row.Expected = len(plan.GPUs) > 0 && plan.Rate > 0, b.expected(t)
		for _, g := range plan.GPUs {
			row.GPUs = append(row.GPUs, bench.GPU{Name: g.Name, Device: g.Device})
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// expected returns the tokens per second that the plan expects of a test; 0: unknown.
func (b *benchModel) expected(t bench.Test) float64 {
	reading, generating := b.Expected(t.Prompt, 1)
	seconds := 0.0
	for _, part := range []struct {
		tokens int
		rate   float64
	}{{t.Prompt, reading}, {t.Gen, generating}} {
		if part.tokens > 0 {
			seconds += float64(part.tokens) / part.rate // infinite where nothing is known
		}
	}
	return float64(t.Prompt+t.Gen) / seconds
}

// countedBy returns n as a row shows it for this mode.
func countedBy(mode powerinfer.Sparse, n evaluate.NeuronTotals) bench.Neurons {
	return bench.Neurons{
		Mode: mode.String(), Pairs: n.Pairs, Predicted: n.Predicted, Active: n.Active, Bytes: n.Bytes, Dense: n.Dense, Steps: n.Steps,
	}
}

// benchText returns the text of -f; without the flag there is none.
func benchText(c *cli.Command) (string, error) {
	if !c.IsSet("file") {
		return "", nil
	}
	text, err := readFile(c.String("file"), wholefile.Text)
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
