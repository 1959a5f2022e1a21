package engine_test

import (
	"cmp"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// described returns the header of a described model.
func described(t *testing.T, text string) *gguf.File {
	t.Helper()
	b, err := modelcost.Described(text, modelcost.Options{Context: 4096})
	if err != nil {
		t.Fatal(err)
	}
	return b.File
}

// TestOnDisk: a model that fits is loaded; experts of one that does not stay on the disk, within what may be taken; one
// that does not fit even then is refused, with the least that it takes.
func TestOnDisk(t *testing.T) {
	f := described(t, "qwen3-30b-a3b")
	o := engine.Options{Limits: engine.Limits{Context: 4096}}
	whole, err := o.Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.Least(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	least := m.Need
	// Attention, the head and the embedding of this model in Q4_K_M are about 1.1 GiB, keys and values of 4096 tokens 0.4.
	if least > 3<<30 || whole < 16<<30 {
		t.Fatalf("the least is %d bytes, all of it %d", least, whole)
	}
	mostly := whole - 1
	for _, c := range []struct {
		name      string
		available int64
		budget    int64 // -1: none
		want      string
	}{
		{"all fits", whole, -1, "whole"},
		{"nothing is known", 0, -1, "whole"},
		{"nothing is known, a budget", 0, mostly, "disk"},
		{"a byte is missing", mostly, -1, "disk"},
		{"all fits the budget", 2 * whole, whole, "whole"},
		{"a byte is missing in the budget", 2 * whole, mostly, "disk"},
		{"a budget beyond what there is", mostly, 2 * whole, "disk"},
		{"half", whole / 2, -1, "disk"},
		{"the least", 2 * whole, least, "disk"},
		{"less than the least", 2 * whole, least - 1, "refused"},
		{"no budget at all", 2 * whole, 0, "refused"},
		{"the least, and a reserve", least*100/94 + 1, -1, "disk"},
		{"the least without reserve", least, -1, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine.SetAvailable(t, c.available)
			with := o
			may := int64(float64(c.available) * 0.94)
			if c.budget >= 0 {
				with.RAM, may = &c.budget, c.budget
				if c.available > 0 {
					may = min(may, c.available)
				}
			}
			var lines []string
			with.Notice = func(line string) { lines = append(lines, line) }
			need, err := engine.Provide(f, with, placement.Layout{})
			var full *engine.MemoryError
			switch {
			case c.want == "refused":
				if !errors.As(err, &full) || full.Need != least || len(lines) > 0 {
					t.Fatalf("%v, with the lines %q", err, lines)
				}
				if budget := regexp.MustCompile(`--ram-budget of at least ([0-9.]+) GiB`).FindStringSubmatch(err.Error()); c.budget >= 0 {
					gib, err := strconv.ParseFloat(slices.Concat(budget, []string{"", ""})[1], 64)
					if bytes := int64(gib * (1 << 30)); err != nil || bytes < least || bytes > least+1<<24 {
						t.Errorf("%v does not say that %d bytes are enough", full, least)
					}
				} else if budget != nil {
					t.Errorf("%v: nobody gave a budget", err)
				}
			case err != nil:
				t.Fatal(err)
			case c.want == "whole":
				if need.Need != whole || need.OnDisk != 0 || need.Units != 0 || len(lines) > 0 {
					t.Errorf("%+v, with the lines %q", need, lines)
				}
			default:
				if need.Need > may || need.OnDisk == 0 || need.Units == 0 || need.Weights >= 2<<30 {
					t.Errorf("%+v where %d bytes may be taken", need, may)
				}
				if unused := may - need.Need; unused > 0 && need.Units < whole-(2<<30) {
					t.Errorf("%d bytes are not used", unused)
				}
				if len(lines) != 1 || !strings.Contains(lines[0], "experts stay on the disk") {
					t.Errorf("the lines %q", lines)
				}
			}
		})
	}
}

// TestNeuronsOnDisk: neurons of a prepared model that does not fit stay on the disk, within what may be taken.
func TestNeuronsOnDisk(t *testing.T) {
	f := described(t, "llama-70b,type=q4_0")
	o := engine.Options{Limits: engine.Limits{Context: 4096}}
	whole, err := o.Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.Least(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	// Predictors take 10 % of the weights, attention, the head and the embedding 20 %, a layer's neurons 400 MiB.
	if m.Need > whole/2 || m.Units < 400<<20 {
		t.Fatalf("the least is %+v, all of it %d bytes", m, whole)
	}
	for _, budget := range []int64{m.Need - 1, m.Need, whole / 2, whole - 1, whole} {
		engine.SetAvailable(t, whole)
		o.RAM = &budget
		var lines []string
		o.Notice = func(line string) { lines = append(lines, line) }
		need, err := engine.Provide(f, o, placement.Layout{})
		switch {
		case budget < m.Need:
			var full *engine.MemoryError
			if !errors.As(err, &full) || full.Need != m.Need {
				t.Error(err)
			}
		case err != nil || need.Need > budget || (need.OnDisk > 0) != (budget < whole):
			t.Errorf("%d bytes: %+v, %v", budget, need, err)
		case budget < whole && (len(lines) != 1 || !strings.Contains(lines[0], "neurons stay on the disk")):
			t.Errorf("the lines %q", lines)
		}
	}
}

// TestStreamed: every token of a dense model reads all weights. If the model does not fit, steps read its last layers
// from disk, also within a budget. If not even the cache fits, it is refused. A file that is mapped anyway needs none
// of our reading.
func TestStreamed(t *testing.T) {
	engine.SetAvailable(t, 8<<30)
	dense := described(t, "llama-70b,type=q4_0")
	var lines []string
	options := engine.Options{
		Limits: engine.Limits{Context: 4096}, Neurons: engine.Neurons{Sparse: model.Off},
		Notice: func(line string) { lines = append(lines, line) },
	}
	budget := int64(5 << 30)
	for _, ram := range []*int64{nil, &budget} {
		lines = nil
		options.RAM = ram
		need, err := engine.Provide(dense, options, placement.Layout{})
		if err != nil || need.Need > need.Budget || need.Need < need.Budget-1<<30 || len(lines) != 1 || !strings.Contains(lines[0], "every step reads 3") {
			t.Errorf("%+v, %v, %q", need, err, lines)
		}
	}
	options.Context = 1 << 20
	_, err := engine.Provide(dense, options, placement.Layout{})
	if full := (*engine.MemoryError)(nil); !errors.As(err, &full) {
		t.Error(err)
	}
	if text := setting.Text(err, setting.Fields); strings.Contains(text, "--") {
		t.Error(text)
	}
	f := described(t, "qwen3-30b-a3b")
	o := engine.Options{Limits: engine.Limits{Context: 4096, Mapped: true}}
	if need, err := engine.Provide(f, o, placement.Layout{}); err != nil || need.OnDisk > 0 {
		t.Errorf("mapped: %+v, %v", need, err)
	}
	o.RAM = new(int64)
	if _, err := engine.Provide(f, o, placement.Layout{}); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Error(err)
	}
}

// TestOnDiskBesideGPU: experts on a GPU take neither RAM nor disk, and those that would follow the text stay there.
func TestOnDiskBesideGPU(t *testing.T) {
	testenv.Thorough(t)
	f := described(t, "qwen3-30b-a3b")
	const experts, layers = 128, 48
	engine.SetAvailable(t, 8<<30)
	o := engine.Options{Limits: engine.Limits{Context: 4096}}
	alone, err := engine.Provide(f, o, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	var on placement.Layout
	for range layers + 1 {
		on.Places = append(on.Places, compute.Place{Split: compute.Split{Bound: experts / 4, Slots: true}, Attention: true, Predictor: true})
	}
	beside, err := engine.Provide(f, o, on)
	if err != nil {
		t.Fatal(err)
	}
	if part := float64(beside.OnDisk) / float64(alone.OnDisk); math.Abs(part-0.75) > 1e-6 {
		t.Errorf("%g of the experts are on the disk, with a quarter on a GPU", part)
	}
	on.Staged = 100 << 20
	if less, err := engine.Provide(f, o, on); err != nil || less.Sending != on.Staged || less.Need > less.Budget || beside.Units-less.Units < on.Staged-on.Staged/16 {
		t.Errorf("%+v if 100 MiB of RAM hold what is sent, %v", less, err)
	}
	if beside.Weights >= alone.Weights || beside.Units <= alone.Units {
		t.Errorf("%+v, and without a GPU %+v", beside, alone)
	}
}

// TestFromDisk: a model with experts or neurons on the disk gives the same text as from memory. Neurons are read from a
// separate file, or from the model's if there cannot be one.
func TestFromDisk(t *testing.T) {
	testenv.Thorough(t)
	experts := synth.Spec{Arch: "qwen3moe", Layers: 10, Embd: 256, FF: 512, Heads: 4, KVHeads: 2, Type: quant.Q8_0, Experts: 8, Used: 1, Activation: "silu", Seed: 5}
	neurons := synth.Spec{Arch: "llama", Magic: "PWRI", Layers: 20, Embd: 256, FF: 4096, Heads: 4, Type: quant.Q4_0, Sparsity: 0.9, PowerLaw: 1, Seed: 5}
	var want []int32 // tokens that the spec's model generates from memory
	cache := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "LocalAppData", "HOME"} {
		t.Setenv(name, cache)
	}
	for _, c := range []struct {
		name    string
		spec    synth.Spec
		runs    []bool // from the disk, or from memory
		foreign bool   // there is another file in the way
		bundled bool
	}{
		{name: "experts", spec: experts, runs: []bool{false, true}},
		{name: "neurons", spec: neurons, runs: []bool{false, true, true}, bundled: true},
		{name: "neurons in the model's file", spec: neurons, runs: []bool{true}, foreign: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := synth.Write(t.Context(), path, c.spec, nil); err != nil {
				t.Fatal(err)
			}
			if c.foreign {
				for _, in := range []string{path + bundle.Suffix, filepath.Join(cache, "powerinfer")} {
					os.RemoveAll(in)
					if err := os.WriteFile(in, []byte("another file"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for run, disk := range c.runs {
				o := session.Options{Engine: engine.Options{Limits: engine.Limits{Context: 128, UBatch: 32}}, Planner: planner.Options{GPUs: planner.GPUs{Devices: vulkan.None}}}
				o.Planner.Threads = 2
				var lines []string
				written := int64(0)
				o.Planner.Notice = func(line string) { lines = append(lines, line) }
				o.Engine.Bundling = func(done, total int64) { written = done }
				if disk {
					m, err := o.Engine.Least(f, placement.Layout{})
					if err != nil {
						t.Fatal(err)
					}
					budget := m.Need + 1<<20
					o.Engine.RAM = &budget
				}
				e, err := session.Open(t.Context(), f, o)
				if err != nil {
					t.Fatal(err)
				}
				if m := e.Memory(); (m.OnDisk > 0) != disk {
					t.Errorf("on the disk: %+v", m)
				}
				if (written > 0) != (c.bundled && run == 1) {
					t.Errorf("run %d: %d bytes of neurons were written", run, written)
				}
				if slower := strings.Contains(strings.Join(lines, "\n"), "read from the model's own file"); slower != (disk && c.foreign) {
					t.Errorf("%q", lines)
				}
				got, _ := greedy(t, e.Engine, []int32{5, 6, 7, 8, 9, 10}, 8)
				if !disk {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("from the disk %v, from memory %v", got, want)
				}
				if err := e.Engine.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestStreamedSays: a dense model that reads its last layers from disk in each step gives the same text as from memory.
func TestStreamedSays(t *testing.T) {
	for _, spec := range []synth.Spec{
		{Arch: "llama", Layers: 12, Embd: 256, FF: 2048, Heads: 4, KVHeads: 2, Type: quant.Q8_0, Activation: "silu", Seed: 5},
		{Arch: "phi3", Layers: 12, Embd: 256, FF: 2048, Heads: 4, KVHeads: 2, Type: quant.Q8_0, Activation: "silu", Seed: 6}, // fused matrices
		{Arch: "opt", Layers: 12, Embd: 256, FF: 2048, Heads: 4, Type: quant.F16, Activation: "relu", Sparsity: 0.9, Seed: 7},
	} {
		t.Run(spec.Arch, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := synth.Write(t.Context(), path, spec, nil); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var want []int32
			for _, missing := range []int64{0, 3 << 20} {
				o := session.Options{Engine: engine.Options{Limits: engine.Limits{Context: 128, UBatch: 32}}, Planner: planner.Options{GPUs: planner.GPUs{Devices: vulkan.None}}}
				o.Planner.Threads = 2
				var lines []string
				o.Planner.Notice = func(line string) { lines = append(lines, line) }
				budget, err := o.Engine.Memory(f, placement.Layout{})
				if err != nil {
					t.Fatal(err)
				}
				budget -= missing
				o.Engine.RAM = &budget
				e, err := session.Open(t.Context(), f, o)
				if err != nil {
					t.Fatal(err)
				}
				if told := strings.Contains(strings.Join(lines, "\n"), "every step reads"); told != (missing > 0) {
					t.Errorf("%q", lines)
				}
				got, _ := greedy(t, e.Engine, []int32{5, 6, 7, 8, 9, 10}, 8)
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("from the disk %v, from memory %v", got, want)
				}
				if err := e.Engine.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLongSteps: where units stay on the disk a step takes a whole batch of a prompt, if the user chose no size and it
// costs little of the units' room. A GPU has room only for the step that was planned: then the plan is told of the long one.
func TestLongSteps(t *testing.T) {
	f := described(t, "qwen3-30b-a3b")
	whole, err := (&engine.Options{Limits: engine.Limits{Context: 4096}}).Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	least, err := (&engine.Options{Limits: engine.Limits{Context: 4096}}).Least(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		chosen, batch int
		budget        int64
		want          int
	}{
		{"half", 0, 0, whole / 2, engine.UsualBatch},
		{"smaller batches", 0, 1024, whole / 2, 1024},
		{"chosen", 256, 0, whole / 2, 256},
		{"no room", 0, 0, least.Need, model.UsualStep},
		{"all fits", 0, 0, 2 * whole, model.UsualStep},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine.SetAvailable(t, 4*whole)
			o := engine.Options{Limits: engine.Limits{Context: 4096, UBatch: c.chosen, Batch: c.batch, RAM: &c.budget}}
			on := placement.Layout{Places: make([]compute.Place, 49)}
			beside := o
			if step, err := beside.LongStep(f, on, o.Room()); err != nil || max(step, model.UsualStep) != max(c.want, model.UsualStep) {
				t.Errorf("GPUs should be planned for steps of %d tokens, want %d: %v", step, c.want, err)
			}
			if got, err := engine.StepOf(f, &beside, on); err != nil || got != min(c.want, cmp.Or(c.chosen, model.UsualStep)) {
				t.Errorf("steps of %d tokens beside a GPU: %v", got, err)
			}
			if got, err := engine.StepOf(f, &o, placement.Layout{}); err != nil || got != c.want {
				t.Errorf("steps of %d tokens, want %d: %v", got, c.want, err)
			}
		})
	}
}
