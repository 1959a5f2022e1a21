package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// calibrationFlags returns the flags of prepare and profile.
func calibrationFlags() []cli.Flag {
	return append(flags.Model(),
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` to write"},
		&cli.StringSliceFlag{Name: "file", Aliases: []string{"f"}, Usage: "calibration text `FILE`; may be repeated. Documents end at lines of <|endoftext|> or at two empty lines. Without it the model generates text"},
		&cli.IntFlag{Name: "tokens", Usage: fmt.Sprintf("of calibration text to use at most; default: %d, %d where the model generates it", prepare.DefaultTokens, prepare.DefaultGenerated)},
		&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is relu, fatrelu[:threshold], drelu or relu2"},
		&cli.StringFlag{Name: "work", Usage: "`FOLDER` for intermediate files; default: the output's name and .work"},
		&cli.BoolFlag{Name: "resume", Usage: "continue the run of the work folder"},
		&cli.BoolFlag{Name: "keep-work", Usage: "keep the work folder when all went well"},
		&cli.Uint64Flag{Name: "seed", Aliases: []string{"s"}, Usage: "seed of generated text and of training"},
		&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "default: physical cores; the result does not depend on it", Sources: flags.Env("THREADS")},
	)
}

func prepareCommand() *cli.Command {
	return &cli.Command{
		Name: "prepare", UsageText: `powerinfer prepare model.gguf -f text.txt -o prepared.gguf`, Usage: "order a ReLU model's neurons and train their predictors, order experts, or find thresholds",
		Description: `--sparse threshold is for models of SiLU or GELU, whose activations never are zero: it finds
for every layer a magnitude below which they may be taken as zero, measures on text that is held
out what that costs, and stores the curve. The file stays an ordinary GGUF file; run it with
--sparse threshold.

A model with experts stays an ordinary GGUF file that other engines load: its experts are
sorted hottest first, as are the neurons inside them where their activation leaves zeros, and
what was counted is stored. No predictors are made for neurons inside experts, nor is anything
measured, so that --recall, --accuracy and --trace-budget mean nothing there.`,
		Flags: append(calibrationFlags(),
			&cli.StringSliceFlag{Name: "eval-file", Usage: "text `FILE` to measure on; may be repeated. Default: documents of -f that are held out"},
			&cli.StringFlag{Name: "trace-budget", Value: "8G", Usage: "`SIZE` of the samples kept on disk for training"},
			&cli.Float64Flag{Name: "recall", Value: 0.99, Usage: "share of activation mass that predictors must find"},
			&cli.Float64Flag{Name: "accuracy", Value: 0.95, Usage: "share of neurons that they must judge right"},
			&cli.StringFlag{Name: "predictor-type", Usage: "`TYPE` of the predictors: " + prepare.PredictorTypes() + "; default: the model's, else q8_0"},
			&cli.BoolFlag{Name: "no-predictors", Usage: "only order the neurons"},
			&cli.BoolFlag{Name: "allow-requantize", Usage: "accept a quantised model: its down projections are quantised again; without it, only experts of a quantised model are sorted"},
			&cli.StringFlag{Name: "sparse", Usage: "`MODE` threshold: find thresholds of magnitude; default: what the model's activation is made for"},
			&cli.BoolFlag{Name: "measure", Usage: "only measure a prepared file anew, or a model with experts, on text that it was not prepared with, and store what its settings cost"},
			&cli.Float64Flag{Name: "max-kld", Usage: fmt.Sprintf("KL divergence that 19 of 20 documents are to keep, in nats a token: marks the setting that does; thresholds are searched for it, default: %g", model.UsualMaxKLD)},
			&cli.Float64Flag{Name: "min-same-top", Usage: "the same by another measure: the least share of a document's tokens whose likeliest successor stays the same, such as 0.97"},
			&cli.BoolFlag{Name: "neurons", Usage: "also write OUTPUT.neurons, which a model larger than memory is run from; otherwise that is written when it is first needed"},
			&cli.StringFlag{Name: "format", Value: "prepared", Usage: "prepared, or original: what the original PowerInfer loads"},
		),
		Action: prepareModel,
	}
}

func prepareModel(ctx context.Context, c *cli.Command) error {
	o, f, err := calibrationOptions(c, gguf.ModelKind())
	if err != nil {
		return err
	}
	defer f.Close()
	if o.TraceBudget, err = parseSize(c.String("trace-budget")); err != nil {
		return fmt.Errorf("--trace-budget: %w", err)
	}
	if name := c.String("predictor-type"); name != "" {
		if err := o.SetPredictorType(name); err != nil {
			return fmt.Errorf("--predictor-type: %w", err)
		}
	}
	switch format := c.String("format"); format {
	case "prepared", "original":
		o.Original = format == "original"
	default:
		return fmt.Errorf("--format %q is neither prepared nor original", format)
	}
	switch mode := c.String("sparse"); mode {
	case "":
	case model.Threshold.String():
		o.Thresholds = true
	default:
		return fmt.Errorf("--sparse %q: threshold is what can be prepared for; leave it out for a model whose activation leaves zeros", mode)
	}
	if o.Bound, err = flags.ReadBound(c); err != nil {
		return err
	}
	o.Measure = c.Bool("measure")
	o.EvalFiles, o.Recall, o.Accuracy = c.StringSlice("eval-file"), c.Float64("recall"), c.Float64("accuracy")
	o.NoPredictors, o.AllowRequantize, o.Neurons = c.Bool("no-predictors"), c.Bool("allow-requantize"), c.Bool("neurons")
	bars := newBars(&o)
	defer sayResume(ctx)()
	rep, err := prepare.Run(ctx, f, o)
	bars.finish()
	if err != nil {
		return err
	}
	if err := printReport(screen.Out, f.Path, rep, o); err != nil {
		return err
	}
	fmt.Fprintln(screen.Err, "wrote", o.Out)
	return nil
}

// calibrationOptions reads calibrationFlags for an output of this kind, and opens the model.
func calibrationOptions(c *cli.Command, kind atomicfile.Kind) (o prepare.Options, f *gguf.File, err error) {
	o = prepare.Options{
		Out: c.String("output"), Files: c.StringSlice("file"), Tokens: c.Int("tokens"), Work: c.String("work"), KeepWork: c.Bool("keep-work"),
		Resume: c.Bool("resume"), Activation: c.String("activation"), Seed: c.Uint64("seed"), Threads: c.Int("threads"),
	}
	switch {
	case o.Out == "":
		return o, nil, errors.New("give a file to write with -o")
	case o.Threads < 0 || o.Threads > mostThreads:
		return o, nil, fmt.Errorf("--threads %d: give 1 to %d", o.Threads, mostThreads)
	case o.Tokens < 0 || o.Tokens > 1<<30:
		return o, nil, fmt.Errorf("--tokens %d is not a number from 0 to %d", o.Tokens, 1<<30)
	}
	if err := atomicfile.Check(o.Out, kind); err != nil {
		return o, nil, err
	}
	f, err = openModel(c)
	return o, f, err
}

// parseSize reads 8G, 512M, 100K or a number of bytes.
func parseSize(s string) (int64, error) {
	shift := 0
	digits := strings.TrimSuffix(strings.ToUpper(s), "B")
	for suffix, n := range map[string]int{"K": 10, "M": 20, "G": 30, "T": 40} {
		if d, ok := strings.CutSuffix(digits, suffix); ok {
			digits, shift = d, n
			break
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n > 0) || n*float64(int64(1)<<shift) > 1<<60 {
		return 0, fmt.Errorf("%q is not a size such as 8G or 512M", s)
	}
	return int64(n * float64(int64(1)<<shift)), nil
}

// sayResume tells, as soon as ctx ends, how to resume the run, because the run's last step may take long. The caller
// calls the returned function at the end; it tells what could not be told yet.
func sayResume(ctx context.Context) func() {
	say := sync.OnceFunc(func() { fmt.Fprintln(screen.Err, "interrupted; the same command with --resume goes on") })
	stop := context.AfterFunc(ctx, say)
	return func() {
		if !stop() {
			say()
		}
	}
}

// bars shows one progress bar for each stage of a run.
type bars struct {
	stage prepare.Stage
	bar   *progress.Bar
}

// newBars makes o report its stages.
func newBars(o *prepare.Options) *bars {
	b := &bars{}
	note := func(format string, args ...any) {
		b.finish()
		fmt.Fprintf(screen.Err, format+"\n", args...)
	}
	o.Note = func(format string, args ...any) { note("note: "+format, args...) }
	o.Estimate = func(stages []prepare.Estimate) {
		var least, most time.Duration
		var list []string
		for _, s := range stages {
			least, most = least+s.Least, most+s.Most
			list = append(list, fmt.Sprintf("%s %s", s.Stage, quantity.TimeSpan(s.Least, s.Most)))
		}
		note("this takes %s: %s", quantity.TimeSpan(least, most), strings.Join(list, ", "))
	}
	o.Progress = func(s prepare.Stage, done, total int64) {
		if s != b.stage {
			b.finish()
			u := progress.Runs
			switch s {
			case prepare.StageLoad, prepare.StageWrite, prepare.StageNeurons:
				u = progress.Bytes
			case prepare.StageGenerate, prepare.StageProfile:
				u = progress.Tokens
			}
			b.stage, b.bar = s, progress.New(string(s), u)
		}
		b.bar.Set(done, total)
	}
	o.Layer = func(layer, round int, y *prepare.Layer) {
		if y.Mode == prepared.Exact {
			note("layer %d runs exact: %s", layer, y.Why)
		}
	}
	return b
}

func (b *bars) finish() {
	if b.bar != nil {
		b.bar.Finish()
	}
	b.bar, b.stage = nil, ""
}

// printExperts prints a line for each layer with experts.
func printExperts(out io.Writer, name string, rep *prepare.Report) error {
	p, err := countedReport(name, rep)
	if err != nil {
		return err
	}
	return p.Table(out)
}

// printReport prints what a run did.
func printReport(out io.Writer, name string, rep *prepare.Report, o prepare.Options) error {
	switch {
	case rep.Experts != nil:
		return printExperts(out, name, rep)
	case rep.Layers != nil:
		if err := printPrepared(out, rep); err != nil {
			return err
		}
		advise(rep, o)
	}
	if rep.Curve == nil {
		return nil
	}
	bound := o.Bound
	if !bound.IsSet() {
		bound.KLD = model.UsualMaxKLD
	}
	return printCurve(out, rep.Curve, bound)
}

// printCurve prints a line for each measured setting, and marks the one that runs within the bound.
func printCurve(out io.Writer, c *prepared.Curve, bound model.Bound) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	setting, weights := "threshold", "feed-forward weights"
	switch c.Way {
	case prepared.ByMagnitude:
		setting = "left out"
	case prepared.ByWeight:
		setting, weights = fmt.Sprintf("weight after %d", c.Rank), "experts' weights"
	}
	fmt.Fprintf(w, "%s\tKL divergence\t\t19 of 20\tsame top token\t19 of 20\tperplexity\tactive\tbytes\t\t\n", setting)
	chosen := c.Within(bound)
	for i := range c.Points {
		p := &c.Points[i]
		mark, at := "", fmt.Sprintf("%g", p.Setting)
		if p == chosen {
			mark = "within " + bound.String()
		}
		switch c.Way {
		case prepared.ByMagnitude:
			at = fmt.Sprintf("%.1f %%", 100*p.Setting)
		case prepared.ByWeight:
			at = fmt.Sprintf("%.4f", p.Setting)
		}
		fmt.Fprintf(w, "%s\t%.5f\t± %.5f\t≤ %.5f\t%.2f %%\t≥ %.2f %%\t%.4f\t%.1f %%\t%s\t%s\t\n",
			at, p.KLDivergence, p.Error, p.MostKLD, 100*p.SameTop, 100*p.LeastSameTop, p.Perplexity, 100*p.Active, quantity.Kilobytes(float64(p.Bytes)), mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s that a token reads: %s dense", weights, quantity.Kilobytes(float64(c.DenseBytes)))
	if err == nil && c.ExactBytes > 0 {
		_, err = fmt.Fprintf(out, ", %s exact", quantity.Kilobytes(float64(c.ExactBytes)))
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "; 19 of 20 documents as the %d that were held out keep the limits\n", c.Documents)
	}
	return err
}

// printPrepared prints a line for each layer, and their totals.
func printPrepared(out io.Writer, r *prepare.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tmode\tactive\talways\trank\trecall\tfound\tprecision\taccuracy\tdense\texact\tpredict\t")
	percent := func(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }
	for l := range r.Layers {
		y := &r.Layers[l]
		q := y.HeldOut
		if q.Samples == 0 {
			q = y.Learned
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t", l, y.Mode, percent(1-r.Stats.Sparsity(l)))
		if y.Mode == prepared.Exact {
			fmt.Fprint(w, "-\t-\t-\t-\t-\t-\t")
		} else {
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t", y.AlwaysOn, y.Rank, percent(q.MassRecall), percent(q.Recall), percent(q.Precision), percent(q.Accuracy))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", quantity.Kilobytes(y.Dense), quantity.Kilobytes(y.Exact), quantity.Kilobytes(y.Predict))
	}
	dense, exact, predict := r.Bytes()
	fmt.Fprintf(w, "all\t\t%s\t\t\t\t\t\t\t%s\t%s\t%s\t\n", percent(1-r.Stats.Overall()), quantity.Kilobytes(dense), quantity.Kilobytes(exact), quantity.Kilobytes(predict))
	if err := w.Flush(); err != nil {
		return err
	}
	if q := r.Measured; q != nil {
		fmt.Fprintf(out, "held out: %d tokens, perplexity %.4f dense, %.4f predicted, KL divergence %.5f ± %.5f, same top token %s\n",
			q.Tokens, q.PerplexityDense, q.PerplexityPredict, q.KLDivergence, q.Error, percent(q.SameTop))
		if q.ExactKLDivergence > 0 {
			fmt.Fprintf(out, "quantised again: KL divergence %.5f of it without predictors\n", q.ExactKLDivergence)
		}
	}
	return nil
}

// advise prints advice about the result.
func advise(r *prepare.Report, o prepare.Options) {
	note := func(format string, args ...any) { fmt.Fprintf(screen.Err, "note: "+format+"\n", args...) }
	switch q := r.Measured; {
	case o.NoPredictors:
	case q == nil:
		note("nothing was measured, since the model's own text says nothing about quality: --sparse auto will run exact; give text with -f or --eval-file")
	case q.KLDivergence > model.AutoDivergence:
		note("the KL divergence is above %g: --sparse auto will run exact, --sparse predict runs the predictors", model.AutoDivergence)
	}
}
