// Command gpucheck tries this engine on this machine's GPU: what is installed, what the GPU reaches, whether every verb
// computes what it should, how near the kernels come to the GPU's memory, and what decoding reaches at several budgets
// of video memory. It needs no network and no model: it writes its own. Each part ends within minutes and leaves its
// section of report.md.
//
//	gpucheck --list
//	gpucheck --part machine,kernels --out results
//
// `make gpu-check` bundles it with the compiled tests; docs/gpu-check.md tells how to read the report.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name: "gpucheck", Usage: "try the engine on this machine's GPU", DisableSliceFlagSeparator: true,
		Flags: append(checkup.Flags("gpu-check-results"),
			&cli.StringFlag{Name: "device", Usage: "`NAME` or number of the GPU, or lavapipe; default: the best there is"},
			&cli.StringFlag{Name: "models", Usage: "`FOLDER` that models are written to, of up to 6 GB each; default: one below --out"},
			&cli.StringFlag{Name: "tests", Usage: "compiled tests of the device: `FILE`; without it nothing is verified"},
			&cli.StringFlag{Name: "llama-bench", Usage: "llama.cpp's `BINARY` of that name, built for this GPU, to compare with"},
			&cli.StringFlag{Name: "engine", Usage: "the engine's program: `FILE`; parts of --quarter time it"},
			&cli.BoolFlag{Name: "quarter", Usage: "other parts, for a machine that is lent for a quarter of an hour: what matters most first, twelve minutes in all"},
			&cli.IntFlag{Name: "layers", Usage: "`N` layers of the models; default: as many as 3 GB hold"},
			&cli.StringFlag{Name: "only", Usage: "of the kernels, those whose type and name match a `REGEXP`: 'Q4_0.*down'"},
			&cli.BoolFlag{Name: "tiny", Usage: "shapes that a software device computes in seconds: to try the check itself"},
		),
		Action: run,
	}
}

// check holds the values of the flags.
type check struct {
	device  string // as vulkan.Options has it
	info    vulkan.Info
	out     string // folder of results
	models  string // folder of models
	tests   string // compiled tests; empty: none
	engine  string // the engine's program; empty: none
	llama   string // llama-bench; empty: none
	layers  int    // 0: as many as fit modelBytes
	only    *regexp.Regexp
	quarter bool
	tiny    bool
}

// part is a checkup.Part that does not know the GPU yet.
type part struct {
	name, says string
	seconds    int // that it takes on an H200 with 16 cores, estimated; 0: unknown
	run        func(ctx context.Context, c *check, w *checkup.Report) error
}

// allParts returns the parts of a run without --quarter.
func allParts() []part {
	all := []part{
		{name: "machine", says: "what is installed, and what RAM and GPU reach", run: machine},
		{name: "verbs", says: "every verb against its definition, and whole models", run: verbs},
		{name: "kernels", says: "products, attention and sparse layers against the GPU's memory", run: kernels},
		{name: "prompts", says: "products of many tokens in each way that the GPU has", run: prompts},
	}
	for _, m := range shapes() {
		all = append(all, part{name: m.name, says: "decoding with budgets from nothing to the whole model, " + m.says, run: m.decode})
	}
	return all
}

// parts returns the parts of the check. Without a GPU only the first has something to check.
func (c *check) parts(noGPU error) []checkup.Part {
	list := allParts()
	if c.quarter {
		list = quarterParts()
	}
	var all []checkup.Part
	for i, p := range list {
		usual := time.Duration(p.seconds) * time.Second
		limit := quarterSlack * usual
		if c.tiny { // the estimates are for another machine
			limit = 0
		}
		all = append(all, checkup.Part{Name: p.name, Says: p.says, Usual: usual, Limit: limit, Skip: noGPU != nil && i > 0, Run: func(ctx context.Context, w *checkup.Report) error {
			before := vulkan.Counted()
			err := p.run(ctx, c, w)
			if errors.Is(err, errCut) {
				w.Say("Cut off at the time limit.")
				err = nil
			}
			now := vulkan.Counted()
			now.Devices -= before.Devices
			w.Say("This process has %v.", now)
			return err
		}})
	}
	return all
}

func run(ctx context.Context, f *cli.Command) error {
	c := &check{
		device: f.String("device"), out: f.String("out"), models: f.String("models"), tests: f.String("tests"), llama: f.String("llama-bench"),
		engine: f.String("engine"), quarter: f.Bool("quarter"), layers: f.Int("layers"), tiny: f.Bool("tiny"),
	}
	info, noGPU := vulkan.Chosen(c.device)
	c.info = info
	all := &checkup.Check{Title: "GPU check: no GPU", Parts: c.parts(noGPU)}
	if c.quarter && !c.tiny {
		all.Total = quarterTotal
	}
	if noGPU == nil {
		all.Title, all.Details = "GPU check: "+info.Name, info.Driver
	}
	if f.Bool("list") {
		all.List()
		return nil
	}
	if err := all.Configure(f); err != nil {
		return err
	}
	if c.models == "" {
		c.models = filepath.Join(c.out, "models")
	}
	if c.layers < 0 || c.layers > 1000 {
		return fmt.Errorf("--layers %d is not a number from 0 to 1000", c.layers)
	}
	var err error
	if c.only, err = regexp.Compile(f.String("only")); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	err = all.Run(ctx)
	if noGPU == nil {
		return err
	}
	fmt.Printf("\n%v: nothing but the machine could be looked at.\n", noGPU)
	if c.device == "" && errors.Is(noGPU, vulkan.ErrNone) {
		return err
	}
	return errors.Join(err, noGPU)
}

// open opens the GPU with nothing on it.
func (c *check) open() (*vulkan.Device, error) { return c.openFor(vulkan.Best) }

// openFor opens it to compute prompts in one way.
func (c *check) openFor(long vulkan.Arithmetic) (*vulkan.Device, error) {
	return vulkan.Open(vulkan.Options{Device: strconv.Itoa(c.info.Index), Cache: filepath.Join(c.out, "pipelines"), Long: long})
}

// machineFile keeps what part machine measured, for the others.
func (c *check) machineFile() string { return filepath.Join(c.out, "machine.json") }

// measured returns the machine with only the chosen GPU, as part machine measured it, or else as measured now.
func (c *check) measured(ctx context.Context) (measure.Machine, error) {
	return measure.Of(ctx, c.machineFile(), c.found(), nil)
}

func (c *check) found() []measure.Found {
	id := measure.ID{Name: c.info.Name, Driver: c.info.Driver, UUID: c.info.UUID, Memory: c.info.Memory, Software: c.info.Kind == vulkan.CPU}
	return []measure.Found{{ID: id, Open: func() (measure.Device, error) { return c.open() }}}
}
