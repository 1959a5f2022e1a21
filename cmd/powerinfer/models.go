package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/shortlist"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

func modelsCommand() *cli.Command {
	return &cli.Command{
		Name: "models", Usage: "list models to download by short names, and about how fast they are here",
		Description: fmt.Sprintf("Memory is that of the weights and of a context of %d tokens. Speeds are estimates from what a token\n"+
			"reads and from the bandwidth that powerinfer doctor measured, or an assumed one. A name with * is what\n"+
			"the family's name alone means; a quantisation may follow, as in qwen3:8b-q8_0.", shortlist.Context),
		Flags: []cli.Flag{
			flags.Device(), machineFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print them as one JSON array"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return printShorts(ctx, c)
		},
	}
}

// shortsMachine returns this machine, or the machine of --machine.
func shortsMachine(ctx context.Context, c *cli.Command) (m shortlist.Machine, err error) {
	if c.String("machine") == "" {
		memory, err := hw.ReadMemory()
		if err != nil {
			return m, err
		}
		if m.Free = int64(memory.Available); !planner.Kept() {
			return shortlist.Assumed(m.Free), nil
		}
	}
	o, err := flags.ReadPlanner(c)
	if err != nil {
		return m, err
	}
	if m.Machine, err = planMachine(ctx, c, &o); err == nil && m.Free == 0 {
		m.Free = int64(m.Memory)
	}
	return m, err
}

// printShorts lists the models that have short names.
func printShorts(ctx context.Context, c *cli.Command) error {
	m, err := shortsMachine(ctx, c)
	if err != nil {
		return err
	}
	h, err := modelname.Hub(c)
	if err != nil {
		return err
	}
	here, err := h.List()
	if err != nil {
		return err
	}
	var downloaded []string
	for _, l := range here {
		if l.Complete {
			downloaded = append(downloaded, l.Name, l.Repo)
		}
	}
	rows, err := m.Rows(downloaded)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return indented(rows)
	}
	if err := shortlist.Print(screen.Out, rows); err != nil {
		return err
	}
	screen.Note("* is what the family's name alone means, such as qwen3")
	screen.Note(m.Says())
	screen.Note("powerinfer chat NAME downloads a model and talks; powerinfer pull NAME downloads it")
	return nil
}
