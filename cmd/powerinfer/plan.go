package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/outfile"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "say what of a model would lie where, and how fast that should be",
		Description: "No weights are loaded. The machine is this one, as doctor measures it, or described; so is the\nmodel. Speeds are those of memory alone: upper bounds.",
		Flags: append(modelFlags(),
			&cli.StringFlag{Name: "describe", Usage: "plan for `SHAPE[,KEY=VALUE…]` instead of a file: llama-70b,type=q4_0,active=0.1"},
			&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens; 0 is the model's own", Sources: env("CTX_SIZE")},
			batchFlag(), ubatchFlag(),
			deviceFlag(),
			budgetFlag(),
			streamFlag(),
			&cli.IntFlag{Name: "n-gpu-layers", Aliases: []string{"ngl"}, Usage: "place `N` whole layers as llama.cpp does, instead of neurons", Sources: env("N_GPU_LAYERS")},
			sparseFlag(),
			&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
			&cli.StringFlag{Name: "stats", Usage: "frequencies from the `FILE` that profile wrote, for a model that holds none"},
			&cli.FloatFlag{Name: "active", Value: blueprint.UsualLaw().Active, Usage: "`SHARE` of the neurons active for a token, of files that hold no frequencies"},
			&cli.FloatFlag{Name: "share80", Value: blueprint.UsualLaw().Share80, Usage: "`SHARE` of the neurons that makes 80 % of the activations, likewise"},
			&cli.StringFlag{Name: "machine", Usage: "a machine's `FILE` from doctor --json, or pc-high, pc-low, pc-high-cpu: those of the PowerInfer paper"},
			&cli.StringSliceFlag{Name: "card", Usage: "a described card of `GIB:GB/S` in the machine; may be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print the plan as JSON"},
			&cli.StringFlag{Name: "html", Usage: "write a report with a picture to `FILE`"},
			&cli.BoolFlag{Name: "published", Usage: "plan for the settings of the PowerInfer paper, beside its figures"},
		),
		Action: plan,
	}
}

func plan(ctx context.Context, c *cli.Command) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if c.Bool("published") {
		return publishedTable(os.Stdout)
	}
	if html := c.String("html"); html != "" {
		if err := outfile.Check(html); err != nil {
			return err
		}
	}
	b, err := planned(c)
	if err != nil {
		return err
	}
	on, stream, memory, err := planMachine(ctx, c, &b)
	if err != nil {
		return err
	}
	d, err := newDrawing(b, on, stream, memory, solver(c))
	if err != nil {
		return err
	}
	if html := c.String("html"); html != "" {
		if err := outfile.Write(html, func(f *outfile.File) error { return d.html(f) }); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "wrote", html)
	}
	if c.Bool("json") {
		return d.json(os.Stdout)
	}
	out := bufio.NewWriter(os.Stdout)
	if err := d.text(out); err != nil {
		return err
	}
	return out.Flush()
}

// planned is the model to plan for.
func planned(c *cli.Command) (blueprint.Blueprint, error) {
	ctxSize := c.Int("ctx-size")
	if ctxSize < 0 || ctxSize > 1<<30 {
		return blueprint.Blueprint{}, fmt.Errorf("--ctx-size %d is not a number from 0 to %d", ctxSize, 1<<30)
	}
	o := engine.Options{Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size")}
	for name, v := range map[string]int{"batch-size": o.Batch, "ubatch-size": o.UBatch} {
		if v < 0 || v > 1<<30 {
			return blueprint.Blueprint{}, fmt.Errorf("--%s %d is not a number from 0 to %d", name, v, 1<<30)
		}
	}
	step := o.LargestStep()
	if text := c.String("describe"); text != "" {
		if c.IsSet("model") {
			return blueprint.Blueprint{}, errors.New("-m and --describe both name a model; give one")
		}
		s, err := blueprint.Describe(text)
		if err != nil {
			return blueprint.Blueprint{}, err
		}
		if ctxSize == 0 {
			ctxSize = doctorContext
		}
		b := s.Blueprint(ctxSize)
		b.Step(step)
		return b, nil
	}
	mode, err := sparseMode(c)
	if err != nil {
		return blueprint.Blueprint{}, err
	}
	f, err := openModel(c)
	if err != nil {
		return blueprint.Blueprint{}, err
	}
	defer f.Close()
	of := blueprint.Options{
		Context: ctxSize, UBatch: step, Sparse: mode, Activation: c.String("activation"),
		Law: blueprint.Law{Active: c.Float("active"), Share80: c.Float("share80")},
	}
	if of.Stats, err = countedStats(c.String("stats")); err != nil {
		return blueprint.Blueprint{}, err
	}
	return blueprint.Of(f, of)
}

// countedStats reads what profile wrote; nil where no file is named.
func countedStats(path string) (*neuron.Stats, error) {
	if path == "" {
		return nil, nil
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, ok, err := prepare.StatsOf(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no statistics of neurons; powerinfer profile counts them", path)
	}
	return s, err
}

// planMachine is the machine to plan for, how each of its cards streams, and its memory in bytes.
func planMachine(ctx context.Context, c *cli.Command, b *blueprint.Blueprint) (on placement.Machine, stream []hybrid.Streaming, memory uint64, err error) {
	var m measure.Machine
	var known []*measure.Card // of each card; nil: nothing that streaming needs
	var infos []vulkan.Info   // of this machine's cards, which are the first
	switch name := c.String("machine"); {
	case strings.HasPrefix(name, "pc-"):
		on, memory, err = blueprint.PC(name)
	case name != "":
		if m, err = measure.Read(name); err == nil {
			on, memory = machineFor(&m, b), m.Memory
			for j := range m.Cards {
				if m.Cards[j].Usable() {
					known = append(known, &m.Cards[j])
				}
			}
		}
	default:
		all, why := vulkan.Devices()
		if m, err = thisMachine(ctx, all, false); err != nil {
			return on, nil, 0, err
		}
		infos, err = chosenCards(c, all, why)
		on, memory = machineWith(&m, infos, b), m.Memory
		for _, info := range infos {
			known = append(known, fast(&m, info))
		}
	}
	if err != nil {
		return on, nil, 0, err
	}
	for _, text := range c.StringSlice("card") {
		g, err := describedCard(text)
		if err != nil {
			return on, nil, 0, err
		}
		on.GPUs = append(on.GPUs, g)
		on.HandOff = max(on.HandOff, blueprint.AssumedHandOff)
	}
	if err := setBudgets(c, infos, &on); err != nil {
		return on, nil, 0, err
	}
	known = append(known, make([]*measure.Card, len(on.GPUs)-len(known))...)
	for j := range on.GPUs {
		on.GPUs[j].Overhead = b.Buffers
		stream = append(stream, streaming(c, &m, known[j], b, on.GPUs[j].Budget))
	}
	return on, stream, memory, nil
}

// describedCard reads GIB:GB/S.
func describedCard(text string) (placement.GPU, error) {
	size, read, ok := strings.Cut(text, ":")
	s, err1 := strconv.ParseFloat(size, 64)
	r, err2 := strconv.ParseFloat(read, 64)
	if !ok || err1 != nil || err2 != nil || !(s > 0 && s <= 1<<20) || !(r >= 1 && r <= 1e5) {
		return placement.GPU{}, fmt.Errorf("--card %.40q is not GIB:GB/S, as in 24:1008", text)
	}
	return placement.GPU{
		Name: fmt.Sprintf("card of %g GiB", s), Read: blueprint.AssumedCard * r * 1e9, Launch: blueprint.AssumedLaunch,
		Budget: blueprint.Budget(int64(s * (1 << 30))),
	}, nil
}

// setBudgets reads --vram-budget: one for all cards, or one for each. The first cards are those of infos, of which no more is used than is
// free: more would fail at load, or make the driver page.
func setBudgets(c *cli.Command, infos []vulkan.Info, on *placement.Machine) error {
	if !c.IsSet("vram-budget") {
		return nil
	}
	text := strings.Join(c.StringSlice("vram-budget"), ",")
	parts := strings.Split(text, ",")
	if len(on.GPUs) == 0 {
		return fmt.Errorf("--vram-budget %.40s: the machine has no card that can be used; describe one with --card GIB:GB/S or --machine", text)
	}
	if len(parts) != 1 && len(parts) != len(on.GPUs) {
		return fmt.Errorf("--vram-budget %.40s: %d budgets, and cards in use: %d", text, len(parts), len(on.GPUs))
	}
	for j := range on.GPUs {
		part := strings.TrimSpace(parts[min(j, len(parts)-1)])
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || !(v >= 0 && v <= 1<<20) || math.IsNaN(v) {
			return fmt.Errorf("--vram-budget %.40q is not a number of GiB", part)
		}
		g := &on.GPUs[j]
		if g.Budget = int64(v * (1 << 30)); j < len(infos) && g.Budget > infos[j].Free {
			g.Budget = infos[j].Free
			fmt.Fprintf(os.Stderr, "note: of %s %.2f GiB are free: no more is used\n", g.Name, gib(g.Budget))
		}
	}
	return nil
}
