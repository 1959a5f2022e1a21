package engine_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestMemoryOfFactors: a mapped file's matrices take no memory, except NVFP4's with a separate factor, because they are
// copied to include it.
func TestMemoryOfFactors(t *testing.T) {
	need := func(typ quant.Type) int64 {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := synth.Write(t.Context(), path, synth.Spec{Arch: "llama", Layers: 2, Embd: 256, FF: 1024, Heads: 8, Type: typ}, func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o := engine.Options{Limits: engine.Limits{Context: 64, Mapped: true}}
		n, err := o.Memory(f, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain, factored := need(quant.Q4_0), need(quant.NVFP4)
	// Two layers' feed-forward matrices alone, at four bits or more per weight.
	if least := int64(2 * 3 * 256 * 1024 / 2); factored-plain < least {
		t.Errorf("with factors %d bytes more than without, of copies that have at least %d", factored-plain, least)
	}
}

// divided is a device that adds up the bytes of a model in RAM.
type divided struct {
	*ref.Device
	places                  []compute.Place // as placement.Layout's
	weights, vectors, cache int64           // bytes: matrices in RAM outside a mapped file, all vectors, and keys and values in RAM
}

func (d *divided) ExpandsLatent() bool { return true }

func (d *divided) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	units := src.Rows
	if use == compute.Columns {
		units = src.Cols
	}
	onGPU := min(src.Split.Bound, units)
	if src.Split.Slots {
		onGPU = 0
	}
	if !src.Pinned {
		d.weights += int64(len(src.Data)) * int64(units-onGPU) / int64(units)
	}
	return d.Device.Matrix(src, use)
}

func (d *divided) Vector(src compute.Source) (*compute.Vector, error) {
	d.vectors += int64(len(src.Data))
	return d.Device.Vector(src)
}

func (d *divided) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	for part, shape := range spec.Layers {
		gpu := false
		if last := len(d.places) - 1; last > 0 && spec.LayerOf(part) == last {
			gpu = d.places[last].Further
		} else if last > 0 {
			gpu = d.places[spec.LayerOf(part)].Attention
		}
		if !gpu {
			d.cache += int64(spec.PagesOf(part)) * shape.PageBytes()
		}
	}
	return d.Device.Cache(spec)
}

// TestMemory: the expected RAM of a model equals the bytes that a device is told to keep there, wherever layers are and
// whether or not the file is mapped. Vectors are an exception, because GPUs and CPU may both have them. Q8_0 takes as
// much memory packed as in the file.
func TestMemory(t *testing.T) {
	routed := synth.Spec{Arch: "glm4moe", Layers: 3, Embd: 256, FF: 256, Heads: 4, Type: quant.Q8_0, Experts: 4, Used: 2, Activation: "silu", Seed: 3}
	latent := routed
	latent.Arch = "deepseek2"
	drafted := synthtest.File(t, synth.Spec{Arch: "llama", Layers: 3, Embd: 256, FF: 512, Heads: 4, Type: quant.Q8_0, Seed: 4})
	head := synthtest.DFlash(t, drafted, synthtest.Head{Layers: []int{1, 3}, Embd: 256, Heads: 4, FF: 512, Depth: 3, Block: 4, Mask: 3, Seed: 1})
	for name, f := range map[string]*gguf.File{
		"drafted": drafted,
		"dense":   synthtest.File(t, synth.Spec{Arch: "llama", Layers: 2, Embd: 256, FF: 512, Heads: 4, Type: quant.Q8_0, Seed: 3}),
		"routed":  synthtest.Further(t, routed, true), "latent": synthtest.Further(t, latent, false),
		"recurrent": synthtest.Further(t, synth.Spec{Arch: "qwen35", Type: quant.Q8_0, Layers: 6, Embd: 256, FF: 512, Heads: 4, HeadDim: 64, Seed: 5}, false),
	} {
		c, err := model.ReadConfig(f, "")
		if err != nil {
			t.Fatal(err)
		}
		var drafts *gguf.File
		if f == drafted {
			drafts = head
		}
		plans := map[string][]compute.Place{"RAM": nil}
		for name, p := range furtherPlans(c) {
			plans[name] = p.Places
		}
		if c.Experts.Count > 0 {
			slots := share(c.Layers, c.Experts.Count/2)
			for l := range c.Layers {
				slots[l].Slots = true
			}
			plans["slots"] = slots
		}
		for plan, places := range plans {
			for _, mapped := range []bool{false, true} {
				o := engine.Options{Limits: engine.Limits{Context: 1 << 14, Batch: 32, Mapped: mapped}, Drafts: engine.Drafts{Most: 2, Further: c.Further > 0 || drafts != nil}, Head: drafts}
				got := engine.MemoryOf(t, f, o, placement.Layout{Places: places})
				d := &divided{Device: ref.New(), places: places}
				_, err := model.Load(t.Context(), f, d, model.Options{
					Batch: 32, Outputs: 1, Further: o.Drafts.Further, Head: drafts, Places: places, Pinned: mapped,
					Cache: c.CacheSize(o.Context, 32, 1, false, true),
				})
				if err != nil {
					t.Fatal(err)
				}
				if got.Cache != d.cache {
					t.Errorf("%s, %s: a cache of %d bytes, the device has %d", name, plan, got.Cache, d.cache)
				}
				if got.Weights < d.weights || got.Weights > d.weights+d.vectors {
					t.Errorf("%s, %s, mapped %t: weights of %d bytes, the device has matrices of %d and vectors of %d", name, plan, mapped, got.Weights, d.weights, d.vectors)
				}
			}
		}
	}
}

// TestPartsAddUp: the printed parts of a model's memory add up to the printed sum.
func TestPartsAddUp(t *testing.T) {
	numbers := regexp.MustCompile(`[0-9]+(\.[0-9])?`)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		part := func() int64 { return rng.Int64N(1 << (10 + rng.IntN(28))) }
		m := engine.Memory{Weights: part(), Cache: part(), Activations: part(), Process: part(), Beside: 1 + part()}
		m.Need = m.Weights + m.Cache + m.Activations + m.Process + m.Beside
		var tenths []int
		for _, n := range numbers.FindAllString(m.Parts(), -1) {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil {
				t.Fatal(err)
			}
			tenths = append(tenths, int(math.Round(10*v)))
		}
		if len(tenths) != 6 || tenths[0] != tenths[1]+tenths[2]+tenths[3]+tenths[4]+tenths[5] {
			t.Errorf("%+v: %s", m, m.Parts())
		}
	}
}

// TestSmallMachines: a small model is loaded on a machine with little memory. Advice suggests a context only if the
// model fits with it, and then it is loaded.
func TestSmallMachines(t *testing.T) {
	f := synthtest.File(t, synth.Spec{Arch: "llama", Layers: 2, Embd: 64, FF: 64, Heads: 2, Context: 1 << 20, Type: quant.F16, Seed: 1})
	o := engine.Options{Limits: engine.Limits{Context: 512}, Devices: planner.CPU(planner.Processor{Threads: 1})}
	open := func() string {
		t.Helper()
		e, err := engine.Open(t.Context(), f, o)
		if err == nil {
			e.Close()
			return ""
		}
		var full *engine.MemoryError
		if !errors.As(err, &full) {
			t.Fatal(err)
		}
		return full.Advice.Error()
	}
	engine.SetAvailable(t, 64<<20)
	if advice := open(); advice != "" {
		t.Errorf("64 MiB do not hold a model of less than one: %s", advice)
	}
	o.Context = 1 << 20
	advice := open()
	context := regexp.MustCompile(`-c ([0-9]+)`).FindStringSubmatch(advice)
	if context == nil || strings.Contains(advice, "-ub") || strings.Contains(advice, "--no-repack") {
		t.Fatalf("a context of a million tokens: %q", advice)
	}
	o.Context, _ = strconv.Atoi(context[1])
	if advice := open(); advice != "" || o.Context < 1<<15 {
		t.Errorf("a context of %d, as advised: %q", o.Context, advice)
	}
	o.Context = 512
	engine.SetAvailable(t, 1<<20)
	if advice := open(); strings.Contains(advice, "-") {
		t.Errorf("a machine without memory: %q", advice)
	}
}
