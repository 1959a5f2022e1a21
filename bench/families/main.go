// Command families compares perplexities with other programs', family by family and type by type: small synthetic
// models of each, the same text, all programs. --random makes models of random shapes instead.
//
//	go build ./cmd/powerinfer && go run ./bench/families --powerinfer ./powerinfer --peer llama.cpp=PATH --peer ik_llama.cpp=PATH --text FILE
//
// PATHs are of llama-perplexity. The models have the families' own activations, which peers take for granted, and
// shapes other than the tests'.
package main

import (
	"bytes"
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
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
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
			&cli.StringSliceFlag{Name: "embedder", Usage: "of models of embeddings compare embeddings with another program's, as `NAME=PATH` of its llama-embedding; may be repeated"},
			&cli.StringFlag{Name: "text", Usage: "a file of text, of a few windows", Required: true},
			&cli.StringFlag{Name: "only", Usage: "families, apart by commas; all of them if empty"},
			&cli.StringFlag{Name: "rare", Usage: "types of a table of its own, of the families that --rare-of names"},
			&cli.StringFlag{Name: "rare-of", Value: "llama,qwen3moe", Usage: "families, apart by commas"},
			&cli.IntFlag{Name: "random", Usage: "compare so many models of random shapes of each family"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the shapes"},
			&cli.StringFlag{Name: "types", Value: "f16,q8_0,q4_0,q4_k", Usage: "types of the matrices, or quantize's mixtures as q4_k_m, apart by commas"},
			&cli.IntFlag{Name: "context", Aliases: []string{"c"}, Value: 128, Usage: "tokens of a window"},
			&cli.StringFlag{Name: "cache", Value: "f16", Usage: "type of keys and values"},
			&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Value: 1, Usage: "models at a time"},
			&cli.IntFlag{Name: "chunks", Value: 4, Usage: "windows"},
		},
		Action: func(ctx context.Context, c *cli.Command) error { return compare(ctx, c, os.Stdout) },
	}
	if err := c.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "families:", err)
		os.Exit(1)
	}
}

// ownKeys names the families in which each query head has its own keys and values.
var ownKeys = []string{"baichuan", "bloom", "deepseek2", "gpt2", "gptneox", "jais2", "minicpm3", "olmoe", "opt", "phi2", "plm"}

// usualWidth is the width of models with the usual shape rather than a random one.
const usualWidth = 256

// required returns keys without which peers do not load files of a family, mostly with the values that their absence
// means elsewhere.
func required(family string) []gguf.KV {
	switch family {
	case "ernie4_5-moe":
		return []gguf.KV{{Key: family + ".leading_dense_block_count", Value: uint32(0)}}
	case "gemma-embedding": // windows that lines of text are longer than
		return []gguf.KV{{Key: family + ".attention.sliding_window", Value: uint32(32)}}
	case "gemma3", "phi3":
		return []gguf.KV{{Key: family + ".attention.sliding_window", Value: uint32(1024)}} // more than a window of text
	case "glm4moe":
		return []gguf.KV{{Key: family + ".expert_weights_scale", Value: float32(1)}}
	case "granite", "granitemoe":
		return []gguf.KV{{Key: family + ".attention.scale", Value: float32(0.125)}} // by the root of a head's 64 elements
	}
	return nil
}

// depths are the numbers of layers that tell a family's models apart.
var depths = map[string][]int{"baichuan": {32, 40}} // rotated, and with ALiBi

// specs returns the models of a family: of each depth that means something to it. Widths are whole blocks of every
// type.
func specs(f lineage.Family) (all []synth.Spec) {
	s := synth.Spec{Arch: f.Name, Layers: 5, Embd: usualWidth, FF: 768, Heads: 4, Vocab: 640, Activation: f.Activation.String(), Seed: 11, Keys: required(f.Name)}
	if !slices.Contains(ownKeys, f.Name) && !f.Latent {
		s.KVHeads = 2
	}
	for _, n := range depths[f.Name] {
		s.Layers = n
		all = append(all, s)
	}
	if all == nil {
		all = append(all, s)
	}
	if f.KeysByHead() { // llama.cpp tells by the depth whether queries depend on the input
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

// directQueries is a number of layers for which llama.cpp assumes that a model of DeepSeek 2's form computes its
// queries directly from the input.
const directQueries = 27

// peer is another program.
type peer struct{ name, path string }

// bench is one comparison.
type bench struct {
	ours, text      string
	peers           []peer
	embedders       []peer // paths of llama-embedding
	forms           []form
	context, chunks int
	cache           string
	jobs            int
	dir             string // folder of models
	out             io.Writer
	mu              sync.Mutex            // guards those below
	worst           map[string]difference // by peer and type
	compared        map[string]int
	failures        []string
	unfinished      int // models that our program has no perplexity of
}

// form is how the matrices of a column are stored: all in one type, or in a mixture.
type form struct {
	name  string
	typ   quant.Type     // type of all matrices, unless mixed
	mix   convert.Output // type of mixtures, and of matrices too narrow for typ
	mixed bool
}

func parseForm(name string) (form, error) {
	if typ, ok := quant.Named(name, quant.Types()); ok {
		return form{name: typ.String(), typ: typ, mix: convert.OutputOf(typ)}, nil
	}
	mix, err := convert.ParseOutput(name)
	if err != nil {
		return form{}, fmt.Errorf("types: %q is no type (%s) and no mixture (%s)", name, quant.Supported(), convert.OutTypes())
	}
	return form{name: mix.String(), mix: mix, mixed: true}, nil
}

// write makes a model. Mixtures, and what stands for a type that a width does not allow, come by quantising.
func (f form) write(ctx context.Context, path string, s synth.Spec) error {
	if s.Type = f.typ; !f.mixed && s.Check() == nil {
		return synth.Write(ctx, path, s, nil)
	}
	whole := path + ".f32"
	defer os.Remove(whole)
	s.Type = quant.F32
	if err := synth.Write(ctx, whole, s, nil); err != nil {
		return err
	}
	file, err := gguf.Open(whole)
	if err != nil {
		return err
	}
	defer file.Close()
	return convert.Quantize(ctx, file, path, convert.Quantization{Output: f.mix, Pure: !f.mixed, Threads: 1})
}

// difference is the largest of a column, in percent.
type difference struct {
	percent float64
	of      string
}

func compare(ctx context.Context, c *cli.Command, out io.Writer) error {
	dir, err := os.MkdirTemp("", "families")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{
		ours: c.String("powerinfer"), text: c.String("text"), context: c.Int("context"), chunks: c.Int("chunks"), cache: c.String("cache"),
		jobs: max(1, c.Int("jobs")), dir: dir, out: out,
	}
	for flag, list := range map[string]*[]peer{"peer": &b.peers, "embedder": &b.embedders} {
		for _, text := range c.StringSlice(flag) {
			name, path, ok := strings.Cut(text, "=")
			if !ok {
				return fmt.Errorf("--%s %q is not NAME=PATH", flag, text)
			}
			*list = append(*list, peer{name, path})
		}
	}
	of := specs
	if n := c.Int("random"); n > 0 {
		of = func(f lineage.Family) []synth.Spec { return random(f, n, c.Uint64("seed")) }
	}
	if err := b.table(ctx, c.String("types"), c.String("only"), of); err != nil {
		return err
	}
	if len(b.embedders) > 0 {
		fmt.Fprintln(out)
		if err := b.embeddings(ctx, c.String("only")); err != nil {
			return err
		}
	}
	if c.String("rare") == "" {
		return nil
	}
	fmt.Fprintln(out)
	return b.table(ctx, c.String("rare"), c.String("rare-of"), of)
}

// table writes a table of the families that only names, or all, and what it comes to.
func (b *bench) table(ctx context.Context, types, only string, specs func(lineage.Family) []synth.Spec) error {
	b.forms, b.worst, b.compared, b.failures, b.unfinished = nil, map[string]difference{}, map[string]int{}, nil, 0
	for name := range strings.SplitSeq(types, ",") {
		f, err := parseForm(name)
		if err != nil {
			return err
		}
		b.forms = append(b.forms, f)
	}
	b.head()
	var lines []chan string
	running := make(chan struct{}, b.jobs)
	for _, f := range lineage.All() {
		if f.Headless || only != "" && !slices.Contains(strings.Split(only, ","), f.Name) {
			continue
		}
		for _, s := range specs(f) {
			line, n := make(chan string, 1), len(lines)
			lines = append(lines, line)
			go func() {
				running <- struct{}{}
				defer func() { <-running }()
				line <- b.family(ctx, f, s, filepath.Join(b.dir, fmt.Sprintf("%d.gguf", n)))
			}()
		}
	}
	for _, line := range lines {
		fmt.Fprint(b.out, <-line)
	}
	b.foot()
	if b.unfinished > 0 {
		return fmt.Errorf("%d cells have no perplexity of ours: see the list", b.unfinished)
	}
	return nil
}

// head writes the head of the table: for each type our perplexity, and by how many percent each peer's differs.
func (b *bench) head() {
	fmt.Fprint(b.out, "| family |")
	for _, f := range b.forms {
		fmt.Fprintf(b.out, " %s |", f.name)
		for _, p := range b.peers {
			fmt.Fprintf(b.out, " %s |", p.name)
		}
	}
	fmt.Fprintf(b.out, "\n|---|%s\n", strings.Repeat("---|", len(b.forms)*(1+len(b.peers))))
}

// family returns a family's line of the table. It writes the model to path.
func (b *bench) family(ctx context.Context, f lineage.Family, s synth.Spec, path string) string {
	defer os.Remove(path)
	name := title(f, s)
	line := fmt.Sprintf("| %s |", name)
	ended := map[string]string{}
	// One thread: the peers' threads wait for each other by spinning, which takes minutes on a busy machine.
	args := []string{"-m", path, "-f", b.text, "-c", strconv.Itoa(b.context), "--chunks", strconv.Itoa(b.chunks), "-t", "1", "-ctk", b.cache, "-ctv", b.cache}
	for _, form := range b.forms {
		err := form.write(ctx, path, s)
		var ours float64
		if err == nil {
			ours, err = perplexity(ctx, b.ours, append([]string{"perplexity"}, args...))
		}
		if err != nil {
			b.fail(name, form, err)
			line += " fails |" + strings.Repeat(" |", len(b.peers))
			continue
		}
		line += fmt.Sprintf(" %.4f |", ours)
		for _, p := range b.peers {
			line += b.cell(ctx, p, name, form, ours, args, ended)
		}
	}
	return line + "\n"
}

// fail notes why our program has no perplexity of a model.
func (b *bench) fail(name string, f form, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unfinished++
	b.failures = append(b.failures, fmt.Sprintf("ours, %s, %s: %v", name, f.name, err))
}

// cell returns how far a peer's perplexity is from ours. ended holds the cells of the peers that have ended with an
// error, which are not asked again.
func (b *bench) cell(ctx context.Context, p peer, name string, f form, ours float64, args []string, ended map[string]string) string {
	if cell := ended[p.name]; cell != "" {
		return cell
	}
	theirs, err := perplexity(ctx, p.path, p.args(args))
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, errUnknown):
		ended[p.name] = " unknown |"
		return ended[p.name]
	case err != nil:
		b.failures = append(b.failures, fmt.Sprintf("%s, %s, %s: %v", p.name, name, f.name, err))
		if !errors.Is(err, errSilent) {
			ended[p.name] = " fails |"
		}
		return " fails |"
	}
	key, d := p.name+" "+f.name, 100*math.Abs(ours/theirs-1)
	if d >= b.worst[key].percent {
		b.worst[key] = difference{d, name}
	}
	b.compared[key]++
	return fmt.Sprintf(" %.3f %% |", d)
}

// args returns what the peer is given. Flash attention of llama.cpp rounds more than its other attention, which random
// models with experts magnify to one percent, and ends with a failed assertion where keys and values are widened from
// narrow vectors, as in PLM.
func (p peer) args(args []string) []string {
	if p.name == "llama.cpp" {
		return append(slices.Clone(args), "-fa", "off")
	}
	return args
}

// foot sums the table up.
func (b *bench) foot() {
	fmt.Fprint(b.out, "\n| peer | type | models | largest difference |\n|---|---|---|---|\n")
	for _, p := range b.peers {
		for _, f := range b.forms {
			key := p.name + " " + f.name
			fmt.Fprintf(b.out, "| %s | %s | %d | %.3f %% (%s) |\n", p.name, f.name, b.compared[key], b.worst[key].percent, b.worst[key].of)
		}
	}
	b.listFailures()
}

// listFailures writes why cells say that a program fails.
func (b *bench) listFailures() {
	if len(b.failures) > 0 {
		fmt.Fprintln(b.out)
	}
	for _, s := range b.failures {
		fmt.Fprintf(b.out, "- %s\n", s)
	}
}

// errUnknown is the error of a program that does not know a model's architecture.
var errUnknown = errors.New("unknown")

// errSilent is the error of a program that has not said a perplexity, though it ended well.
var errSilent = errors.New("it ended without a last line")

// complaint finds the lines in which llama.cpp and ik_llama.cpp say why they end.
var complaint = regexp.MustCompile(`(?:error loading model: |GGML_ASSERT\(|fatal error: |key not found in model: ).*`)

// reason returns why a program ended, in its words.
func reason(err error, text []byte) error {
	if found := complaint.Find(text); found != nil {
		return errors.New(string(found))
	}
	return fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(string(tail(text))), " "))
}

// estimate finds all programs' last line: ik_llama.cpp's says over what.
var estimate = regexp.MustCompile(`PPL (?:over .* )?= ([0-9.]+)`)

// attempts is the number of times a program is run that ends without its last line: llama.cpp's log is written by a
// thread that its exit may cut off.
const attempts = 12

func perplexity(ctx context.Context, program string, args []string) (float64, error) {
	err := errSilent
	for range attempts {
		text, ended := exec.CommandContext(ctx, program, args...).CombinedOutput()
		if found := estimate.FindSubmatch(text); found != nil && ended == nil {
			return strconv.ParseFloat(string(found[1]), 64)
		}
		switch {
		case strings.Contains(string(text), "unknown model architecture") || strings.Contains(string(text), "unknown architecture"):
			return 0, errUnknown
		case ended != nil:
			if err = reason(fmt.Errorf("%s: %w", filepath.Base(program), ended), text); len(bytes.TrimSpace(text)) > 0 {
				return 0, err
			}
		}
	}
	return 0, err
}

func tail(b []byte) []byte { return b[max(0, len(b)-400):] }
