package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/neuronreport"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
)

func profileCommand() *cli.Command {
	return &cli.Command{
		Name: "profile", Usage: "count how often each neuron of a ReLU model is active", ArgsUsage: "[MODEL]",
		Flags:  calibrationFlags(),
		Action: profileModel,
	}
}

func profileModel(ctx context.Context, c *cli.Command) error {
	o, f, err := calibrationOptions(c)
	if err != nil {
		return err
	}
	defer f.Close()
	bars := newBars(&o)
	defer sayResume(ctx)()
	rep, err := prepare.Profile(ctx, f, o)
	bars.finish()
	if err != nil {
		return err
	}
	p, err := neuronreport.New(f.Path, rep.Stats)
	if err != nil {
		return err
	}
	if err := p.Table(os.Stdout); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wrote", o.Out)
	return nil
}
