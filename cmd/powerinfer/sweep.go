package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/sweep"
)

// usualSweepWindows is the default number of windows of text for each setting. With 40 documents or more, the bounds
// that 19 of 20 documents keep are narrow.
const usualSweepWindows = 40

func sweepCommand() *cli.Command {
	return &cli.Command{
		Name: "sweep", UsageText: `powerinfer sweep -m prepared.gguf -f text.txt -o folder`, Usage: "measure what leaving neurons out costs and gives, setting by setting",
		Description: "Settings are measured on a text that the model's predictors have not seen: divergence from\n" +
			"dense, perplexity, neurons and bytes of a token, and speed, in runs that take turns. The\n" +
			"results are a table, and in the folder of -o report.html, sweep.csv and sweep.json, with the\n" +
			"setting to use within --max-kld. The same command continues a sweep that was interrupted or\n" +
			"killed; more settings, rounds and tasks may be asked for in the same folder.\n" +
			"docs/evaluation.md says more.",
		Flags: slices.Concat(sweptFlags(), []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "text `FILE` to measure on; - is standard input"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FOLDER` for results, and for what was measured of a run that is not done"},
			&cli.StringSliceFlag{Name: "beside", Usage: "compare the settings with another `FILE` of the same vocabulary, as the same model in a smaller type, dense; may be repeated"},
			&cli.StringFlag{Name: "store", Usage: "write the model to `FILE`, with what each threshold of its predictors costs, so that run --max-kld can choose one"},
			&cli.StringFlag{Name: "modes", Usage: "modes of --sparse to measure, as in off,exact,predict; default: all that the model has"},
			&cli.StringFlag{Name: "thresholds", Usage: "logits from which predicted neurons are computed, as in -2,0,2; default: some around the file's own"},
			&cli.StringFlag{Name: "always-on", Usage: "shares of each layer's neurons, the hottest, computed for every token, as in 0.1,0.2"},
			&cli.StringFlag{Name: "activations", Usage: "activations to try in exact instead of the file's, as in fatrelu:0.05,fatrelu:0.1"},
			&cli.StringFlag{Name: "budgets", Usage: "`GIB` of a GPU's memory to use, as in 4,8,16; described machines are planned for with them, too"},
			&cli.BoolFlag{Name: "all", Usage: "measure every threshold with every share and every budget; default: each is varied by itself"},
			&cli.IntFlag{Name: "chunks", Value: usualSweepWindows, Usage: "windows of the text to read in each setting, of as many documents as have one; -1: all"},
			&cli.IntFlag{Name: "n-gen", Aliases: []string{"n"}, Value: 128, Usage: "tokens to generate in a timed run"},
			&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "timed runs of each setting; 0: speed is not measured"},
			&cli.StringSliceFlag{Name: "task", Usage: "score every setting on `NAME=FILE`, a task as eval has it; may be repeated"},
			&cli.BoolFlag{Name: "execute", Usage: "run the programs that the model writes for --task humaneval and mbpp, in a sandbox"},
			&cli.IntFlag{Name: "limit", Usage: "take `N` questions of each task only, those that eval --limit N draws; 0: all"},
			&cli.BoolFlag{Name: "no-layers", Usage: "do not measure each layer by itself, in a quarter of the text"},
			&cli.StringSliceFlag{Name: "machine", Usage: "expect speeds on a `MACHINE`: RAM[,GPU…] each as GIB:GB/S, as in 64:60,24:1008, or what plan --machine takes; may be repeated"},
			&cli.Float64Flag{Name: "max-kld", Value: model.UsualMaxKLD, Usage: "KL divergence from dense that the recommended setting may have, in nats a token", Sources: flags.Env("MAX_KLD")},
			&cli.Float64Flag{Name: "min-same-top", Usage: "least share of tokens whose likeliest successor the recommended setting must not change, as in 0.98"},
			&cli.BoolFlag{Name: "json", Usage: "print the results as JSON"},
			verboseFlag(),
		}),
		Action: runSweep,
	}
}

// sweptFlags are engineFlags without the flags that a sweep varies.
func sweptFlags() []cli.Flag {
	varied := []string{"sparse", "max-kld", "min-same-top", "sparse-threshold", "sparse-always-on", "vram-budget", "n-gpu-layers"}
	return slices.DeleteFunc(flags.Engine(), func(f cli.Flag) bool { return slices.Contains(varied, f.Names()[0]) })
}

func runSweep(ctx context.Context, c *cli.Command) error {
	if c.Bool("list-devices") {
		return listDevices()
	}
	o, err := sweepOptions(ctx, c)
	if err != nil {
		return err
	}
	bar := progress.New("sweep", progress.Time)
	o.Estimate = func(e sweep.Estimate) { screen.Note(expectedTime(e)) }
	o.Progress = func(what string, done, total time.Duration) {
		bar.Say(what)
		bar.Set(int64(done), int64(total))
	}
	defer saySame(ctx)()
	rep, err := sweep.Run(ctx, o)
	bar.Finish()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return errInterrupted
		}
		return err
	}
	if c.Bool("json") {
		return rep.JSON(screen.Out)
	}
	if err := rep.Table(screen.Out); err != nil {
		return err
	}
	fmt.Fprintln(screen.Err, "wrote", strings.Join(sweep.Files(&o), ", "))
	return nil
}

// saySame tells how to continue when ctx ends. stop cancels that.
func saySame(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { fmt.Fprintln(screen.Err, "interrupted; the same command goes on") })
}

// expectedTime returns a line about how long a sweep takes.
func expectedTime(e sweep.Estimate) string {
	var parts []string
	for _, p := range e.Parts {
		parts = append(parts, fmt.Sprintf("%s %s", p.What, quantity.Time(p.Time)))
	}
	line := fmt.Sprintf("this takes about %s: %s", quantity.Time(e.Whole()), strings.Join(parts, ", "))
	const large = 100 << 20
	if e.Disk > large {
		line += fmt.Sprintf("; and %.1f GiB of disk until it is done", quantity.GiB(e.Disk))
	}
	return line
}

// sweepOptions reads the flags.
func sweepOptions(ctx context.Context, c *cli.Command) (o sweep.Options, err error) {
	switch {
	case !c.IsSet("file"):
		return o, errors.New("give a text to measure on with -f FILE, one that the model's predictors have not seen")
	case c.String("output") == "":
		return o, errors.New("give a folder for the results with -o FOLDER")
	case c.Int("chunks") == 0 || c.Int("chunks") < -1:
		return o, fmt.Errorf("--chunks %d is neither a number of windows nor -1 for all", c.Int("chunks"))
	case c.Int("n-gen") < 1 || c.Int("n-gen") > 1<<20:
		return o, fmt.Errorf("--n-gen %d is not a number from 1 to %d", c.Int("n-gen"), 1<<20)
	case c.Int("repetitions") < 0 || c.Int("repetitions") > 1<<20:
		return o, fmt.Errorf("--repetitions %d is not a number from 0 to %d", c.Int("repetitions"), 1<<20)
	}
	if n := c.Int("limit"); n < 0 {
		return o, fmt.Errorf("--limit %d is negative", n)
	}
	path, err := flags.ModelPath(c)
	if err != nil {
		return o, err
	}
	so, err := flags.ReadSession(c, perplexityOutputs)
	if err != nil {
		return o, err
	}
	overrides, err := flags.ReadOverrides(c)
	if err != nil {
		return o, err
	}
	o = sweep.Options{
		Session: so, Folder: c.String("output"), Store: c.String("store"), Window: perplexityContext, Windows: max(0, c.Int("chunks")), Generate: c.Int("n-gen"), Rounds: c.Int("repetitions"),
		LeastSameTop: c.Float64("min-same-top"), Layers: !c.Bool("no-layers"), Note: screen.Note,
		Open: func() (*gguf.File, error) { return openWith(path, overrides) },
	}
	if o.MaxKLD, err = flags.ReadMaxKLD(c); err != nil {
		return o, err
	}
	if !(o.LeastSameTop >= 0 && o.LeastSameTop <= 1) {
		return o, fmt.Errorf("--min-same-top %g is not a share from 0 to 1", o.LeastSameTop)
	}
	if n := c.Int("ctx-size"); n > 0 {
		o.Window = n
	}
	for _, file := range c.StringSlice("beside") {
		o.Beside = append(o.Beside, sweep.Beside{Path: file, Open: func() (*gguf.File, error) { return openWith(file, overrides) }})
	}
	if o.Text, err = readText(c); err != nil {
		return o, err
	}
	if o.Grid, err = sweepGrid(c); err != nil {
		return o, err
	}
	if o.Tasks, err = sweepTasks(c); err != nil {
		return o, err
	}
	if o.Machines, err = sweepMachines(c); err != nil {
		return o, err
	}
	o.Session.Engine.Context = max(o.Window, o.Generate)
	if len(o.Tasks) > 0 {
		o.Session.Engine.Context = max(o.Session.Engine.Context, evalContext)
	}
	for _, t := range o.Tasks {
		if !t.Data.Kind.Generates() {
			continue
		}
		o.Session.Engine.Context = max(o.Session.Engine.Context, programContext(t.Data, sweep.ParallelQuestions, sweep.ProgramTokens))
		if o.Sandbox == nil {
			if o.Sandbox, err = evaluate.OpenSandbox(ctx, 0); err != nil {
				return o, err
			}
		}
	}
	o.Command = sweep.Command{
		Program: "powerinfer", Flags: givenFlags(c), Text: c.String("file"), Line: append([]string{"powerinfer"}, os.Args[1:]...), Commit: version(),
	}
	if path != "" {
		o.Command.Model = []string{"-m", path}
	}
	return o, nil
}

// givenFlags returns the given flags that hold for every setting.
func givenFlags(c *cli.Command) (given []string) {
	chosen := append(flags.Model(), &cli.IntFlag{Name: "ctx-size"})
	for _, f := range sweptFlags() {
		name := f.Names()[0]
		if !c.IsSet(name) || name != "override-kv" && slices.ContainsFunc(chosen, func(g cli.Flag) bool { return g.Names()[0] == name }) {
			continue
		}
		switch v := c.Value(name).(type) {
		case bool:
			given = append(given, fmt.Sprintf("--%s=%t", name, v))
		case []string:
			for _, text := range v {
				given = append(given, "--"+name, text)
			}
		default:
			given = append(given, "--"+name, fmt.Sprint(v))
		}
	}
	return given
}

// sweepGrid reads the settings to measure.
func sweepGrid(c *cli.Command) (g sweep.Grid, err error) {
	g.All = c.Bool("all")
	list := func(name string) []string {
		if !c.IsSet(name) {
			return nil
		}
		all := []string{}
		for _, part := range strings.Split(c.String(name), ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
		return all
	}
	g.Modes, g.Activations = list("modes"), list("activations")
	for _, f := range []struct {
		name        string
		least, most float64
		add         func(v float64)
	}{
		{"thresholds", -1e6, 1e6, func(v float64) { g.Thresholds = append(g.Thresholds, float32(v)) }},
		{"always-on", 0, 1, func(v float64) { g.AlwaysOn = append(g.AlwaysOn, v) }},
		{"budgets", 0, flags.MostBudget, func(v float64) { g.Budgets = append(g.Budgets, int64(v*(1<<30))) }},
	} {
		texts := list(f.name)
		if texts != nil { // an empty list counts as given
			g.Thresholds, g.AlwaysOn = notNil(g.Thresholds, f.name == "thresholds"), notNil(g.AlwaysOn, f.name == "always-on")
		}
		for _, text := range texts {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v >= f.least && v <= f.most) {
				return g, fmt.Errorf("--%s %.40q is not a number from %g to %g", f.name, text, f.least, f.most)
			}
			f.add(v)
		}
	}
	return g, nil
}

// notNil returns list, or an empty list instead of nil if it was given.
func notNil[T any](list []T, given bool) []T {
	if list == nil && given {
		return []T{}
	}
	return list
}

// sweepTasks reads the tasks of --task.
func sweepTasks(c *cli.Command) (all []sweep.Task, err error) {
	for _, text := range c.StringSlice("task") {
		name, file, ok := strings.Cut(text, "=")
		if !ok || !slices.Contains(evaluate.TaskNames(), name) {
			return nil, fmt.Errorf("--task %.60q is not NAME=FILE; tasks are %s", text, strings.Join(evaluate.TaskNames(), ", "))
		}
		data, err := evaluate.ReadTask(name, file, "")
		if err != nil {
			return nil, err
		}
		if data.Kind.Generates() && !c.Bool("execute") {
			return nil, fmt.Errorf("--task %s: the programs that the model writes are scored by running them, kept in, which needs --execute", name)
		}
		if n := c.Int("limit"); n > 0 {
			data.Draw(n, evaluate.TaskSeed)
		}
		all = append(all, sweep.Task{Name: name, File: file, Data: data})
	}
	return all, nil
}

// sweepMachines reads the machines of --machine.
func sweepMachines(c *cli.Command) (all []sweep.Machine, err error) {
	for _, text := range c.StringSlice("machine") {
		ram, gpus, _ := strings.Cut(text, ",")
		m, err := describedMachine(ram)
		if err != nil {
			return nil, err
		}
		for gpu := range strings.SplitSeq(gpus, ",") {
			if gpu == "" {
				continue
			}
			if err := describedGPU(m, gpu); err != nil {
				return nil, fmt.Errorf("--machine %.60q: %w", text, err)
			}
		}
		all = append(all, sweep.Machine{Name: text, Machine: m})
	}
	return all, nil
}
