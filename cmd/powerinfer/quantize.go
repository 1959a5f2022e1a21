package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

func quantizeCommand() *cli.Command {
	return &cli.Command{
		Name: "quantize", UsageText: `powerinfer quantize model.gguf small.gguf q4_k_m
powerinfer quantize --imatrix imatrix.gguf model.gguf small.gguf iq4_xs`, Usage: "write a GGUF file's matrices in another type", ArgsUsage: "IN OUT TYPE [THREADS]",
		Description: "TYPE is one of\n" + typeLines() +
			"or copy. q4_k_m suits most models; q8_0 loses next to nothing; iq4_xs and smaller want\n--imatrix, whose file powerinfer imatrix makes. docs/quantize.md says more.\n" +
			"Each matrix has the type that llama-quantize gives it. Vectors, metadata and what prepared files\nhold stay as they are. With --dry-run OUT may be left out.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "imatrix", Usage: "importance matrix `FILE`: errors count by how large a weight's inputs are"},
			&cli.StringSliceFlag{Name: "include-weights", Usage: "use importances of tensors with `NAME` in their names only; may be repeated"},
			&cli.StringSliceFlag{Name: "exclude-weights", Usage: "use no importances of tensors with `NAME` in their names; may be repeated"},
			&cli.BoolFlag{Name: "pure", Usage: "all matrices are of TYPE"},
			&cli.StringSliceFlag{Name: "tensor-type", Usage: "`PATTERN=TYPE`: matrices whose names match are of that element type, as attn_v=q8_0; may be repeated, the first that matches counts"},
			&cli.StringFlag{Name: "tensor-type-file", Usage: "read PATTERN=TYPE from `FILE`, one a line"},
			&cli.StringFlag{Name: "output-tensor-type", Usage: "element `TYPE` of output.weight, which gives the logits"},
			&cli.StringFlag{Name: "token-embedding-type", Usage: "element `TYPE` of the token embedding"},
			&cli.BoolFlag{Name: "leave-output-tensor", Usage: "leave output.weight as it is"},
			&cli.BoolFlag{Name: "allow-requantize", Usage: "decode matrices that are quantised already; quality is lost twice"},
			&cli.StringFlag{Name: "prune-layers", Usage: "leave out `LAYERS`, numbers separated by commas; this changes the model"},
			&cli.BoolFlag{Name: "keep-split", Usage: "write as many parts as IN has"},
			&cli.StringSliceFlag{Name: "override-kv", Usage: "set a metadata key of OUT: `KEY=TYPE:VALUE`, TYPE int, float, bool or str; may be repeated"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show each matrix's type and size, and write nothing"},
		},
		Action: quantize,
	}
}

// typeLines lists the types in lines of a terminal's width.
func typeLines() string {
	const width = 88
	var b strings.Builder
	line := 0
	for name := range strings.SplitSeq(convert.OutTypes(), ", ") {
		if line += len(name) + 2; line > width {
			b.WriteString("\n")
			line = len(name) + 2
		}
		b.WriteString(name + ", ")
	}
	return b.String() + "\n"
}

// mostThreads limits the memory of the threads' buffers.
const mostThreads = 512

// quantizeArguments are the positional arguments.
type quantizeArguments struct {
	in, out, kind string
	threads       int
}

func parseQuantizeArguments(c *cli.Command) (a quantizeArguments, err error) {
	words := c.Args().Slice()
	if c.Bool("dry-run") && len(words) > 1 {
		if _, err := convert.ParseOutput(words[1]); err == nil {
			words = append([]string{words[0], ""}, words[1:]...)
		}
	}
	if n := len(words); n < 3 || n > 4 {
		return a, errors.New("give a file, a file to write and a type: powerinfer quantize IN OUT TYPE")
	}
	a = quantizeArguments{in: words[0], out: words[1], kind: words[2]}
	if len(words) == 4 {
		if a.threads, err = strconv.Atoi(words[3]); err != nil || a.threads < 1 || a.threads > mostThreads {
			return a, fmt.Errorf("%q threads: give 1 to %d", words[3], mostThreads)
		}
	}
	return a, nil
}

func quantize(ctx context.Context, c *cli.Command) error {
	a, err := parseQuantizeArguments(c)
	if err != nil {
		return err
	}
	q, err := quantization(c, a)
	if err != nil {
		return err
	}
	dry := c.Bool("dry-run")
	if !dry && !q.KeepSplit {
		if err := atomicfile.Check(a.out, gguf.ModelKind()); err != nil {
			return err
		}
	}
	f, err := gguf.Open(a.in)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, line := range f.Notes {
		screen.Note(line)
	}
	info, _, err := prepared.Read(f)
	if err != nil {
		return err
	}
	choices, err := q.Plan(f)
	if err != nil {
		return err
	}
	if dry {
		return showChoices(choices)
	}
	if err := q.Check(f, choices); err != nil {
		return err
	}
	files := q.Files(choices, a.out)
	for _, name := range files {
		if err := errors.Join(atomicfile.Check(name, gguf.ModelKind()), checkFiles([]string{a.in}, []string{name})); err != nil {
			return err
		}
	}
	q.Notes = nil // Plan has printed them
	e := q.Estimate(choices)
	if e.Time > progress.Patience() {
		screen.Note(fmt.Sprintf("about %s, and %.0f MiB of memory beside the files' pages", quantity.Time(e.Time), float64(e.Memory)/(1<<20)))
	}
	bar := progress.New("quantising", progress.Time) // the time per byte differs up to a hundredfold between types
	q.Progress = func(done, _ int64) { bar.Set(int64(e.Done(done)), int64(e.Time)) }
	err = convert.Quantize(ctx, f, a.out, q)
	bar.Finish()
	if err != nil {
		return err
	}
	out := files[0]
	after, err := gguf.Open(out)
	if err != nil {
		return err
	}
	defer after.Close()
	if info.Quality != nil {
		screen.Note("the quality that the file names was measured on " + a.in)
	}
	before, now := bench.Describe(f), bench.Describe(after)
	fmt.Fprintf(screen.Err, "wrote %s: %.1f MiB before, %.1f MiB after, %.2f bits a weight\n",
		out, float64(before.Bytes)/(1<<20), float64(now.Bytes)/(1<<20), 8*float64(now.Bytes)/float64(now.Params))
	return nil
}

// quantization reads the flags.
func quantization(c *cli.Command, a quantizeArguments) (q convert.Quantization, err error) {
	q = convert.Quantization{
		Copy: strings.EqualFold(a.kind, "copy"), Pure: c.Bool("pure"), Requantize: c.Bool("allow-requantize"), KeepHead: c.Bool("leave-output-tensor"),
		KeepSplit: c.Bool("keep-split"), Threads: a.threads, Notes: screen.Note,
	}
	if !q.Copy {
		if q.Output, err = convert.ParseOutput(a.kind); err != nil {
			return q, err
		}
	}
	if q.Head, err = convert.ParseType(c.String("output-tensor-type")); err != nil {
		return q, fmt.Errorf("--output-tensor-type: %w", err)
	}
	if q.Embedding, err = convert.ParseType(c.String("token-embedding-type")); err != nil {
		return q, fmt.Errorf("--token-embedding-type: %w", err)
	}
	if s := c.String("prune-layers"); s != "" {
		if q.Prune, err = convert.ParseLayers(s); err != nil {
			return q, fmt.Errorf("--prune-layers: %w", err)
		}
	}
	if q.Rules, err = typeRules(c); err != nil {
		return q, err
	}
	for _, s := range c.StringSlice("override-kv") {
		kv, err := convert.ParseKey(s)
		if err != nil {
			return q, fmt.Errorf("--override-kv: %w", err)
		}
		q.Keys = append(q.Keys, kv)
	}
	include, exclude := c.StringSlice("include-weights"), c.StringSlice("exclude-weights")
	path := c.String("imatrix")
	switch {
	case len(include) > 0 && len(exclude) > 0:
		return q, errors.New("--include-weights and --exclude-weights cannot be given together")
	case path == "" && len(include)+len(exclude) > 0:
		return q, errors.New("--include-weights and --exclude-weights choose among the importances of --imatrix, which is not given")
	case path != "":
		err = q.ReadMatrix(path, include, exclude)
	}
	return q, err
}

// typeRules reads --tensor-type and the file of --tensor-type-file.
func typeRules(c *cli.Command) ([]convert.TypeRule, error) {
	var rules []convert.TypeRule
	add := func(where string, words []string) error {
		for _, s := range words {
			r, err := convert.ParseTypeRule(s)
			if err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			rules = append(rules, r)
		}
		return nil
	}
	if err := add("--tensor-type", c.StringSlice("tensor-type")); err != nil {
		return nil, err
	}
	if path := c.String("tensor-type-file"); path != "" {
		b, err := wholefile.Read(path, wholefile.Setting)
		if err != nil {
			return nil, err
		}
		if err := add(path, strings.Fields(string(b))); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// showChoices prints the choice for each tensor.
func showChoices(choices []convert.Choice) error {
	var before, after, elems int64
	needed := ""
	for i, c := range choices {
		t := c.Tensor
		before, after, elems = before+int64(len(t.Data)), after+c.Bytes(), elems+int64(t.Elems())
		if c.NeedsMatrix && needed == "" {
			needed = t.Name
		}
		if _, err := fmt.Fprintf(screen.Out, "[%4d/%4d] %-36s %-20s %7s -> %7s %9.2f MiB -> %9.2f MiB\n", i+1, len(choices), screen.Plain(t.Name), fmt.Sprint(t.Shape), t.Type, c.Type,
			float64(len(t.Data))/(1<<20), float64(c.Bytes())/(1<<20)); err != nil {
			return err
		}
	}
	if needed != "" {
		screen.Note(fmt.Sprintf("this needs an importance matrix: tensor %q would be worth nothing without", needed))
	}
	_, err := fmt.Fprintf(screen.Out, "%.1f MiB before, %.1f MiB after, %.2f bits a weight\n", float64(before)/(1<<20), float64(after)/(1<<20), 8*float64(after)/float64(elems))
	return err
}
