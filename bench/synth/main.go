// Command synth writes a GGUF model of a given shape with random weights and real sparsity, to measure speed and to
// prepare where no trained model of that size is at hand. See internal/synth for how it is made.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// shapes returns published models' shapes without the number of layers. Vocabularies are small, so that the head does
// not dominate a few layers.
func shapes() map[string]synth.Spec {
	return map[string]synth.Spec{
		"tiny":          {Arch: "llama", Embd: 256, FF: 1024, Heads: 8},
		"1b":            {Arch: "llama", Embd: 2048, FF: 5632, Heads: 32, KVHeads: 4},
		"7b":            {Arch: "llama", Embd: 4096, FF: 11008, Heads: 32},
		"8b":            {Arch: "llama", Embd: 4096, FF: 14336, Heads: 32, KVHeads: 8},
		"13b":           {Arch: "llama", Embd: 5120, FF: 13824, Heads: 40},
		"70b":           {Arch: "llama", Embd: 8192, FF: 28672, Heads: 64, KVHeads: 8},
		"bamboo-7b":     {Arch: "bamboo", Embd: 4096, FF: 14336, Heads: 32, KVHeads: 8},
		"falcon-7b":     {Arch: "falcon", Embd: 4544, FF: 18176, Heads: 71, KVHeads: 1},
		"falcon-40b":    {Arch: "falcon", Embd: 8192, FF: 32768, Heads: 128, KVHeads: 8, Form: synth.Form{AttnNorm2: true}},
		"qwen3-30b-a3b": {Arch: "qwen3moe", Embd: 2048, FF: 768, Heads: 32, KVHeads: 4, HeadDim: 128, Experts: 128, Used: 8},
		"mixtral-8x7b":  {Arch: "llama", Embd: 4096, FF: 14336, Heads: 32, KVHeads: 8, Experts: 8, Used: 2},
		"deepseek-v3":   {Arch: "deepseek2", Embd: 7168, FF: 18432, Heads: 128, HeadDim: 192, Rope: synth.Rope{RopeDims: 64}, Latents: synth.Latents{Latent: 512, QueryLatent: 1536}},
		"opt-6.7b":      {Arch: "opt", Embd: 4096, FF: 16384, Heads: 32},
		"opt-30b":       {Arch: "opt", Embd: 7168, FF: 28672, Heads: 56},
	}
}

func shapeNames() string {
	var names []string
	for n := range shapes() {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

const description = `Writes the first layers of a model of a published shape, with random weights:

  go run ./bench/synth --shape 7b --layers 4 --type q4_0 --sparsity 0.9 -o 7b.gguf
  powerinfer bench -m 7b.gguf -p 512 -n 128

On real forward passes every feed-forward layer has the asked share of exact zeros. Neurons' frequencies follow
rank^-s (--power-law s), cut off where a neuron is nearly always active; which neurons are active changes with
the input and is predictable at a rank of an eighth of the width; neurons lie in random order. Uses of experts are
alike unless --expert-law s has them follow rank^-s, which lie in random order, too. Text is noise.

The same flags give the same bytes. --format original writes the original PowerInfer's form (magic PWRI),
with predictors made from the weights. Speed of a whole model is that of its layers times their number, head and
embedding apart: a vocabulary of 512 keeps these small.`

func main() {
	if err := command().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "synth:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name: "synth", Usage: "write a model with random weights and real sparsity", Description: description,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "GGUF `FILE` to write", Required: true},
			&cli.StringFlag{Name: "shape", Value: "7b", Usage: shapeNames()},
			&cli.IntFlag{Name: "layers", Value: 4, Usage: "blocks"},
			&cli.StringFlag{Name: "type", Value: "q4_0", Usage: "of the matrices: " + strings.ToLower(quant.Supported())},
			&cli.FloatFlag{Name: "sparsity", Value: 0.9, Usage: "share of activations that are exactly zero; 0: no offsets"},
			&cli.FloatFlag{Name: "power-law", Value: 1, Usage: "exponent of the neurons' frequencies by rank; 0: all alike"},
			&cli.StringFlag{Name: "activation", Usage: "relu, fatrelu, drelu, relu2, silu, gelu or clamped_swiglu; default: the family's own if it leaves zeros, else relu"},
			&cli.StringFlag{Name: "arch", Usage: "llama, qwen2, qwen3, bamboo, falcon or opt; default: the shape's"},
			&cli.StringFlag{Name: "format", Value: "gguf", Usage: "gguf, or original for the original PowerInfer's files"},
			&cli.IntFlag{Name: "rank", Usage: "of original files' predictors; default: exact"},
			&cli.IntFlag{Name: "vocab", Value: 512, Usage: "tokens"},
			&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "positions the file names; default: the architecture's"},
			&cli.IntFlag{Name: "embd", Usage: "width, instead of the shape's"},
			&cli.IntFlag{Name: "ff", Usage: "neurons of a layer, instead of the shape's"},
			&cli.IntFlag{Name: "experts", Usage: "experts of a layer, instead of the shape's; --ff is the width of one"},
			&cli.IntFlag{Name: "used", Usage: "experts that a token uses, instead of the shape's"},
			&cli.FloatFlag{Name: "expert-law", Usage: "exponent of the experts' uses by rank; default: all alike"},
			&cli.IntFlag{Name: "heads", Usage: "attention heads, instead of the shape's"},
			&cli.IntFlag{Name: "kv-heads", Usage: "KV heads, instead of the shape's"},
			&cli.Uint64Flag{Name: "seed", Aliases: []string{"s"}, Value: 1, Usage: "of the random weights"},
		},
		Action: write,
	}
}

// spec reads the flags.
func spec(c *cli.Command) (synth.Spec, error) {
	s, ok := shapes()[strings.ToLower(c.String("shape"))]
	if !ok {
		return s, fmt.Errorf("--shape %q is not one of %s", c.String("shape"), shapeNames())
	}
	if s.Type, ok = quant.Named(c.String("type"), quant.Types()); !ok {
		return s, fmt.Errorf("--type %q is not one of %s", c.String("type"), strings.ToLower(quant.Supported()))
	}
	if s.Magic, ok = map[string]string{"gguf": "GGUF", "original": "PWRI"}[c.String("format")]; !ok {
		return s, fmt.Errorf("--format %q is neither gguf nor original", c.String("format"))
	}
	if a := c.String("arch"); a != "" {
		s.AttnNorm2 = s.AttnNorm2 && a == "falcon"
		s.Arch = a
	}
	for name, field := range map[string]*int{"embd": &s.Embd, "ff": &s.FF, "heads": &s.Heads, "kv-heads": &s.KVHeads, "experts": &s.Experts, "used": &s.Used} {
		if c.IsSet(name) {
			*field = c.Int(name)
		}
	}
	s.Layers, s.Vocab, s.Context, s.Rank = c.Int("layers"), c.Int("vocab"), c.Int("ctx-size"), c.Int("rank")
	s.Activation, s.Sparsity, s.PowerLaw, s.Seed = c.String("activation"), c.Float("sparsity"), c.Float("power-law"), c.Uint64("seed")
	s.ExpertLaw = c.Float("expert-law")
	if (s.Activation == "silu" || s.Activation == "gelu") && !c.IsSet("sparsity") {
		s.Sparsity = 0
	}
	return s, nil
}

func write(ctx context.Context, c *cli.Command) error {
	if c.Args().Present() {
		return errors.New("unexpected argument; the file goes behind -o")
	}
	s, err := spec(c)
	if err != nil {
		return err
	}
	begin, size := time.Now(), int64(0)
	var bar *progressbar.ProgressBar
	err = synth.Write(ctx, c.String("out"), s, func(done, total int64) {
		size = total
		if bar == nil && term.IsTerminal(int(os.Stderr.Fd())) {
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("writing"),
				progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(30),
				progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""), progressbar.OptionClearOnFinish())
		}
		if bar != nil {
			_ = bar.Set64(done)
		}
	})
	if bar != nil {
		_ = bar.Finish()
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "wrote %s: %.1f MB in %.1f s\n", c.String("out"), float64(size)/1e6, time.Since(begin).Seconds())
	return nil
}
