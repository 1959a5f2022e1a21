package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// A machine that is lent for a quarter of an hour needs minutes to start and to receive the bundle.
const (
	quarterTotal = 12 * time.Minute
	quarterSlack = 2 // a part is cut off after this many times its usual time
)

// quarterParts returns the parts of --quarter, the most important first.
func quarterParts() []part {
	return []part{
		{"machine", "what is installed, and what RAM and GPU reach", 15, machine},
		{"whole", "prompts and generation with everything on the GPU", 120, whole},
		{"half", "generation with half of the model on the GPU, dense, exact and predicted", 120, shapes()[0].decode},
		{"most", "prompts and generation with three quarters of the model on the GPU", 40, threeQuarters},
		{"sequences", "generation of 1 to 64 sequences at a time", 40, sequences},
		{"experts", "a mixture of experts at several budgets", 90, experts},
		{"verbs", "every verb against its definition, one case of each kind", 120, verbs},
		{"trace", "what processor and GPU do when, for a prompt and for tokens", 15, traces},
		{"openings", "opening and closing the GPU again and again", 60, openings},
		{"disk", "experts on disk beside a GPU", 25, onDisk},
		{"towers", "towers of models that see, against llama.cpp's figures", 30, towers},
	}
}

// goals are the least ratios of our speed to llama.cpp's that we want; 0: none.
type goals struct{ prompts, generation float64 }

// duel is a model that the engine and llama.cpp compute in the same way.
type duel struct {
	what, model  string
	ours, theirs []string // additional arguments of both programs
	goals        goals
}

// lengths returns the arguments of both programs for the test's lengths.
func (c *check) lengths(prompts string) []string {
	if c.tiny {
		return []string{"-p", "16", "-n", "2", "-r", "1"}
	}
	return []string{"-p", prompts, "-n", "128", "-r", "3"}
}

// bench times a model with the engine's bench.
func (c *check) bench(ctx context.Context, model string, args ...string) ([]benchRow, error) {
	return benched(ctx, c.engine, c.benchArgs(model, args...)...)
}

func (c *check) benchArgs(model string, args ...string) []string {
	return append([]string{"bench", "-m", model, "--device", fmt.Sprint(c.info.Index), "-o", "json"}, args...)
}

// duels times each model with both programs, one after the other. Its table compares our speed with llama.cpp's, with
// the goals and with our plan.
func (c *check) duels(ctx context.Context, w *checkup.Report, prompts string, all []duel) error {
	if c.engine == "" {
		w.Say("The engine's program was not given (--engine): nothing is timed.")
		return nil
	}
	var table [][]string
	var failed []error
	for _, d := range all {
		checkup.Progress("%s", d.what)
		lengths := c.lengths(prompts)
		ours, err := c.bench(ctx, d.model, append(lengths, d.ours...)...)
		if errors.Is(err, errCut) {
			w.Say("Cut off at the time limit.")
			break
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", d.what, err))
			continue
		}
		var theirs []benchRow
		if c.llama != "" {
			args := append([]string{"-m", d.model, "-o", "json"}, lengths...)
			if theirs, err = benched(ctx, c.llama, append(args, d.theirs...)...); err != nil && !errors.Is(err, errCut) {
				failed = append(failed, fmt.Errorf("%s, llama.cpp: %w", d.what, err))
			}
		}
		for _, o := range ours {
			table = append(table, d.row(o, theirs))
		}
	}
	w.Table([]string{"model", "test", "llama.cpp", "ours", "ours / llama.cpp", "goal", "planned", "ours / planned"}, table...)
	if c.llama == "" {
		w.Say("llama.cpp was not given (--llama-bench): nothing is compared.")
	}
	return errors.Join(failed...)
}

// row shows one of our results next to that of the same test in theirs.
func (d duel) row(o benchRow, theirs []benchRow) []string {
	row := []string{d.what, o.test(), "", fmt.Sprintf("%.1f ± %.1f", o.Rate, o.Deviation), "", "", "", ""}
	for _, t := range theirs {
		if t.test() != o.test() {
			continue
		}
		goal := d.goals.generation
		if o.Prompt > 0 {
			goal = d.goals.prompts
		}
		row[2], row[4] = fmt.Sprintf("%.1f ± %.1f", t.Rate, t.Deviation), fmt.Sprintf("%.2f", o.Rate/t.Rate)
		if goal > 0 {
			row[5] = fmt.Sprintf("%.2f, %s", goal, reached(o.Rate/t.Rate >= goal))
		}
	}
	if o.Planned > 0 {
		row[6], row[7] = fmt.Sprintf("%.1f", o.Planned), fmt.Sprintf("%.2f", o.Rate/o.Planned)
	}
	return row
}

func reached(yes bool) string {
	if yes {
		return "reached"
	}
	return "**missed**"
}

// narrow returns s, or with --tiny a shape that lavapipe computes in seconds.
func (c *check) narrow(s synth.Spec) synth.Spec {
	if c.tiny {
		s.Embd, s.FF, s.Heads, s.KVHeads, s.HeadDim, s.Layers = 256, 512, 8, 0, 0, 2
		s.Experts, s.Used = min(s.Experts, 8), min(s.Used, 2)
	}
	return s
}

// wholeLayers are the layers of models in types other than Q4_0.
const wholeLayers = 8

// whole times dense models of several types with all of them on the GPU.
func whole(ctx context.Context, c *check, w *checkup.Report) error {
	goal := goals{prompts: 0.8, generation: 1.15}
	m := shapes()[0]
	path, err := m.path(ctx, c, w, m.spec(c, false))
	if err != nil {
		return err
	}
	all := []duel{{what: "Q4_0", model: path, goals: goal}}
	for _, t := range []quant.Type{quant.Q8_0, quant.F16} {
		s := c.narrow(synth.Spec{Arch: "llama", Embd: m.embd, FF: m.ff, Heads: m.heads, Layers: wholeLayers, Type: t, Activation: "relu", Seed: 1})
		path, err := c.written(w, fmt.Sprintf("7b-%s-%d.gguf", strings.ToLower(t.String()), s.Layers), func(path string) error { return synth.Write(ctx, path, s, nil) })
		if err != nil {
			return err
		}
		all = append(all, duel{what: t.String(), model: path, goals: goal})
	}
	if c.engine != "" { // synth cannot write a mixture of types
		from := all[len(all)-1].model
		path, err := c.written(w, strings.Replace(filepath.Base(from), "f16", "q4_k_m", 1), func(path string) error { return program(ctx, c.engine, "quantize", from, path, "q4_k_m") })
		if err != nil {
			return err
		}
		all = append(all, duel{what: "Q4_K_M", model: path, goals: goal})
	}
	for i := range all {
		all[i].ours, all[i].theirs = []string{"--sparse", "off", "-ngl", "all"}, []string{"-ngl", "99"}
	}
	return c.duels(ctx, w, "512,2048", all)
}

// threeQuarters times a dense model with three quarters of its layers' bytes on the GPU.
func threeQuarters(ctx context.Context, c *check, w *checkup.Report) error {
	m := shapes()[0]
	s := m.spec(c, false)
	path, err := m.path(ctx, c, w, s)
	if err != nil {
		return err
	}
	layers := 3 * s.Layers / 4
	d := duel{what: "Q4_0", model: path, goals: goals{prompts: 1}, theirs: []string{"-ngl", fmt.Sprint(layers)}}
	d.ours = []string{"--sparse", "off", "--vram-budget", fmt.Sprintf("%.4f", gib(int64(layers*s.Type.RowBytes(s.Embd)*(4*s.Embd+3*s.FF))))}
	return c.duels(ctx, w, "512,2048", []duel{d})
}

// experts times a mixture of experts with some of them on the GPU.
func experts(ctx context.Context, c *check, w *checkup.Report) error {
	path, s, err := c.mixture(ctx, w)
	if err != nil {
		return err
	}
	var all []duel
	for _, b := range []struct {
		share float64 // of the model's bytes
		onCPU int     // layers of experts, of 12
	}{{0.12, 12}, {0.35, 9}, {0.6, 6}, {1.5, 0}} {
		budget := b.share * mixtureSize(s)
		all = append(all, duel{
			what: fmt.Sprintf("%.2f GiB, -ncmoe %d", budget, b.onCPU), model: path, goals: goals{generation: 2},
			ours: []string{"--vram-budget", fmt.Sprintf("%.4f", budget)}, theirs: []string{"-ngl", "99", "-ncmoe", fmt.Sprint(b.onCPU * s.Layers / 12)},
		})
		if b.onCPU == 0 {
			all[len(all)-1].goals.generation = 1.15
		}
	}
	return c.duels(ctx, w, "256", all)
}

// mixture writes a model of Qwen3-30B-A3B's shape, with 12 layers.
func (c *check) mixture(ctx context.Context, w *checkup.Report) (string, synth.Spec, error) {
	s := c.narrow(synth.Spec{
		Arch: "qwen3moe", Embd: 2048, FF: 768, Heads: 32, KVHeads: 4, HeadDim: 128, Experts: 128, Used: 8, Layers: 12, Type: quant.Q4_0,
		Activation: "silu", Seed: 1, Mixing: synth.Mixing{ExpertLaw: 1},
	})
	path, err := c.written(w, fmt.Sprintf("experts-%d.gguf", s.Layers), func(path string) error { return synth.Write(ctx, path, s, nil) })
	return path, s, err
}

// mixtureSize returns about what the model's weights take, in GiB.
func mixtureSize(s synth.Spec) float64 {
	return gib(int64(s.Layers * (3*s.Experts*s.FF + 3*s.Embd) * s.Type.RowBytes(s.Embd)))
}

// onDisk times the mixture of experts with most of them on disk.
func onDisk(ctx context.Context, c *check, w *checkup.Report) error {
	path, s, err := c.mixture(ctx, w)
	if err != nil || c.engine == "" {
		return err
	}
	size := mixtureSize(s)
	rows, err := c.bench(ctx, path, append(c.lengths("256"), "--vram-budget", fmt.Sprintf("%.4f", 0.3*size), "--ram-budget", fmt.Sprintf("%.4f", 0.3*size+0.3))...)
	if err != nil {
		return err
	}
	var table [][]string
	for _, r := range rows {
		table = append(table, []string{
			r.test(), fmt.Sprintf("%.1f ± %.1f", r.Rate, r.Deviation), fmt.Sprintf("%.1f", r.DiskBytes/1e6), fmt.Sprintf("%.1f %%", 100*r.DiskKept), fmt.Sprintf("%.1f %%", 100*r.DiskWait),
		})
	}
	w.Table([]string{"test", "tokens/s", "MB a token from disk", "in RAM", "waiting"}, table...)
	return nil
}

// traces writes traces of a long prompt and of a few tokens.
func traces(ctx context.Context, c *check, w *checkup.Report) error {
	if c.engine == "" {
		return nil
	}
	m := shapes()[0]
	path, err := m.path(ctx, c, w, m.spec(c, false))
	if err != nil {
		return err
	}
	mixture, _, err := c.mixture(ctx, w)
	if err != nil {
		return err
	}
	prompt := "2048"
	if c.tiny {
		prompt = "16"
	}
	for _, t := range []struct{ name, model, p, n string }{{"prompt", path, prompt, "0"}, {"tokens", path, "0", "16"}, {"tokens-experts", mixture, "0", "16"}} {
		file := filepath.Join(c.out, "trace-"+t.name+".json")
		rows, err := c.bench(ctx, t.model, "--sparse", "off", "-p", t.p, "-n", t.n, "-r", "1", "--trace", file)
		if err != nil {
			return err
		}
		w.Say("%s: %s at %.1f tokens/s.", filepath.Base(file), rows[0].test(), rows[0].Rate)
	}
	return nil
}

// mostOpenings is the number of times the GPU is opened. A server that changes models opens it as often.
const mostOpenings = 500

// openings opens and closes the GPU, again and again.
func openings(ctx context.Context, c *check, w *checkup.Report) error {
	most := mostOpenings
	if c.tiny {
		most = 3
	}
	begin := time.Now()
	for n := range most {
		if ctx.Err() != nil {
			w.Say("%d openings.", n)
			return errCut
		}
		d, err := c.open()
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			return fmt.Errorf("opening %d: %w", n+1, err)
		}
	}
	w.Say("%d openings took %.0f ms each.", most, 1e3*time.Since(begin).Seconds()/float64(most))
	return nil
}
