package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
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
	layers     int // layers of the published model
}

func shapes() []shape {
	return []shape{
		{"7b-q4_0", "7B-shaped, Q4_0", quant.Q4_0, 4096, 11008, 32, 32},
		{"13b-q4_0", "13B-shaped, Q4_0", quant.Q4_0, 5120, 13824, 40, 40},
		{"7b-f16", "7B-shaped, F16", quant.F16, 4096, 11008, 32, 32},
		{"13b-f16", "13B-shaped, F16", quant.F16, 5120, 13824, 40, 40},
	}
}

// Models have as many layers as fit into modelBytes, but at least leastLayers. This share of their activations is zero,
// spread by this power law.
const (
	modelBytes  = 3e9
	leastLayers = 6
	sparsity    = 0.9
	powerLaw    = 1.0
)

// spec returns the synthetic model of the shape, in the original PowerInfer's form if it is to have predictors.
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

// file opens the model. If there is none from an earlier run, it writes it.
func (m shape) file(ctx context.Context, c *check, w *checkup.Report, s synth.Spec) (*gguf.File, error) {
	path, err := m.path(ctx, c, w, s)
	if err != nil {
		return nil, err
	}
	return gguf.Open(path)
}

// path returns the path of the model. If there is none from an earlier run, it writes it.
func (m shape) path(ctx context.Context, c *check, w *checkup.Report, s synth.Spec) (string, error) {
	kind := "dense"
	if s.Magic == "PWRI" {
		kind = "sparse"
	}
	return c.written(w, fmt.Sprintf("%s-%d-%d-%s.gguf", m.name, s.Embd, s.Layers, kind), func(path string) error { return synth.Write(ctx, path, s, nil) })
}

// written returns the path of a file in the folder of models. If there is none from an earlier run, it calls write.
func (c *check) written(w *checkup.Report, name string, write func(path string) error) (string, error) {
	path := filepath.Join(c.models, name)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(c.models, 0o755); err != nil {
		return "", err
	}
	checkup.Progress("writing %s", path)
	begin := time.Now()
	if err := write(path); err != nil {
		return "", err
	}
	if took := time.Since(begin); took > time.Second {
		w.Say("Wrote %s in %.0f s.", name, took.Seconds())
	}
	return path, nil
}

// decodeContext is the context that models run with.
const decodeContext = 512

// budget is a part of the model's bytes on the GPU.
type budget struct {
	name  string
	of    func(b *modelcost.Cost, all int64) int64 // the budget, given all bytes that the model takes on the GPU
	trace string                                   // in the name of a trace file of CPU and GPU; empty: none
	whole bool                                     // all layers are on the GPU, whatever the plan would do with the budget
}

// budgets are shares of all that the model takes, and what attention, head, predictors and half the feed-forward layers
// take.
func (c *check) budgets() []budget {
	share := func(percent int64) budget {
		return budget{name: fmt.Sprintf("%d %%", percent), of: func(_ *modelcost.Cost, all int64) int64 { return percent * all / 100 }}
	}
	half := budget{name: "all but half the FFN", of: func(b *modelcost.Cost, n int64) int64 {
		for i := range b.Model.Layers {
			u := &b.Model.Layers[i].Units
			n -= u.Size * int64(len(u.Sometimes)) / 2
		}
		return n
	}, trace: "half"}
	all, resident := share(100), share(100)
	all.trace, resident.name, resident.whole = "all", "100 %, all of it there", true
	switch {
	case c.tiny:
		return []budget{share(0), half, resident}
	case c.quarter:
		return []budget{share(0), share(50), resident}
	}
	return []budget{share(0), share(25), share(50), share(75), half, all, resident}
}

// trial is one way to decode: a file, a mode and a budget, with the results.
type trial struct {
	budget    string
	bytes     int64         // the budget's bytes
	gpu       *planner.Plan // nil: nothing is on the GPU
	use       planner.Usage
	plan      placement.Plan
	load      float64 // seconds of opening the engine
	rate, dev float64 // tokens per second
	prompt    float64 // tokens per second of a prompt
	read      float64 // share of the dense bytes of feed-forward layers that were read for a token; 0: not counted
	logits    logits
	err       error
}

// decode times and verifies decoding of the shape.
func (m shape) decode(ctx context.Context, c *check, w *checkup.Report) error {
	machine, err := c.measured(ctx)
	if err != nil {
		return err
	}
	if k := machine.GPUs[0]; k.Lacks != "" {
		return fmt.Errorf("the GPU could not be measured: %s", k.Lacks)
	}
	s := m.spec(c, true)
	f, err := m.file(ctx, c, w, s)
	if err != nil {
		return err
	}
	defer f.Close()
	stats, err := synth.Stats(s)
	if err != nil {
		return err
	}
	w.Say("%d layers of n_embd %d and n_ff %d, %s, %.0f %% of the activations zero, spread by rank^-%g; a vocabulary of 512; a context of %d. Neurons lie hottest first. "+
		"Tokens per second, mean ± deviation of %d runs of %d tokens behind %d; predicted is what the plan for the measured machine says. A prompt has %d tokens. Loading takes "+
		"the file from the page cache.",
		s.Layers, s.Embd, s.FF, m.typ, 100*s.Sparsity, s.PowerLaw, decodeContext, c.repetitions(), c.tokens(), depth, c.prompt())
	var best []trial // the fastest of each budget
	var failed []error
	for _, mode := range []model.SparseMode{model.Exact, model.Predict} {
		trials := m.trials(ctx, c, f, mode, stats, &machine)
		w.Say("### %s", mode)
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

// trials returns the mode at every budget.
func (m shape) trials(ctx context.Context, c *check, f *gguf.File, mode model.SparseMode, stats *neuron.Stats, machine *measure.Machine) []trial {
	var all []trial
	for _, b := range c.budgets() {
		t := trial{budget: b.name}
		checkup.Progress("%s, %s, %s", m.name, mode, b.name)
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

// failures returns the trials that went wrong, had other bytes the second time, or logits far from the processor's.
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
	b, err := costOf(f, mode, stats)
	if err != nil {
		return err
	}
	most, err := c.planner(machine, b, planner.Budget(c.info.Free), false, planner.Options{}).Solve()
	if err != nil {
		return err
	}
	t.bytes = min(want.of(&b, b.Model.Bytes()+most.Most[0]), planner.Budget(c.info.Free))
	var given string // why the engine continues without the GPU
	o := engine.Options{Limits: engine.Limits{Context: decodeContext}, Neurons: engine.Neurons{Sparse: mode}}
	if stats != nil {
		o.Order = stats.Order()
	}
	if want.trace != "" {
		o.Trace = trace.New()
	}
	p := c.planner(machine, b, t.bytes, want.whole, planner.Options{Trace: o.Trace, Notice: func(s string) { given = s }})
	solved, err := p.Solve()
	if err != nil {
		return err
	}
	t.plan = solved.Plan
	if t.gpu, err = p.Plan(); err != nil {
		return err
	}
	given = "" // it does not matter that little is worth its place
	o.Devices = p
	begin := time.Now()
	e, err := engine.Open(ctx, f, o)
	if err != nil {
		return err
	}
	defer e.Close()
	t.load = time.Since(begin).Seconds()
	err = t.decode(ctx, c, e)
	if use := p.Usage(); len(use) > 0 {
		t.use = use[0]
	}
	if err == nil && given != "" {
		err = errors.New(given)
	}
	if err == nil && o.Trace != nil && t.gpu != nil {
		path := filepath.Join(c.out, fmt.Sprintf("trace-%s-%s-%s.json", strings.TrimSuffix(filepath.Base(f.Path), ".gguf"), mode, want.trace))
		err = atomicfile.Write(path, atomicfile.Kind{}, func(f *atomicfile.File) error { return o.Trace.Write(f) })
	}
	return err
}

// costOf returns f's cost. The frequencies of a synthetic model are known, and so is how well its predictors choose:
// exactly.
func costOf(f *gguf.File, mode model.SparseMode, stats *neuron.Stats) (modelcost.Cost, error) {
	b, err := modelcost.Of(f, modelcost.Options{Context: decodeContext, Neurons: model.Neurons{Sparse: mode}, Law: modelcost.UsualLaw(), Stats: stats})
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

// planner plans for the measured machine with this budget of the GPU. If whole is set, all of the model's layers are on
// the GPU.
func (c *check) planner(m *measure.Machine, b modelcost.Cost, budget int64, whole bool, o planner.Options) *planner.Planner {
	o.VRAM = []int64{budget}
	if whole {
		all := -1
		o.Layers = &all
	}
	return planner.With(planner.On(*m, []vulkan.Info{c.info}), b, o)
}

// table shows trials.
func table(w *checkup.Report, all []trial) {
	var rows [][]string
	for i := range all {
		t := &all[i]
		row := []string{t.budget, fmt.Sprintf("%.2f", gib(t.bytes)), t.where(), ""}
		if t.gpu != nil {
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
	w.Table([]string{"budget", "GiB", "on the GPU", "GiB of planned", "predicted", "tokens/s", "of predicted", "of the processor's", "FFN bytes read", "prompt", "loaded, s", "logits"}, rows...)
}

// where describes the part on the GPU.
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
		hot += y.Bound
		vram += y.VRAM
	}
	if vram == 0 {
		return "nothing"
	}
	return fmt.Sprintf("attention of %d of %d layers, %d neurons a layer", attention, len(layers), hot/len(layers))
}
