package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

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

// cardFlags choose graphics cards and what goes there.
func cardFlags() []cli.Flag {
	return []cli.Flag{
		deviceFlag(),
		&cli.BoolFlag{Name: "list-devices", Usage: "list graphics cards and exit"},
		budgetFlag(),
		statsFlag(),
		streamFlag(),
		&cli.IntFlag{Name: "n-gpu-layers", Aliases: []string{"ngl"}, Usage: "put the last `N` layers whole on cards, as llama.cpp does; default: attention and hot neurons first", Sources: env("N_GPU_LAYERS")},
		&cli.BoolFlag{Name: "read-ahead", HideDefault: true, Usage: "read the neurons that a card seems to leave to the processor before it is their turn; default: where the plan has the card wait for them"},
	}
}

func deviceFlag() cli.Flag {
	return &cli.StringFlag{Name: "device", Aliases: []string{"dev"}, Usage: "graphics cards: none, `NAMES` or numbers of --list-devices as in 0,1, or lavapipe; default: all cards, or the best of other devices", Sources: env("DEVICE")}
}

func budgetFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "vram-budget", Usage: "`GIB` of a card's memory to use, default what is free less a reserve; one for all cards or one for each: 8,11", Sources: env("VRAM_BUDGET")}
}

func streamFlag() cli.Flag {
	return &cli.IntFlag{Name: "stream-tokens", Usage: "send the neurons that are not on a card to it for steps of at least `N` tokens of a prompt; 0: never; default: where that is faster than computing with them"}
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
	usual := vulkan.Usual(all)
	for _, d := range all {
		note := ""
		switch {
		case d.Lacks != "":
			note = ": cannot be used, it " + d.Lacks
		case d.Kind == vulkan.CPU:
			note = ": only where it is named, as lavapipe"
		case !slices.Contains(usual, d):
			note = ": only where it is named"
		}
		fmt.Printf("%d  %s (%s, %.1f GiB, %s)%s\n", d.Index, d.Name, d.Kind, gib(d.Memory), d.Driver, note)
	}
	return nil
}

// chosenCards are those of all cards that --device names, or the usual ones; none where there are none, for which why says a reason, and
// nobody asked.
func chosenCards(c *cli.Command, all []vulkan.Info, why error) ([]vulkan.Info, error) {
	list := c.String("device")
	if list == vulkan.None {
		return nil, nil
	}
	infos, err := []vulkan.Info(nil), why
	if err == nil {
		infos, err = vulkan.ChooseAll(all, list)
	}
	if list == "" && err != nil {
		if c.IsSet("vram-budget") || c.IsSet("n-gpu-layers") && c.Int("n-gpu-layers") > 0 {
			fmt.Fprintf(os.Stderr, "note: %v; the model is computed on the processor\n", err)
		}
		return nil, nil
	}
	return infos, err
}

// planner plans what of a model goes to which cards.
type planner struct {
	c       *cli.Command
	cards   []vulkan.Info
	failed  []bool // [cards] nothing more goes there
	b       blueprint.Blueprint
	machine measure.Machine
}

// newPlanner is for the cards that the flags choose; nil where there are none.
func newPlanner(ctx context.Context, c *cli.Command, f *gguf.File, o *engine.Options, stats *neuron.Stats) (*planner, error) {
	if c.String("device") == vulkan.None {
		return nil, nil
	}
	all, why := vulkan.Devices() // once: drivers take their time
	p := &planner{c: c}
	var err error
	if p.cards, err = chosenCards(c, all, why); err != nil || len(p.cards) == 0 {
		return nil, err
	}
	p.failed = make([]bool, len(p.cards))
	if p.b, err = blueprint.Of(f, blueprint.Options{Context: o.Context, UBatch: o.LargestStep(), Outputs: o.Outputs, Sparse: o.Sparse, Activation: o.Activation, Law: blueprint.UsualLaw(), Stats: stats}); err != nil {
		return nil, err
	}
	p.machine, err = thisMachine(ctx, all, false)
	return p, err
}

// plan is for a share of what the flags say of the cards' memory; nil where nothing is to be put there.
func (p *planner) plan(share float64) (*engine.Plan, error) {
	if p == nil {
		return nil, nil
	}
	on := machineWith(&p.machine, p.cards, &p.b)
	if err := setBudgets(p.c, p.cards, &on); err != nil {
		return nil, err
	}
	var s []hybrid.Streaming
	for j, info := range p.cards {
		g := &on.GPUs[j]
		if g.Budget = int64(share * float64(g.Budget)); p.failed[j] {
			g.Budget = 0
		}
		s = append(s, streaming(p.c, &p.machine, fast(&p.machine, info), &p.b, g.Budget))
	}
	plan, used, err := p.place(on, s)
	if plan != nil {
		plan.Rest = func(card int) *engine.Plan {
			p.failed[used[card]] = true
			rest, _ := p.plan(share) // the processor can always go on
			return rest
		}
	}
	return plan, err
}

// machineWith is m with cards, and as much of each one's memory as is used when nobody says how much.
func machineWith(m *measure.Machine, infos []vulkan.Info, b *blueprint.Blueprint) placement.Machine {
	on := m.Placement(b.RowBytes)
	on.GPUs, on.HandOff = nil, 0
	for _, info := range infos {
		card := placement.GPU{Name: info.Name, Read: on.Stream, Launch: blueprint.AssumedLaunch, Budget: blueprint.Budget(info.Free), Overhead: b.Buffers}
		handOff := blueprint.AssumedHandOff
		if info.Kind == vulkan.CPU { // it is named to try the card's path, so it gets what a card would
			card.Read, card.Launch, handOff = 10*on.Stream, 0, 0
		} else if k := measured(m, info); k != nil {
			card.Read, card.Launch, handOff = k.Read, k.Launch, k.HandOff
		}
		on.GPUs, on.HandOff = append(on.GPUs, card), max(on.HandOff, handOff)
	}
	return on
}

// What computing with a weight and sending it take on a machine that was described and not measured: per core, multiplications and
// additions of a prompt's products a second, and bytes packed for the card a second. A chunk of rows is long enough for the bus's full
// speed, and a small share of the budget.
const (
	coreProducts   = 60e9
	corePacks      = 2e9
	largestChunk   = 32 << 20
	budgetOfChunks = 256
)

// streaming is when sending cold neurons to a card takes less time than computing with them on m's cores. Without k, what is known of the
// card, they are sent only if the user says so.
func streaming(c *cli.Command, m *measure.Machine, k *measure.Card, b *blueprint.Blueprint, budget int64) hybrid.Streaming {
	s := hybrid.Streaming{Bytes: min(largestChunk, budget/budgetOfChunks)}
	if c.IsSet("stream-tokens") {
		s.Tokens = max(0, c.Int("stream-tokens"))
		return s
	}
	if k == nil || !(k.Upload > 0) {
		return s
	}
	products, packs := m.Products, m.Packs
	if products == 0 || packs == 0 {
		products, packs = coreProducts*float64(m.Cores), corePacks*float64(m.Cores)
	}
	send := float64(b.RowBytes) / float64(b.RowElems) * (1/k.Upload + 1/packs) // seconds a weight
	s.Tokens = int(math.Ceil(send * products))
	return s
}

// fast is what is known of a card's speed; nil of a software device, to which nothing is sent because that would be faster.
func fast(m *measure.Machine, info vulkan.Info) *measure.Card {
	if info.Kind == vulkan.CPU {
		return nil
	}
	return measured(m, info)
}

// measured is what is known of a card's speed, or nil.
func measured(m *measure.Machine, info vulkan.Info) *measure.Card {
	for i := range m.Cards {
		if k := &m.Cards[i]; k.Name == info.Name && k.UUID == info.UUID && k.Lacks == "" {
			return k
		}
	}
	return nil
}

// solver places neurons by what they save, or whole layers if -ngl says how many; as in llama.cpp, a negative number means all.
func solver(c *cli.Command) func(placement.Model, placement.Machine) (placement.Plan, error) {
	if !c.IsSet("n-gpu-layers") {
		return placement.Solve
	}
	n := c.Int("n-gpu-layers")
	return func(m placement.Model, on placement.Machine) (placement.Plan, error) {
		layers := n
		if n < 0 {
			layers = len(m.Layers) + 1
		}
		p, err := placement.Whole(m, on, layers)
		if err != nil {
			err = fmt.Errorf("-ngl %d: %w; give less or more --vram-budget", n, err)
		}
		return p, err
	}
}

// place puts the model on the cards within their budgets. Those that the plan has no use for are left out; used are the others.
func (p *planner) place(on placement.Machine, s []hybrid.Streaming) (plan *engine.Plan, used []int, err error) {
	best, err := p.b.Places(on, s, solver(p.c))
	if err != nil {
		return nil, nil, err
	}
	plan = &engine.Plan{Places: best.Places(), Ahead: ahead(p.c, &best), Notice: func(s string) { fmt.Fprintln(os.Stderr, "note:", s) }}
	if !slices.ContainsFunc(p.cards, func(i vulkan.Info) bool { return i.Kind == vulkan.CPU }) {
		plan.Rate = 1 / best.Seconds
	}
	index := make([]int, len(p.cards)) // of each in plan.Cards
	for j, info := range p.cards {
		budget := on.GPUs[j].Budget
		if best.VRAM[j] == 0 {
			if !p.failed[j] && (p.c.String("device") != "" || p.c.IsSet("vram-budget")) && !p.c.IsSet("n-gpu-layers") {
				fmt.Fprintf(os.Stderr, "note: nothing of the model is worth its place within %.0f MiB of %s\n", mib(budget), info.Name)
			}
			continue
		}
		index[j] = len(plan.Cards)
		used = append(used, j)
		plan.Cards = append(plan.Cards, engine.Card{Device: fmt.Sprint(info.Index), Budget: budget, Planned: best.VRAM[j], Stream: s[j]})
	}
	if len(plan.Cards) == 0 {
		return nil, nil, nil
	}
	for l := range plan.Places {
		if y := &plan.Places[l]; y.GPU != placement.RAM {
			y.GPU = index[y.GPU]
		}
		plan.Bytes += best.Layers[l].VRAM
	}
	return plan, used, nil
}

// leastLate is the share of a token's time that cards must wait for the processor's neurons for it to pay that it reads ahead: the cards
// guess which, and that takes them about a hundredth.
const leastLate = 0.03

// ahead is whether the processor reads ahead.
func ahead(c *cli.Command, p *placement.Plan) hybrid.Ahead {
	switch {
	case c.IsSet("read-ahead") && c.Bool("read-ahead"):
		return hybrid.Always
	case c.IsSet("read-ahead") || p.Late() < leastLate*p.Seconds:
		return hybrid.Never
	}
	return hybrid.IfIdle
}

// A card that turns out to have less memory than it said is tried again with a smaller share of it, so many times; then the processor
// computes alone.
const (
	smallerTries = 3
	smaller      = 0.85
)

// loadEngine opens an engine with a progress bar, on the cards that the flags choose.
func loadEngine(ctx context.Context, c *cli.Command, f *gguf.File, o engine.Options) (*engine.Engine, error) {
	stats, err := statsFor(c, f)
	if err != nil {
		return nil, err
	}
	if stats != nil {
		o.Order = stats.Order()
	}
	p, err := newPlanner(ctx, c, f, &o, stats)
	if err != nil {
		return nil, err
	}
	return withLess(p.plan,
		func(plan *engine.Plan) (*engine.Engine, error) {
			bar := newProgress("loading", unitBytes)
			defer bar.finish()
			o.Plan, o.Progress = plan, untilCancelled(ctx, bar.set)
			return engine.Open(f, o)
		}, func(note string) { fmt.Fprintln(os.Stderr, "note:", note) })
}

// withLess opens an engine on what choose plans, with less of the cards' memory where that turns out to be too much, without a card that
// fails, and at last without any. choose is given the share of the memory to use.
func withLess(choose func(share float64) (*engine.Plan, error), open func(*engine.Plan) (*engine.Engine, error), tell func(string)) (*engine.Engine, error) {
	share, tries := 1.0, 0
	plan, err := choose(share)
	for err == nil {
		e, failure := open(plan)
		var full *vulkan.OutOfMemory
		var failed *hybrid.CardError
		switch {
		case plan == nil || !errors.As(failure, &failed):
			return e, failure
		case errors.As(failure, &full) && tries < smallerTries:
			tries++
			share *= smaller
			tell(fmt.Sprintf("%v; trying with less", full))
			plan, err = choose(share)
		default:
			rest, says := plan.Without(failed.Card)
			tell(fmt.Sprintf("%v; %s", failed, says))
			plan = rest
		}
	}
	return nil, err
}
