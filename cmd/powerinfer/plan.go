package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/diagnosis"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/planreport"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", UsageText: `powerinfer plan -m model.gguf
powerinfer plan -m model.gguf --gpu 24:1008 --vram-budget 8`, Usage: "show where a model's parts would be stored, and how fast it should be",
		Description: "No weights are loaded. The machine is this one, as doctor measures it, or described; so is the\nmodel. Speeds are estimates that count memory alone.",
		Flags: append(slices.Concat(flags.Model(), flags.Tensors(), flags.Tower()),
			&cli.StringFlag{Name: "describe", Usage: "plan for `SHAPE[,KEY=VALUE…]` instead of a file: llama-70b,type=q4_0,active=0.1"},
			&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens; 0 is the model's own", Sources: flags.Env("CTX_SIZE")},
			flags.Batch(), flags.UBatch(), flags.CacheKeys(), flags.CacheValues(), flags.WholeCache(), flags.Experts(),
			flags.Device(),
			flags.VRAM(), flags.RAM(),
			flags.Stream(),
			flags.KVInRAM(),
			&cli.StringFlag{Name: "n-gpu-layers", Aliases: []string{"ngl"}, Usage: "place `N` whole layers, or all, as llama.cpp does, instead of neurons", Sources: flags.Env("N_GPU_LAYERS")},
			flags.Sparse(), flags.MaxKLD(), flags.LeastSameTop(), flags.LeaveOut(), flags.DraftType(), flags.MostDrafts(),
			&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
			&cli.StringFlag{Name: "stats", Usage: "frequencies, or uses of experts, from the `FILE` that profile wrote, for a model that holds none"},
			&cli.FloatFlag{Name: "active", Value: modelcost.UsualLaw().Active, Usage: "`SHARE` of the neurons active for a token, of files that hold no frequencies"},
			&cli.FloatFlag{Name: "share80", Value: modelcost.UsualLaw().Share80, Usage: "`SHARE` of the neurons that makes 80 % of the activations, likewise"},
			machineFlag(),
			&cli.FloatFlag{Name: "ssd", Usage: "the machine's SSD is described by the `GB/S` that it reads, from which experts and neurons come that RAM has no room for; default: as measured, else 3"},
			&cli.StringSliceFlag{Name: "gpu", Aliases: []string{"card"}, Usage: "a described GPU of `GIB:GB/S` in the machine; may be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print the plan as JSON"},
			&cli.StringFlag{Name: "html", Usage: "write a report with a picture to `FILE`"},
			&cli.BoolFlag{Name: "published", Usage: "plan for the settings of the PowerInfer paper, beside its figures"},
			&cli.BoolFlag{Name: "published-experts", Usage: "plan for published models with experts, or the one of --describe, on described machines, as Markdown"},
		),
		Action: plan,
	}
}

// machineFlag names another machine to plan for.
func machineFlag() cli.Flag {
	return &cli.StringFlag{Name: "machine", Usage: "a machine's `FILE` from doctor --json, its RAM as 64:60 (GiB and GB/s), or pc-high, pc-low, pc-high-cpu: those of the PowerInfer paper"}
}

func plan(ctx context.Context, c *cli.Command) error {
	if c.Bool("published-experts") {
		return planreport.PublishedExperts(screen.Out, c.String("describe"))
	}
	if c.Bool("published") {
		return planreport.Published(screen.Out)
	}
	if html := c.String("html"); html != "" {
		if err := atomicfile.Check(html, planKind()); err != nil {
			return err
		}
	}
	o, err := flags.ReadPlanner(c)
	if err != nil {
		return err
	}
	cost, path, close, err := planned(c)
	defer close()
	if err != nil {
		return err
	}
	m, err := planMachine(ctx, c, &o)
	if err != nil {
		return err
	}
	if err := planSSD(c, m); err != nil {
		return err
	}
	another := path == "" || c.IsSet("ssd") || c.IsSet("machine") || flags.IsDemo(c) // disk than this machine's
	known := another || m.KnowDisk(path)
	p, err := planSteps(c, cost, m, o)
	if err != nil {
		return err
	}
	d, err := planreport.New(p)
	if err == nil && d.OnDisk() && !known {
		d, err = withDisk(ctx, d, p, path)
	}
	if err != nil {
		return err
	}
	if d.Tower, err = plannedTower(c, m); err != nil {
		return err
	}
	if html := c.String("html"); html != "" {
		if err := atomicfile.Write(html, planKind(), func(f *atomicfile.File) error {
			out := bufio.NewWriter(f)
			if err := d.HTML(out); err != nil {
				return err
			}
			return out.Flush()
		}); err != nil {
			return err
		}
		fmt.Fprintln(screen.Err, "wrote", html)
	}
	if c.Bool("json") {
		return d.JSON(screen.Out)
	}
	out := bufio.NewWriter(screen.Out)
	if err := d.Text(out); err != nil {
		return err
	}
	return out.Flush()
}

// planned returns the cost of the model to plan for as a function of its steps' UBatch, and the path of its file; empty:
// it is described. close closes the file once the plan is made.
func planned(c *cli.Command) (cost func(ubatch int) (modelcost.Cost, error), path string, close func(), err error) {
	close = func() {}
	ctxSize := c.Int("ctx-size")
	if ctxSize < 0 || ctxSize > 1<<30 {
		return nil, "", close, fmt.Errorf("--ctx-size %d is not a number from 0 to %d", ctxSize, 1<<30)
	}
	o := engine.Options{Limits: engine.Limits{Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size")}}
	for name, v := range map[string]int{"batch-size": o.Batch, "ubatch-size": o.UBatch} {
		if v < 0 || v > 1<<30 {
			return nil, "", close, fmt.Errorf("--%s %d is not a number from 0 to %d", name, v, 1<<30)
		}
	}
	types, err := flags.ReadCacheTypes(c)
	if err != nil {
		return nil, "", close, err
	}
	if flags.DraftsBy(c, flags.DraftSimple) {
		return nil, "", close, fmt.Errorf("--spec-type %s: a draft model takes memory of its own, which this plan does not count; leave it out, and plan for it alone with -m", flags.DraftSimple)
	}
	drafts, err := flags.ReadDrafts(c)
	if err != nil {
		return nil, "", close, err
	}
	o.Drafts.Most, o.Drafts.Further = max(0, drafts), flags.DraftsBy(c, flags.DraftMTP)
	largest := func(ubatch int) int {
		with := o
		with.UBatch = ubatch
		return with.LargestStep()
	}
	if text := c.String("describe"); text != "" {
		if c.IsSet("model") {
			return nil, "", close, errors.New("-m and --describe both name a model; give one")
		}
		if o.GuessesFurther() {
			return nil, "", close, fmt.Errorf("--spec-type %s: a model that is described has no layer for multi-token prediction; name a file with -m", flags.DraftMTP)
		}
		if ctxSize == 0 {
			ctxSize = diagnosis.Context
		}
		of := modelcost.Options{Context: ctxSize, Drafts: o.DraftRows(), CacheTypes: types}
		return func(ubatch int) (modelcost.Cost, error) {
			of.UBatch = largest(ubatch)
			return modelcost.Described(text, of)
		}, "", close, nil
	}
	mode, err := flags.ReadSparse(c)
	if err != nil {
		return nil, "", close, err
	}
	bound, err := flags.ReadBound(c)
	if err != nil {
		return nil, "", close, err
	}
	skip, err := flags.ReadLeaveOut(c, bound)
	if err != nil {
		return nil, "", close, err
	}
	f, err := openModel(c)
	if err != nil {
		return nil, "", close, err
	}
	var head *gguf.File
	close = func() {
		f.Close()
		if head != nil {
			head.Close()
		}
	}
	of := modelcost.Options{
		Context: ctxSize, Drafts: o.DraftRows(), Further: o.GuessesFurther(), Neurons: model.Neurons{Sparse: mode, Bound: bound, Skip: skip, Activation: c.String("activation")}, CacheTypes: types, WholeCache: c.Bool("swa-full"),
		Law: modelcost.Law{Active: c.Float("active"), Share80: c.Float("share80")},
	}
	so := session.Options{Engine: o}
	if so.Draft, _, err = flags.ReadDraftModel(c); err != nil {
		return nil, "", close, err
	}
	if head = so.OpenHeadBeside(f); head != nil {
		of.Head, of.Further = head, true
	}
	if of.Further && head == nil {
		config, err := model.ReadConfig(f, of.Activation)
		if err == nil {
			err = config.CanGuessFurther()
		}
		if err != nil {
			return nil, "", close, fmt.Errorf("--spec-type %s: %s: %w", flags.DraftMTP, f.Path, err)
		}
	}
	if path := c.String("stats"); path != "" {
		if of.Stats, err = session.TakeStatistics(f, path, of.Activation); err != nil {
			return nil, "", close, err
		}
	}
	return func(ubatch int) (modelcost.Cost, error) {
		of.UBatch = largest(ubatch)
		return modelcost.Of(f, of)
	}, f.Path, close, nil
}

// planSteps returns a planner for a model with steps as long as the engine takes them.
func planSteps(c *cli.Command, cost func(ubatch int) (modelcost.Cost, error), m *planner.Machine, o planner.Options) (*planner.Planner, error) {
	budget, err := flags.ReadRAM(c)
	if err != nil {
		return nil, err
	}
	e := engine.Options{Limits: engine.Limits{Batch: c.Int("batch-size")}}
	e.RAM = budget
	if c.IsSet("ubatch-size") {
		e.UBatch = c.Int("ubatch-size")
	}
	return session.PlanOn(m, e, o, cost)
}

// planSSD adds the described SSD, if any, to m.
func planSSD(c *cli.Command, m *planner.Machine) error {
	if !c.IsSet("ssd") {
		return nil
	}
	speed := c.Float("ssd")
	if !(speed >= 0.01 && speed <= 1e3) {
		return fmt.Errorf("--ssd %g is not a number of GB/s, as in 7", speed)
	}
	m.AddSSD(speed * 1e9)
	return nil
}

// withDisk plans d again with the speed of the disk of the file at path. Measuring takes some seconds, once.
func withDisk(ctx context.Context, d *planreport.Report, p *planner.Planner, path string) (*planreport.Report, error) {
	bar := progress.New("measuring the disk", progress.Time)
	err := p.Machine().MeasureDisk(ctx, path, bar.Set)
	bar.Finish()
	if err == nil {
		return planreport.New(p.Anew())
	}
	if ctx.Err() != nil {
		return nil, err
	}
	screen.Note(fmt.Sprintf("the disk could not be measured: %v", err))
	return d, nil
}

// planMachine returns the machine to plan for.
func planMachine(ctx context.Context, c *cli.Command, o *planner.Options) (*planner.Machine, error) {
	var m *planner.Machine
	var why, err error // why there is no GPU
	if name := c.String("machine"); name != "" {
		m, err = describedMachine(name)
	} else {
		bar := progress.New("measuring", progress.Time)
		o.Measuring = bar.Set
		m, why, err = planner.This(ctx, o)
		bar.Finish()
	}
	if err != nil {
		return nil, err
	}
	for _, text := range c.StringSlice("gpu") {
		if err := describedGPU(m, text); err != nil {
			return nil, err
		}
	}
	if m.GPUs() > 0 {
		return m, nil
	}
	reason := "the machine has no GPU that can be used"
	if why != nil {
		reason = why.Error()
	}
	switch {
	case o.VRAM != nil:
		return nil, fmt.Errorf("--vram-budget: %s; describe one with --gpu GIB:GB/S or --machine", reason)
	case o.Layers != nil && *o.Layers != 0:
		return nil, fmt.Errorf("-ngl %d: %s; describe one with --gpu GIB:GB/S or --machine", *o.Layers, reason)
	}
	return m, nil
}

// describedMachine returns the machine that --machine describes.
func describedMachine(name string) (*planner.Machine, error) {
	if strings.HasPrefix(name, "pc-") {
		return planner.PC(name)
	}
	if m := describedRAM(name); m != nil {
		return m, nil
	}
	figures, err := measure.Read(name)
	if err != nil {
		return nil, fmt.Errorf("--machine: %w; give RAM as GIB:GB/S, such as 64:60, a machine such as pc-high, or a file that doctor --json wrote", err)
	}
	return planner.Measured(figures), nil
}

// describedRAM returns the machine of GIB:GB/S, or nil for other texts, which name files.
func describedRAM(text string) *planner.Machine {
	s, r, ok := sizeAndSpeed(text)
	if !ok {
		return nil
	}
	return planner.Described(int64(s*(1<<30)), r*1e9)
}

// sizeAndSpeed reads GIB:GB/S.
func sizeAndSpeed(text string) (size, speed float64, ok bool) {
	a, b, ok := strings.Cut(text, ":")
	size, err1 := strconv.ParseFloat(a, 64)
	speed, err2 := strconv.ParseFloat(b, 64)
	return size, speed, ok && err1 == nil && err2 == nil && size > 0 && size <= 1<<20 && speed >= 1 && speed <= 1e5
}

// describedGPU adds a GPU of GIB:GB/S to m.
func describedGPU(m *planner.Machine, text string) error {
	s, r, ok := sizeAndSpeed(text)
	if !ok {
		return fmt.Errorf("--gpu %.40q is not GIB:GB/S, as in 24:1008", text)
	}
	m.Add(fmt.Sprintf("GPU of %g GiB", s), int64(s*(1<<30)), r*1e9)
	return nil
}

// planKind is the kind of the pages that plan writes.
func planKind() atomicfile.Kind {
	return atomicfile.Matches("a page that powerinfer plan wrote", `(?s)^<!doctype html>.*<title>Plan for `).Public()
}
