// Command families compares perplexities with llama.cpp's, family by family: a small synthetic model of each in F16, the same text, both programs.
//
//	go build ./cmd/powerinfer && go run ./bench/families --powerinfer ./powerinfer --llama-perplexity PATH --text FILE
//
// The models have the families' own activations, which llama.cpp takes for granted, and shapes other than the tests'.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// elsewhere names the families that llama.cpp does not read.
var elsewhere = []string{"bamboo"}

func main() {
	c := &cli.Command{
		Name:  "families",
		Usage: "compare perplexities with llama.cpp's, family by family",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "powerinfer", Usage: "our program", Required: true},
			&cli.StringFlag{Name: "llama-perplexity", Usage: "llama.cpp's program", Required: true},
			&cli.StringFlag{Name: "text", Usage: "a file of text, of a few windows", Required: true},
			&cli.StringFlag{Name: "only", Usage: "families, apart by commas; all of them if empty"},
			&cli.StringFlag{Name: "type", Value: "f16", Usage: "of the matrices"},
			&cli.IntFlag{Name: "context", Aliases: []string{"c"}, Value: 256, Usage: "tokens of a window"},
		},
		Action: func(ctx context.Context, c *cli.Command) error { return compare(ctx, c, os.Stdout) },
	}
	if err := c.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "families:", err)
		os.Exit(1)
	}
}

// ownKeys names the families whose query heads have keys and values of their own.
var ownKeys = []string{"baichuan", "bloom", "deepseek2", "gpt2", "gptneox", "jais2", "minicpm3", "olmoe", "opt", "phi2", "plm"}

// specs returns the models of a family that both programs run: of each depth that means something to it.
func specs(f arch.Family) (all []synth.Spec) {
	s := synth.Spec{Arch: f.Name, Layers: 5, Embd: 384, FF: 704, Heads: 6, Vocab: 640, Type: quant.F16, Activation: f.Activation.String(), Seed: 11}
	if !slices.Contains(ownKeys, f.Name) {
		s.KVHeads = 2
	}
	for _, n := range []int{f.RotatedLayers, f.AlibiLayers} {
		if n > 0 {
			s.Layers = n
			all = append(all, s)
		}
	}
	if all == nil {
		all = append(all, s)
	}
	if f.KeysByHead() { // llama.cpp tells by the depth whether queries follow from the input
		s.Layers, s.DirectQueries = directQueries, true
		all = append(all, s)
	}
	if f.Experts != nil && f.Experts.Optional {
		s.Experts, s.Used = 8, 2
		all = append(all, s)
	}
	return all
}

// directQueries is a depth at which llama.cpp takes a model of DeepSeek 2's form for one whose queries follow from the input.
const directQueries = 27

func compare(ctx context.Context, c *cli.Command, out io.Writer) error {
	dir, err := os.MkdirTemp("", "families")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	typ, ok := quant.Named(c.String("type"), quant.Types())
	if !ok {
		return fmt.Errorf("--type %q is not one of %s", c.String("type"), strings.ToLower(quant.Supported()))
	}
	fmt.Fprintln(out, "| family | ours | llama.cpp | difference |\n|---|---|---|---|")
	for _, f := range arch.All() {
		if only := c.String("only"); slices.Contains(elsewhere, f.Name) || only != "" && !slices.Contains(strings.Split(only, ","), f.Name) {
			continue
		}
		for _, s := range specs(f) {
			s.Type = typ
			if err := one(ctx, c, out, filepath.Join(dir, "model.gguf"), f, s); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	return nil
}

// one writes a line of the table.
func one(ctx context.Context, c *cli.Command, out io.Writer, path string, f arch.Family, s synth.Spec) error {
	if err := synth.Write(ctx, path, s, nil); err != nil {
		return err
	}
	args := []string{"-m", path, "-f", c.String("text"), "-c", strconv.Itoa(c.Int("context")), "-t", "2"}
	ours, err := perplexity(ctx, c.String("powerinfer"), append([]string{"perplexity"}, args...))
	if err != nil {
		return err
	}
	if f.Latent && !f.KeysByHead() { // llama.cpp's flash attention ends with a failed assertion in PLM
		args = append(args, "-fa", "off")
	}
	theirs, err := perplexity(ctx, c.String("llama-perplexity"), args)
	if err != nil {
		return err
	}
	name := f.Name
	if s.Experts > 0 {
		name += " with experts"
	}
	fmt.Fprintf(out, "| %s, %d layers | %.4f | %.4f | %.4f %% |\n", name, s.Layers, ours, theirs, 100*math.Abs(ours/theirs-1))
	return nil
}

// estimate finds both programs' last line.
var estimate = regexp.MustCompile(`PPL = ([0-9.]+)`)

// attempts is the number of times a program is run that ends without its last line: llama.cpp's log is written by a thread that its exit may cut off.
const attempts = 5

func perplexity(ctx context.Context, program string, args []string) (float64, error) {
	var text []byte
	for range attempts {
		var err error
		if text, err = exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w: %s", program, err, tail(text))
		}
		if found := estimate.FindSubmatch(text); found != nil {
			return strconv.ParseFloat(string(found[1]), 64)
		}
	}
	return 0, fmt.Errorf("%s: no perplexity in %s", program, tail(text))
}

func tail(b []byte) []byte { return b[max(0, len(b)-400):] }
