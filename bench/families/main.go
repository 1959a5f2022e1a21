// Command families compares perplexities with other programs', family by family and type by type: a small synthetic model of each, the same text, all
// programs.
//
//	go build ./cmd/powerinfer && go run ./bench/families --powerinfer ./powerinfer --peer llama.cpp=PATH --peer ik_llama.cpp=PATH --text FILE
//
// PATHs are of llama-perplexity. The models have the families' own activations, which peers take for granted, and shapes other than the tests'.
package main

import (
	"context"
	"errors"
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
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

func main() {
	c := &cli.Command{
		Name:  "families",
		Usage: "compare perplexities with other programs', family by family and type by type",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "powerinfer", Usage: "our program", Required: true},
			&cli.StringSliceFlag{Name: "peer", Usage: "another, as `NAME=PATH` of its llama-perplexity; may be repeated", Required: true},
			&cli.StringFlag{Name: "text", Usage: "a file of text, of a few windows", Required: true},
			&cli.StringFlag{Name: "only", Usage: "families, apart by commas; all of them if empty"},
			&cli.StringFlag{Name: "types", Value: "f16,q8_0,q4_0,q4_k", Usage: "types of the matrices, apart by commas"},
			&cli.IntFlag{Name: "context", Aliases: []string{"c"}, Value: 128, Usage: "tokens of a window"},
			&cli.IntFlag{Name: "chunks", Value: 4, Usage: "windows"},
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

// specs returns the models of a family: of each depth that means something to it. Widths are whole blocks of every type.
func specs(f arch.Family) (all []synth.Spec) {
	s := synth.Spec{Arch: f.Name, Layers: 5, Embd: 256, FF: 768, Heads: 4, Vocab: 640, Activation: f.Activation.String(), Seed: 11}
	if !slices.Contains(ownKeys, f.Name) && !f.Latent {
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
	if f.Experts != nil && f.Experts.Early { // windows only where files have some, which llama.cpp takes for 4096 positions whatever they say
		s.Keys = []gguf.KV{{Key: f.Name + ".attention.sliding_window", Value: uint32(4096)}}
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

// peer is another program.
type peer struct{ name, path string }

// bench is one comparison.
type bench struct {
	ours, text      string
	peers           []peer
	types           []quant.Type
	context, chunks int
	path            string // of the model
	out             io.Writer
	worst           map[string]float64 // differences in percent, by peer and type
	compared        map[string]int
}

func compare(ctx context.Context, c *cli.Command, out io.Writer) error {
	dir, err := os.MkdirTemp("", "families")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{
		ours: c.String("powerinfer"), text: c.String("text"), context: c.Int("context"), chunks: c.Int("chunks"),
		path: filepath.Join(dir, "model.gguf"), out: out, worst: map[string]float64{}, compared: map[string]int{},
	}
	for _, text := range c.StringSlice("peer") {
		name, path, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("--peer %q is not NAME=PATH", text)
		}
		b.peers = append(b.peers, peer{name, path})
	}
	for name := range strings.SplitSeq(c.String("types"), ",") {
		typ, ok := quant.Named(name, quant.Types())
		if !ok {
			return fmt.Errorf("--types: %q is none of %s", name, quant.Supported())
		}
		b.types = append(b.types, typ)
	}
	b.head()
	for _, f := range arch.All() {
		if only := c.String("only"); f.Headless || only != "" && !slices.Contains(strings.Split(only, ","), f.Name) {
			continue
		}
		for _, s := range specs(f) {
			if err := b.family(ctx, f, s); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	b.foot()
	return nil
}

// head writes the head of the table: for each type our perplexity, and by how many percent each peer's differs.
func (b *bench) head() {
	fmt.Fprint(b.out, "| family |")
	for _, t := range b.types {
		fmt.Fprintf(b.out, " %s |", t)
		for _, p := range b.peers {
			fmt.Fprintf(b.out, " %s |", p.name)
		}
	}
	fmt.Fprintf(b.out, "\n|---|%s\n", strings.Repeat("---|", len(b.types)*(1+len(b.peers))))
}

// family writes a line of it.
func (b *bench) family(ctx context.Context, f arch.Family, s synth.Spec) error {
	name := f.Name
	if s.Experts > 0 {
		name += " with experts"
	}
	line := fmt.Sprintf("| %s, %d layers |", name, s.Layers)
	unknown := map[string]string{}
	for _, s.Type = range b.types {
		if err := synth.Write(ctx, b.path, s, nil); err != nil {
			return err
		}
		args := []string{"-m", b.path, "-f", b.text, "-c", strconv.Itoa(b.context), "--chunks", strconv.Itoa(b.chunks), "-t", "2"}
		ours, err := perplexity(ctx, b.ours, append([]string{"perplexity"}, args...))
		if err != nil {
			return err
		}
		line += fmt.Sprintf(" %.4f |", ours)
		for _, p := range b.peers {
			if unknown[p.name] == "" {
				theirs, err := perplexity(ctx, p.path, p.args(f, args))
				unknown[p.name] = reason(err)
				if err == nil {
					line += b.cell(p, s.Type, ours, theirs)
					continue
				}
			}
			line += " " + unknown[p.name] + " |"
		}
	}
	fmt.Fprintln(b.out, line)
	return nil
}

// cell returns how far a peer's perplexity is from ours.
func (b *bench) cell(p peer, t quant.Type, ours, theirs float64) string {
	key, d := p.name+" "+t.String(), 100*math.Abs(ours/theirs-1)
	b.worst[key] = max(b.worst[key], d)
	b.compared[key]++
	return fmt.Sprintf(" %.3f %% |", d)
}

// args returns what the peer is given: flash attention of llama.cpp ends with a failed assertion where keys and values are widened from narrow vectors, as in PLM.
func (p peer) args(f arch.Family, args []string) []string {
	if f.Latent && !f.KeysByHead() && p.name == "llama.cpp" {
		return append(slices.Clone(args), "-fa", "off")
	}
	return args
}

// foot sums the table up.
func (b *bench) foot() {
	fmt.Fprint(b.out, "\n| peer | type | models | largest difference |\n|---|---|---|---|\n")
	for _, p := range b.peers {
		for _, t := range b.types {
			key := p.name + " " + t.String()
			fmt.Fprintf(b.out, "| %s | %s | %d | %.3f %% |\n", p.name, t, b.compared[key], b.worst[key])
		}
	}
}

// errUnknown is the error of a program that does not know a model's architecture.
var errUnknown = errors.New("unknown")

// reason says in a word why there is no figure.
func reason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errUnknown):
		return errUnknown.Error()
	}
	fmt.Fprintln(os.Stderr, err)
	return "fails"
}

// estimate finds all programs' last line: ik_llama.cpp's says over what.
var estimate = regexp.MustCompile(`PPL (?:over .* )?= ([0-9.]+)`)

// attempts is the number of times a program is run that ends without its last line: llama.cpp's log is written by a thread that its exit may cut off.
const attempts = 5

func perplexity(ctx context.Context, program string, args []string) (float64, error) {
	var text []byte
	for range attempts {
		var err error
		if text, err = exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
			if strings.Contains(string(text), "unknown model architecture") || strings.Contains(string(text), "unknown architecture") {
				return 0, errUnknown
			}
			return 0, fmt.Errorf("%s: %w: %s", program, err, tail(text))
		}
		if found := estimate.FindSubmatch(text); found != nil {
			return strconv.ParseFloat(string(found[1]), 64)
		}
	}
	return 0, fmt.Errorf("%s: no perplexity in %s", program, tail(text))
}

func tail(b []byte) []byte { return b[max(0, len(b)-400):] }
