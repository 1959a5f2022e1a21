// Command experts simulates which experts are on a GPU while text is generated. It replays recorded or synthetic uses of
// experts against ways to place them, with the same code that plans and decides when a model runs (internal/placement,
// internal/residency), and prints the time of a token. Its command cache does so for the units of a model that is larger
// than RAM, and prints which of them stay in RAM.
//
//	go run ./bench/experts                                    # the table of docs/benchmarks/2026-11-experts-simulated.md
//	go run ./bench/experts --model model.gguf --text book.txt --save uses.jsonl
//	go run ./bench/experts --model qwen3-30b-a3b --machine gpu8 --trace uses.jsonl
//	go run ./bench/experts --model qwen3-30b-a3b --machine gpu8 --habits zipf=1,drift=0.7,topic=100,sticky=1
//	go run ./bench/experts --tokens 3000 cache                # the tables of docs/benchmarks/2026-11-cache-simulated.md
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

const gib = 1 << 30

// models are published shapes with experts in four and a half bits, keys and values of 8,192 positions.
func models() []shape {
	return []shape{
		{Name: "qwen3-30b-a3b", Layers: 48, Experts: 128, Used: 8, Expert: bits(3 * 2048 * 768), Dense: bits(2048*(4096*2+2*512)) + kv(4*128*2), Head: bits(151936 * 2048)},
		{Name: "gpt-oss-120b", Layers: 36, Experts: 128, Used: 4, Expert: bits(3 * 2880 * 2880), Dense: bits(2880*(4096*2+2*512)) + kv(8*64*2), Head: bits(201088 * 2880)},
		{Name: "glm-4.5-air", Layers: 45, Experts: 128, Used: 8, Expert: bits(3 * 4096 * 1408), Dense: bits(4096*(12288*2+2*1024)+3*4096*1408) + kv(8*128*2), Head: bits(151552 * 4096)},
		{Name: "deepseek-v3", Layers: 58, Experts: 256, Used: 8, Expert: bits(3 * 7168 * 2048), Dense: bits(187e6+3*7168*2048) + kv(576), Head: bits(129280 * 7168)},
	}
}

// bits returns the bytes of this many weights.
func bits(weights int64) int64 { return weights * 9 / 16 }

// kv returns the bytes of 8,192 positions of this many elements in F16.
func kv(elements int64) int64 { return 8192 * 2 * elements }

// machines are described computers: RAM of two or eight channels of DDR5, and cards of three sizes on PCIe 4, which
// have a queue for copies.
func machines() []machine {
	gpu := func(name string, ram, read, bus float64, budget int64) machine {
		return machine{name, placement.Machine{
			Stream: ram, Rows: ram, HandOff: 50e-6,
			GPUs: []placement.GPU{{Name: name, Read: read, Launch: 30e-6, Budget: budget, Overhead: gib / 2}},
		}, bus, staging, true}
	}
	return []machine{
		gpu("gpu8", 60e9, 250e9, 12e9, 75*gib/10),
		gpu("gpu12", 60e9, 450e9, 22e9, 115*gib/10),
		gpu("gpu24", 60e9, 900e9, 22e9, 232*gib/10),
		gpu("gpu24-server", 200e9, 900e9, 22e9, 232*gib/10),
	}
}

// staging is the rate, in bytes per second, at which a goroutine that rests half the time stages experts; see
// BenchmarkStage of package hybrid.
const staging = 0.5e9

// texts are the synthetic traces. The third has the figures of one published study (the hottest 32 of 512 experts take
// a tenth of the uses, and an LRU cache of a quarter of the experts has 81 % hits). The last has those of another (a
// tenth of the experts takes 80 % of the uses).
func texts() []habits {
	return []habits{
		{Name: "even", Zipf: 0},
		{Name: "skewed", Zipf: 0.6},
		{Name: "drifting", Zipf: 1, Drift: 1, Topic: 400, Sticky: 1.5},
		{Name: "mixed", Zipf: 0.8, Drift: 0.5, Topic: 200, Sticky: 1},
		{Name: "quick", Zipf: 1, Drift: 0.8, Topic: 40, Sticky: 0.5},
		{Name: "steep", Zipf: 1.6, Drift: 0.2, Topic: 200},
	}
}

func main() {
	c := &cli.Command{
		Name:  "experts",
		Usage: "simulate which experts lie on a GPU while text is generated",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "model", Usage: "only this one of the published shapes, or that of a GGUF file"},
			&cli.StringFlag{Name: "machine", Usage: "only this one"},
			&cli.StringFlag{Name: "trace", Usage: "`FILE` of a recorded text's uses instead of synthetic ones, a line for each token: a JSON array of its layers' arrays of experts"},
			&cli.StringFlag{Name: "text", Usage: "have the model of the GGUF file read the text in `FILE`, and play the uses of that"},
			&cli.StringFlag{Name: "save", Usage: "write those uses to `FILE`, as --trace takes them"},
			&cli.StringFlag{Name: "habits", Usage: "a synthetic text of these properties instead of those of the table: zipf=1,drift=0.5,topic=200,sticky=1, an exponent by rank, the share of it that is the topic's own, a topic's tokens, and the logarithm of how much likelier an expert is that the token before used"},
			&cli.FloatFlag{Name: "vram", Usage: "usable `GIB` of the GPUs, instead of their own"},
			&cli.IntFlag{Name: "tokens", Value: 1500, Usage: "of a synthetic text; at most, of one that is read"},
			&cli.Uint64Flag{Name: "seed", Aliases: []string{"s"}, Value: 1, Usage: "of the synthetic texts"},
		},
		Commands: []*cli.Command{cacheCommand()},
		Action:   func(ctx context.Context, c *cli.Command) error { return run(ctx, c, os.Stdout) },
	}
	if err := c.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "experts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c *cli.Command, out io.Writer) error {
	shapes, f, err := shapesOf(c.String("model"))
	if err != nil {
		return err
	}
	if f != nil {
		defer f.Close()
	}
	var all summary
	for _, m := range shapes {
		pairs, err := pairsOf(ctx, c, m, f)
		if err != nil {
			return err
		}
		describe(out, m, pairs)
		for _, on := range machines() {
			if only := c.String("machine"); only != "" && only != on.Name {
				continue
			}
			if v := c.Float("vram"); v > 0 {
				on.GPUs[0].Budget = int64(v * gib)
				on.GPUs[0].Overhead = min(on.GPUs[0].Overhead, on.GPUs[0].Budget/8)
			}
			if g := on.GPUs[0]; m.bytes() <= g.Budget-g.Overhead {
				fmt.Fprintf(out, "\n%s fits into the memory of %s whole\n", m.Name, on.Name)
				continue
			}
			fmt.Fprintf(out, "\n%s on %s, tokens per second (hits; MB copied for a token)\n\n| text | processor | `-ncmoe` | planned | LRU, fetched | LFU, fetched | adaptive | adaptive, nothing known |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
				m.Name, on.Name)
			for _, p := range pairs {
				r, err := compete(m, on, p)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "| %s |", p.name)
				for _, v := range r {
					fmt.Fprintf(out, " %s |", v)
				}
				fmt.Fprintln(out)
				all.add(p.name, r)
			}
		}
	}
	all.print(out)
	return nil
}

// ratio compares the speeds of two ways, by their numbers in the results of compete.
type ratio struct {
	name    string
	way, to int
}

var ratios = []ratio{
	{"over `-ncmoe`", adaptive, ncmoe}, {"over the plan", adaptive, planned}, {"over LRU, fetched", adaptive, lru}, {"nothing known, over `-ncmoe`", unknown, ncmoe},
}

// summary has of each text the least and the greatest of each of ratios, over models and machines.
type summary struct {
	texts []string
	of    map[string][][2]float64
}

func (s *summary) add(text string, r results) {
	if s.of[text] == nil {
		if s.of == nil {
			s.of = map[string][][2]float64{}
		}
		s.texts = append(s.texts, text)
		for range ratios {
			s.of[text] = append(s.of[text], [2]float64{math.Inf(1), 0})
		}
	}
	for i, q := range ratios {
		v := r[q.to].seconds / r[q.way].seconds
		bounds := &s.of[text][i]
		bounds[0], bounds[1] = min(bounds[0], v), max(bounds[1], v)
	}
}

func (s *summary) print(out io.Writer) {
	fmt.Fprint(out, "\nTokens per second of the policy over those of other ways, the least and the greatest of all models and machines\n\n| text |")
	for _, q := range ratios {
		fmt.Fprintf(out, " %s |", q.name)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---:|", len(ratios)))
	for _, text := range s.texts {
		fmt.Fprintf(out, "| %s |", text)
		for _, b := range s.of[text] {
			fmt.Fprintf(out, " %.3f–%.3f |", b[0], b[1])
		}
		fmt.Fprintln(out)
	}
}

// pair is a trace that is played, and a profile: a trace that is known before.
type pair struct {
	name           string
	profile, trace trace
}

// shapesOf returns the published shapes, the one of that name, or the one of a file, which stays open.
func shapesOf(name string) ([]shape, *gguf.File, error) {
	all := models()
	if name == "" {
		return all, nil, nil
	}
	if i := slices.IndexFunc(all, func(s shape) bool { return s.Name == name }); i >= 0 {
		return all[i : i+1], nil, nil
	}
	f, err := gguf.Open(name)
	if err != nil {
		return nil, nil, err
	}
	s, err := shapeOf(f)
	return []shape{s}, f, err
}

// halves splits a recorded text into a pair: its first half is known before its second half is played.
func halves(name string, t trace, layers int) ([]pair, error) {
	if len(t) < 2 || len(t[0]) != layers {
		return nil, fmt.Errorf("%s: %d tokens; needed are two, of %d layers", name, len(t), layers)
	}
	return []pair{{name, t[:len(t)/2], t[len(t)/2:]}}, nil
}

func pairsOf(ctx context.Context, c *cli.Command, m shape, f *gguf.File) (all []pair, err error) {
	if path := c.String("text"); path != "" {
		if f == nil {
			return nil, errors.New("--text: --model must be a GGUF file, whose model reads the text")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		t, err := record(ctx, f, string(text), c.Int("tokens"))
		if err != nil {
			return nil, err
		}
		if save := c.String("save"); save != "" {
			if err := t.write(save); err != nil {
				return nil, err
			}
		}
		return halves(path, t, m.Layers)
	}
	if path := c.String("trace"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		t, err := read(f, m.Experts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return halves(path, t, m.Layers)
	}
	list := texts()
	if text := c.String("habits"); text != "" {
		h, err := parseHabits(text)
		if err != nil {
			return nil, err
		}
		list = []habits{h}
	}
	for i, h := range list {
		seed := c.Uint64("seed") + uint64(1000*i)
		all = append(all, pair{h.Name, h.synthesize(m.Layers, m.Experts, m.Used, c.Int("tokens"), seed), h.synthesize(m.Layers, m.Experts, m.Used, c.Int("tokens"), seed+500)})
	}
	return all, nil
}

func describe(out io.Writer, m shape, pairs []pair) {
	fmt.Fprintf(out, "\n%s: %d layers of %d experts, %d used, %.1f MB each\n\n| text | uses by the hottest tenth | hits of an LRU quarter | entropy, bits | used again by the next token |\n|---|---:|---:|---:|---:|\n",
		m.Name, m.Layers, m.Experts, m.Used, float64(m.Expert)/1e6)
	for _, p := range pairs {
		q := p.trace.properties(m.Experts)
		fmt.Fprintf(out, "| %s | %.0f %% | %.0f %% | %.2f | %.0f %% |\n", p.name, 100*q.top, 100*q.lru, q.entropy, 100*q.again)
	}
}

func (r result) String() string {
	return fmt.Sprintf("%.1f (%.0f %%; %.0f)", 1/r.seconds, 100*r.hits, r.copied/1e6)
}

// The ways, in the order of the table.
const (
	processor = iota
	ncmoe
	planned
	lru
	lfu
	adaptive
	unknown // adaptive, nothing known
	ways
)

type results [ways]result

// compete returns what each way gives.
func compete(m shape, on machine, p pair) (all results, err error) {
	c := newSetting(m, on, p.profile)
	layers, err := c.ncmoe()
	if err != nil {
		return all, err
	}
	plan, err := c.placed()
	if err != nil {
		return all, err
	}
	cpu, err := placement.Solve(c.model(), placement.Machine{Stream: on.Stream, Rows: on.Rows, HandOff: on.HandOff})
	if err != nil {
		return all, err
	}
	all = results{
		processor: c.planned(&cpu, p.trace), ncmoe: c.planned(&layers, p.trace), planned: c.planned(&plan, p.trace),
		lru: c.fetching(p.trace, recently), lfu: c.fetching(p.trace, often),
	}
	if all[adaptive], err = c.adaptive(&plan, p.trace, residency.Tuned()); err != nil {
		return all, err
	}
	c = newSetting(m, on, nil)
	if plan, err = c.placed(); err != nil {
		return all, err
	}
	all[unknown], err = c.adaptive(&plan, p.trace, residency.Tuned())
	return all, err
}
