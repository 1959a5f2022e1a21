package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuronreport"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
)

func profileCommand() *cli.Command {
	return &cli.Command{
		Name: "profile", UsageText: `powerinfer profile model.gguf -f text.txt -o statistics.gguf`, Usage: "count how often each neuron of a ReLU model is active, or each expert used",
		Description: `Counts on a text for how many tokens each neuron is active, in a model with experts how
many use each expert, how many use it again some tokens later, and, where the experts'
activation leaves zeros, for how many each neuron inside them is active. Uses are counted in
each file of -f apart, so that "inspect --neurons" can compare them.

--sparse threshold counts, of a model of SiLU or GELU that "prepare --sparse threshold" gave
thresholds, the neurons that pass those of its setting within --max-kld and --min-same-top. Run
and plan with --stats then know which are hot.`,
		Flags: append(calibrationFlags(), append(flags.Bound(),
			&cli.BoolFlag{Name: "measure", Usage: "also measure what leaving experts out costs, so that --stats gives it to --max-kld"},
			&cli.StringFlag{Name: "sparse", Usage: "`MODE` threshold: count the neurons that pass the file's thresholds of magnitude"})...),
		Action: profileModel,
	}
}

func profileModel(ctx context.Context, c *cli.Command) error {
	o, f, err := calibrationOptions(c, gguf.StatisticsKind())
	if err != nil {
		return err
	}
	defer f.Close()
	switch mode := c.String("sparse"); mode {
	case "":
	case model.Threshold.String():
		o.Thresholds = true
		if o.Bound, err = flags.ReadBound(c); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--sparse %q: threshold is what can be counted by; leave it out for a model whose activation leaves zeros", mode)
	}
	o.Measure = c.Bool("measure")
	bars := newBars(&o)
	defer sayResume(ctx)()
	rep, err := prepare.Profile(ctx, f, o)
	bars.finish()
	if err != nil {
		return err
	}
	p, err := countedReport(f.Path, rep)
	if err != nil {
		return err
	}
	if err := p.Table(screen.Out); err != nil {
		return err
	}
	if rep.Curve != nil {
		bound, err := flags.ReadBound(c)
		if err != nil {
			return err
		}
		if !bound.IsSet() {
			bound.KLD = model.UsualMaxKLD
		}
		if err := printCurve(screen.Out, rep.Curve, bound); err != nil {
			return err
		}
	}
	fmt.Fprintln(screen.Err, "wrote", o.Out)
	return nil
}

// countedReport returns the report of a run's counts of neurons or experts.
func countedReport(name string, rep *prepare.Report) (*neuronreport.Report, error) {
	if rep.Experts != nil {
		return neuronreport.NewExperts(name, rep.Experts)
	}
	return neuronreport.New(name, rep.Stats)
}
