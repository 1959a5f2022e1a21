package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// cardFlags choose a graphics card and what goes there.
func cardFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "device", Aliases: []string{"dev"}, Usage: "graphics card: none, a `NAME` or number of --list-devices, or lavapipe; default: the best there is", Sources: env("DEVICE")},
		&cli.BoolFlag{Name: "list-devices", Usage: "list graphics cards and exit"},
		&cli.FloatFlag{Name: "vram-budget", Usage: "`GIB` of the card's memory to use; default: what is free, less a reserve", Sources: env("VRAM_BUDGET")},
		statsFlag(),
		&cli.IntFlag{Name: "stream-tokens", Usage: "send the neurons that are not on the card to it for steps of at least `N` tokens of a prompt; 0: never; default: where that is faster than computing with them"},
		&cli.IntFlag{Name: "n-gpu-layers", Aliases: []string{"ngl"}, Usage: "put the last `N` layers whole on the card, as llama.cpp does; default: attention and hot neurons first", Sources: env("N_GPU_LAYERS")},
	}
}

// listDevices prints what --device may name.
func listDevices() error {
	all, err := vulkan.Devices()
	if errors.Is(err, vulkan.ErrNone) {
		fmt.Println(err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range all {
		note := ""
		if d.Lacks != "" {
			note = ": cannot be used, it " + d.Lacks
		} else if d.Kind == vulkan.CPU {
			note = ": only where it is named, as lavapipe"
		}
		fmt.Printf("%d  %s (%s, %.1f GiB, %s)%s\n", d.Index, d.Name, d.Kind, gib(d.Memory), d.Driver, note)
	}
	return nil
}

// chosenCard plans for the card that the flags name, or the best there is, and gibs of its memory, if not negative; nil where there is
// none, or nothing is to be put on it.
func chosenCard(ctx context.Context, c *cli.Command, f *gguf.File, o *engine.Options, stats *neuron.Stats, gibs float64) (*engine.Plan, error) {
	name := c.String("device")
	if name == vulkan.None {
		return nil, nil
	}
	info, err := vulkan.Chosen(name)
	if name == "" && err != nil { // nobody asked for a card
		if c.IsSet("vram-budget") || c.IsSet("n-gpu-layers") && c.Int("n-gpu-layers") > 0 {
			fmt.Fprintf(os.Stderr, "note: %v; the model is computed on the processor\n", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if gibs < 0 {
		gibs = gib(blueprint.Budget(info.Free))
		if c.IsSet("vram-budget") {
			gibs = c.Float("vram-budget")
		}
	}
	if !(gibs >= 0 && gibs <= 1<<20) {
		return nil, fmt.Errorf("--vram-budget %g is not a number of GiB", gibs)
	}
	budget := int64(gibs * (1 << 30))
	b, err := blueprint.Of(f, blueprint.Options{Context: o.Context, UBatch: o.UBatch, Outputs: o.Outputs, Sparse: o.Sparse, Activation: o.Activation, Law: blueprint.UsualLaw(), Stats: stats})
	if err != nil {
		return nil, err
	}
	m, _, err := thisMachine(ctx, false)
	if err != nil {
		return nil, err
	}
	on := machineWith(&m, info, &b)
	s := streaming(c, &m, info, &b, budget)
	return place(c, info, budget, &b, on, s)
}

// machineWith is m with one card.
func machineWith(m *measure.Machine, info vulkan.Info, b *blueprint.Blueprint) placement.Machine {
	on := m.Placement(b.RowBytes)
	card := placement.GPU{Name: info.Name, Read: on.Stream, Launch: blueprint.AssumedLaunch}
	on.HandOff = blueprint.AssumedHandOff
	if info.Kind == vulkan.CPU { // it is named to try the card's path, so it gets what a card would
		card.Read, card.Launch, on.HandOff = 10*on.Stream, 0, 0
	} else if k := measured(m, info); k != nil {
		card.Read, card.Launch, on.HandOff = k.Read, k.Launch, k.HandOff
	}
	on.GPUs = []placement.GPU{card}
	return on
}

// What computing with a weight and sending it take, where it was not measured: per core, multiplications and additions of a prompt's
// products a second, and bytes packed for the card a second. A chunk of rows is long enough for the bus's full speed, and a small share
// of the budget.
const (
	coreProducts   = 60e9
	corePacks      = 2e9
	largestChunk   = 32 << 20
	budgetOfChunks = 256
)

// streaming is when sending cold neurons to the card takes less time than computing with them.
func streaming(c *cli.Command, m *measure.Machine, info vulkan.Info, b *blueprint.Blueprint, budget int64) hybrid.Streaming {
	s := hybrid.Streaming{Bytes: min(largestChunk, budget/budgetOfChunks)}
	if c.IsSet("stream-tokens") {
		s.Tokens = max(0, c.Int("stream-tokens"))
		return s
	}
	k := measured(m, info)
	if k == nil || info.Kind == vulkan.CPU || !(k.Upload > 0) {
		return s
	}
	cores := float64(m.Cores)
	send := float64(b.RowBytes) / float64(b.RowElems) * (1/k.Upload + 1/(corePacks*cores)) // seconds a weight
	s.Tokens = int(math.Ceil(send * coreProducts * cores))
	return s
}

// measured is what is known of a card's speed, or nil.
func measured(m *measure.Machine, info vulkan.Info) *measure.Card {
	for i := range m.Cards {
		if k := &m.Cards[i]; k.Name == info.Name && k.Lacks == "" {
			return k
		}
	}
	return nil
}

// place puts the model on the card within budget.
func place(c *cli.Command, info vulkan.Info, budget int64, b *blueprint.Blueprint, on placement.Machine, s hybrid.Streaming) (*engine.Plan, error) {
	on.GPUs[0].Budget = budget
	solve := placement.Solve
	if c.IsSet("n-gpu-layers") {
		solve = func(m placement.Model, on placement.Machine) (placement.Plan, error) {
			return placement.Whole(m, on, c.Int("n-gpu-layers"))
		}
	}
	p, err := b.Places(on, []hybrid.Streaming{s}, solve)
	if err != nil {
		return nil, err
	}
	card := &engine.Plan{
		Cards:  []engine.Card{{Device: fmt.Sprint(info.Index), Budget: budget, Planned: p.VRAM[0], Stream: s}},
		Places: p.Places(),
		Notice: func(s string) { fmt.Fprintln(os.Stderr, "note:", s) },
	}
	used := false
	for _, y := range p.Layers {
		card.Bytes += y.VRAM
		used = used || y.Attention || y.Predictor || y.Hot > 0
	}
	if !used {
		if c.String("device") != "" || c.IsSet("vram-budget") {
			fmt.Fprintf(os.Stderr, "note: nothing of the model is worth its place within %.2f GiB of %s\n", gib(budget), info.Name)
		}
		return nil, nil
	}
	return card, nil
}

// A card that turns out to have less memory than it said is tried again with a smaller share of it, so many times; then the processor
// computes alone.
const (
	smallerTries = 3
	smaller      = 0.85
)

// loadEngine opens an engine with a progress bar, on the card that the flags choose.
func loadEngine(ctx context.Context, c *cli.Command, f *gguf.File, o engine.Options) (*engine.Engine, error) {
	stats, err := statsFor(c, f)
	if err != nil {
		return nil, err
	}
	if stats != nil {
		o.Order = stats.Order()
	}
	return withLess(func(gibs float64) (*engine.Plan, error) { return chosenCard(ctx, c, f, &o, stats, gibs) },
		func(card *engine.Plan) (*engine.Engine, error) {
			bar := newProgress("loading", unitBytes)
			defer bar.finish()
			o.Plan, o.Progress = card, untilCancelled(ctx, bar.set)
			return engine.Open(f, o)
		}, func(note string) { fmt.Fprintln(os.Stderr, "note:", note) })
}

// withLess opens an engine on the card that choose plans for, with less of its memory where that turns out to be too much, and at last
// without a card. choose is given the GiB to use, negative for what the flags say.
func withLess(choose func(gibs float64) (*engine.Plan, error), open func(*engine.Plan) (*engine.Engine, error), tell func(string)) (*engine.Engine, error) {
	gibs := -1.0
	for try := 0; ; try++ {
		card, err := choose(gibs)
		if err != nil {
			return nil, err
		}
		e, err := open(card)
		var full *vulkan.OutOfMemory
		var failed *hybrid.CardError
		switch {
		case card == nil || !errors.As(err, &failed):
			return e, err
		case errors.As(err, &full) && try < smallerTries:
			gibs = smaller * gib(card.Cards[0].Budget)
			tell(fmt.Sprintf("%v; trying with less", full))
		default:
			tell(fmt.Sprintf("%v; going on without it", failed))
			return open(nil)
		}
	}
}
