package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/bench/rounds"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// Models are layers of a 1B shape with random weights: speeds, no text.
const layers = 8

// usualTypes are the types of weights that are timed.
var usualTypes = []quant.Type{quant.Q4_0, quant.Q4_K, quant.Q8_0, quant.F16}

// model writes a model with that activation and share of zeros, unless an earlier run wrote it, and returns its path.
func (c *check) model(ctx context.Context, t quant.Type, activation string, sparsity float64) (string, error) {
	s := synth.Spec{Arch: "llama", Embd: 2048, FF: 5632, Heads: 32, KVHeads: 4, Layers: layers, Type: t, Activation: activation, Sparsity: sparsity, PowerLaw: 1, Vocab: 512, Seed: 1}
	if c.tiny {
		s.Embd, s.FF, s.Heads, s.KVHeads, s.Layers = 256, 512, 8, 4, 2
	}
	if err := os.MkdirAll(c.models, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(c.models, fmt.Sprintf("%s-%s-%d.gguf", strings.ToLower(t.String()), activation, s.Embd))
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		checkup.Progress("writing %s", path)
		err = synth.Write(ctx, path, s, nil)
	}
	return path, err
}

// timeRounds runs r's engines in turns on the model at path and writes a table, and shares of the read bandwidth if r
// measures that.
func (c *check) timeRounds(ctx context.Context, w *checkup.Report, path string, r rounds.Rounds) error {
	r.Name, r.Model, r.Count, r.Say = filepath.Base(path), path, c.rounds, checkup.Progress
	if c.tiny {
		r.Gen, r.ReadBandwidth = "4", nil
		if r.Prompt != "0" {
			r.Prompt = "16"
		}
	}
	if ctx.Err() != nil {
		w.Say("%s was left out: the time limit.", r.Name)
		return nil
	}
	got, read, err := r.Run(ctx)
	if ctx.Err() != nil {
		w.Say("%s was cut off: the time limit.", r.Name)
		return nil
	}
	if err != nil {
		return err
	}
	w.Say("%s", strings.TrimSpace(rounds.Table(r.Name, r.Engines, got)))
	if r.ReadBandwidth == nil {
		return nil
	}
	weights, err := rounds.WeightsOf(path)
	if err != nil {
		return err
	}
	w.Say("%s", strings.TrimSpace(rounds.Shares(weights, r.Engines, got, read)))
	return nil
}

// threads returns one thread, and all cores.
func threads() []int {
	return slices.Compact([]int{1, max(1, hw.Detect().Usable)})
}

// timeTypes times prompts and generation in each of the usual types.
func (c *check) timeTypes(ctx context.Context, w *checkup.Report) error {
	w.Say("%d layers of a 1B shape with random weights, prompts of 512 tokens, 64 tokens generated; tokens per second, median of %d rounds with the range.", layers, c.rounds)
	types := usualTypes
	if c.tiny {
		types = types[:1]
	}
	for _, t := range types {
		path, err := c.model(ctx, t, "silu", 0)
		if err == nil {
			err = c.timeRounds(ctx, w, path, rounds.Rounds{Engines: c.withPeers(), Threads: threads(), Prompt: "512", Gen: "64", ReadBandwidth: measure.ReadBandwidth})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timeDepths times generation after prompts of several lengths.
func (c *check) timeDepths(ctx context.Context, w *checkup.Report) error {
	path, err := c.model(ctx, quant.Q4_0, "silu", 0)
	if err != nil {
		return err
	}
	depths := "0,4096,16384"
	if c.tiny {
		depths = "0,32"
	}
	all := threads()
	return c.timeRounds(ctx, w, path, rounds.Rounds{Engines: c.withPeers(), Threads: all[len(all)-1:], Prompt: "0", Gen: "16", Depth: depths})
}

// timeSets times each instruction set that the processor has.
func (c *check) timeSets(ctx context.Context, w *checkup.Report) error {
	path, err := c.model(ctx, quant.Q4_0, "silu", 0)
	if err != nil {
		return err
	}
	engines := []rounds.Engine{c.engine("all kernels")}
	for _, name := range kernel.Names() {
		if name != kernel.Generic { // plain Go, many times slower
			engines = append(engines, c.engine(name, "--kernels", name))
		}
	}
	return c.timeRounds(ctx, w, path, rounds.Rounds{Engines: engines, Threads: []int{1}, Prompt: "128", Gen: "32"})
}

// timeNeurons times a ReLU model with all of its neurons and with only those that are not zero.
func (c *check) timeNeurons(ctx context.Context, w *checkup.Report) error {
	path, err := c.model(ctx, quant.Q4_0, "relu", 0.9)
	if err != nil {
		return err
	}
	engines := []rounds.Engine{c.engine("neurons not zero", "--sparse", "exact"), c.engine("all neurons", "--sparse", "off")}
	return c.timeRounds(ctx, w, path, rounds.Rounds{Engines: engines, Threads: threads(), Prompt: "128", Gen: "32"})
}
