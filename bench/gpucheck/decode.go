package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/outfile"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// shape is a model that decoding is tried on.
type shape struct {
	name, says string
	typ        quant.Type
	embd, ff   int
	heads      int
	layers     int // of the published model
}

func shapes() []shape {
	return []shape{
		{"7b-q4_0", "7B-shaped, Q4_0", quant.Q4_0, 4096, 11008, 32, 32},
		{"13b-q4_0", "13B-shaped, Q4_0", quant.Q4_0, 5120, 13824, 40, 40},
		{"7b-f16", "7B-shaped, F16", quant.F16, 4096, 11008, 32, 32},
		{"13b-f16", "13B-shaped, F16", quant.F16, 5120, 13824, 40, 40},
	}
}

// Models have as many layers as so many bytes hold, and at least so many; and this share of zeros, spread by this power law.
const (
	modelBytes  = 3e9
	leastLayers = 6
	sparsity    = 0.9
	powerLaw    = 1.0
)

// spec is the synthetic model of the shape, in the original PowerInfer's form if it is to have predictors.
func (m shape) spec(c *check, predictors bool) synth.Spec {
	s := synth.Spec{Arch: "llama", Embd: m.embd, FF: m.ff, Heads: m.heads, Layers: c.layers, Type: m.typ, Activation: "relu", Sparsity: sparsity, PowerLaw: powerLaw, Seed: 1}
	if c.tiny {
		s.Embd, s.FF, s.Heads, s.Layers = 256, 1024, 8, cmp.Or(c.layers, 2)
	}
	if predictors {
		s.Magic = "PWRI"
	}
	if s.Layers == 0 {
		layer := m.typ.RowBytes(s.Embd) * (4*s.Embd + 3*s.FF)
		s.Layers = min(m.layers, max(leastLayers, modelBytes/layer))
	}
	return s
}

// file writes the model unless it is there from an earlier run, and opens it.
func (m shape) file(c *check, w *report, s synth.Spec) (*gguf.File, error) {
	if err := os.MkdirAll(c.models, 0o755); err != nil {
		return nil, err
	}
	kind := "dense"
	if s.Magic == "PWRI" {
		kind = "sparse"
	}
	path := filepath.Join(c.models, fmt.Sprintf("%s-%d-%d-%s.gguf", m.name, s.Embd, s.Layers, kind))
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		begin := time.Now()
		say("writing %s", path)
		if err = synth.Write(path, s, nil); err == nil {
			w.say("Wrote %s in %.0f s.", filepath.Base(path), time.Since(begin).Seconds())
		}
	}
	if err != nil {
		return nil, err
	}
	return gguf.Open(path)
}

// decodeContext is the context that models run with.
const decodeContext = 512

// budget is a part of the model's bytes on the card.
type budget struct {
	name  string
	of    func(b *blueprint.Blueprint) int64
	trace string // in the name of a file that tells what processor and card did when; empty: none
	whole bool   // all layers lie on the card, whatever the plan would do with the budget
}

// budgets are shares of all that the model takes, and what attention, head, predictors and half the feed-forward layers take.
func (c *check) budgets() []budget {
	share := func(percent int64) budget {
		return budget{name: fmt.Sprintf("%d %%", percent), of: func(b *blueprint.Blueprint) int64 { return percent * whole(b) / 100 }}
	}
	half := budget{name: "all but half the FFN", of: func(b *blueprint.Blueprint) int64 {
		n := whole(b)
		for i := range b.Model.Layers {
			u := &b.Model.Layers[i].Units
			n -= u.Size * int64(len(u.Sometimes)) / 2
		}
		return n
	}, trace: "half"}
	all, resident := share(100), share(100)
	all.trace, resident.name, resident.whole = "all", "100 %, all of it there", true
	if c.tiny {
		return []budget{share(0), half, resident}
	}
	return []budget{share(0), share(25), share(50), share(75), half, all, resident}
}

// whole is what all of the model takes on a card.
func whole(b *blueprint.Blueprint) int64 { return b.Model.Bytes() + b.Buffers }

// trial is one way to decode: a file, a mode and a budget, and what came of it.
type trial struct {
	budget    string
	bytes     int64 // of the budget
	card      *engine.Plan
	use       engine.CardUse
	plan      placement.Plan
	load      float64 // seconds of opening the engine
	rate, dev float64 // tokens per second
	prompt    float64 // tokens per second of a prompt
	read      float64 // share of the dense bytes of feed-forward layers that were read for a token; 0: not counted
	logits    logits
	err       error
}

// decode times and verifies decoding of the shape.
func (m shape) decode(ctx context.Context, c *check, w *report) error {
	machine, err := c.measured(ctx)
	if err != nil {
		return err
	}
	if k := machine.Cards[0]; k.Lacks != "" {
		return fmt.Errorf("the card could not be measured: %s", k.Lacks)
	}
	s := m.spec(c, true)
	f, err := m.file(c, w, s)
	if err != nil {
		return err
	}
	defer f.Close()
	stats, err := synth.Stats(s)
	if err != nil {
		return err
	}
	w.say("%d layers of n_embd %d and n_ff %d, %s, %.0f %% of the activations zero, spread by rank^-%g; a vocabulary of 512; a context of %d. Neurons lie hottest first. "+
		"Tokens per second, mean ± deviation of %d runs of %d tokens behind %d; predicted is what the plan for the measured machine says. A prompt has %d tokens. Loading takes "+
		"the file from the page cache.",
		s.Layers, s.Embd, s.FF, m.typ, 100*s.Sparsity, s.PowerLaw, decodeContext, c.repetitions(), c.tokens(), depth, c.prompt())
	var best []trial // the fastest of each budget
	var failed []error
	for _, mode := range []model.SparseMode{model.Exact, model.Predict} {
		trials := m.trials(ctx, c, f, mode, stats, &machine)
		w.say("### %s", mode)
		table(w, trials)
		failed = append(failed, failures(mode, trials))
		best = faster(best, trials)
	}
	return errors.Join(append(failed, m.dense(ctx, c, w, &machine, best))...)
}

// faster keeps of each budget the trial that decodes faster.
func faster(a, b []trial) []trial {
	for i := range b {
		if i >= len(a) {
			a = append(a, b[i])
		} else if b[i].rate > a[i].rate {
			a[i] = b[i]
		}
	}
	return a
}

// trials are the mode at every budget.
func (m shape) trials(ctx context.Context, c *check, f *gguf.File, mode model.SparseMode, stats *neuron.Stats, machine *measure.Machine) []trial {
	var all []trial
	for _, b := range c.budgets() {
		t := trial{budget: b.name}
		say("%s, %s, %s", m.name, mode, b.name)
		if t.err = t.try(ctx, c, f, mode, stats, machine, b); ctx.Err() != nil {
			t.err = errCut
		}
		if len(all) > 0 {
			t.logits.compare(&all[0].logits)
		}
		all = append(all, t)
	}
	return all
}

// errCut is the error of what the time limit left out: no failure.
var errCut = errors.New("left out: the time limit")

// failures are the trials that went wrong, had other bytes the second time, or logits far from the processor's.
func failures(mode model.SparseMode, all []trial) error {
	var failed []error
	for i := range all {
		switch t := &all[i]; {
		case t.err != nil && !errors.Is(t.err, errCut):
			failed = append(failed, fmt.Errorf("%s, %s: %w", mode, t.budget, t.err))
		case t.err == nil && !t.logits.again:
			failed = append(failed, fmt.Errorf("%s, %s: other bytes the second time", mode, t.budget))
		case t.err == nil && !(t.logits.share <= far):
			failed = append(failed, fmt.Errorf("%s, %s: logits %.2g of the largest from the processor's", mode, t.budget, t.logits.share))
		}
	}
	return errors.Join(failed...)
}

// try plans, loads, decodes and verifies.
func (t *trial) try(ctx context.Context, c *check, f *gguf.File, mode model.SparseMode, stats *neuron.Stats, machine *measure.Machine, want budget) error {
	if ctx.Err() != nil {
		return errCut
	}
	b, err := blueprintOf(f, mode, stats)
	if err != nil {
		return err
	}
	t.bytes = min(want.of(&b), blueprint.Budget(c.info.Free))
	on := machineFor(machine, &b, t.bytes)
	if want.whole {
		t.plan, err = placement.Whole(b.Model, on, len(b.Model.Layers)+1)
	} else {
		t.plan, err = placement.Solve(b.Model, on)
	}
	if err != nil {
		return err
	}
	t.place(c)
	o := engine.Options{Context: decodeContext, Sparse: mode, Plan: t.card}
	if stats != nil {
		o.Order = stats.Order()
	}
	if want.trace != "" && t.card != nil {
		o.Trace = trace.New()
	}
	var given string // why the engine goes on without the card
	if t.card != nil {
		t.card.Notice = func(s string) { given = s }
	}
	begin := time.Now()
	e, err := engine.Open(f, o)
	if err != nil {
		return err
	}
	defer e.Close()
	t.load = time.Since(begin).Seconds()
	err = t.decode(ctx, c, e)
	if use := e.CardUse(); len(use) > 0 {
		t.use = use[0]
	}
	if err == nil && given != "" {
		err = errors.New(given)
	}
	if err == nil && o.Trace != nil {
		path := filepath.Join(c.out, fmt.Sprintf("trace-%s-%s-%s.json", strings.TrimSuffix(filepath.Base(f.Path), ".gguf"), mode, want.trace))
		err = outfile.Write(path, func(f *outfile.File) error { return o.Trace.Write(f) })
	}
	return err
}

// blueprintOf is f's blueprint. The frequencies of a synthetic model are known, and so is how well its predictors choose: exactly.
func blueprintOf(f *gguf.File, mode model.SparseMode, stats *neuron.Stats) (blueprint.Blueprint, error) {
	b, err := blueprint.Of(f, blueprint.Options{Context: decodeContext, Sparse: mode, Law: blueprint.UsualLaw(), Stats: stats})
	if err != nil || mode != model.Predict || stats == nil {
		return b, err
	}
	sorted, err := stats.Permute(stats.Order())
	if err != nil {
		return b, err
	}
	for l := range b.Model.Layers {
		u := &b.Model.Layers[l].Units
		for i, f := range sorted.Frequencies(l) {
			u.Sometimes[i] = float64(f) * float64(u.Size)
		}
	}
	return b, nil
}

// machineFor is the measured machine with so much of the card.
func machineFor(m *measure.Machine, b *blueprint.Blueprint, budget int64) placement.Machine {
	on := m.Placement(b.RowBytes)
	k := &m.Cards[0]
	g := placement.GPU{Name: k.Name, Read: k.Read, Launch: k.Launch, Budget: budget, Overhead: b.Buffers}
	on.HandOff = k.HandOff
	if k.Software { // it is there to try the card's path, so it gets what a card would
		g.Read, g.Launch, on.HandOff = 10*on.Stream, 0, 0
	}
	on.GPUs = []placement.GPU{g}
	return on
}

// place turns the plan into what the engine takes; nothing where nothing is on the card.
func (t *trial) place(c *check) {
	card := &engine.Plan{
		Cards:  []engine.Card{{Device: strconv.Itoa(c.info.Index), Budget: t.bytes, Planned: t.plan.VRAM[0]}},
		Places: t.plan.Places(),
	}
	used := false
	for _, y := range t.plan.Layers {
		card.Bytes += y.VRAM
		used = used || y.Attention || y.Predictor || y.Hot > 0
	}
	if used {
		t.card = card
	}
}

// table shows trials.
func table(w *report, all []trial) {
	var rows [][]string
	for i := range all {
		t := &all[i]
		row := []string{t.budget, fmt.Sprintf("%.2f", gib(t.bytes)), t.where(), ""}
		if t.card != nil {
			row[3] = fmt.Sprintf("%.2f of %.2f", gib(t.use.Used), gib(t.use.Planned))
		}
		if t.err != nil {
			rows = append(rows, append(row, t.err.Error(), "", "", "", "", "", "", ""))
			continue
		}
		predicted := 1 / t.plan.Seconds
		read, base := "", ""
		if t.read > 0 {
			read = fmt.Sprintf("%.0f %%", 100*t.read)
		}
		if all[0].err == nil {
			base = fmt.Sprintf("%.2f", t.rate/all[0].rate)
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1f", predicted), fmt.Sprintf("%.1f ± %.1f", t.rate, t.dev), fmt.Sprintf("%.2f", t.rate/predicted), base, read, fmt.Sprintf("%.0f", t.prompt), fmt.Sprintf("%.1f", t.load), t.logits.verdict()))
	}
	w.table([]string{"budget", "GiB", "on the card", "GiB of planned", "predicted", "tokens/s", "of predicted", "of the processor's", "FFN bytes read", "prompt", "loaded, s", "logits"}, rows...)
}

// where says what is on the card.
func (t *trial) where() string {
	if len(t.plan.Layers) == 0 {
		return ""
	}
	layers := t.plan.Layers[:len(t.plan.Layers)-1]
	attention, hot, vram := 0, 0, int64(0)
	for _, y := range layers {
		if y.Attention {
			attention++
		}
		hot += y.Hot
		vram += y.VRAM
	}
	if vram == 0 {
		return "nothing"
	}
	return fmt.Sprintf("attention of %d of %d layers, %d neurons a layer", attention, len(layers), hot/len(layers))
}
