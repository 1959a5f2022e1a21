package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

func cacheCommand() *cli.Command {
	return &cli.Command{
		Name:  "cache",
		Usage: "simulate which units of a model that is larger than RAM stay in RAM, and print the tables of docs/benchmarks/2026-11-cache-simulated.md, or those of one text",
		Flags: []cli.Flag{
			&cli.FloatFlag{Name: "half-life", Value: residency.TunedCache().HalfLife, Usage: "`TOKENS` after which a use counts half"},
		},
		Action: func(ctx context.Context, c *cli.Command) error { return runCache(ctx, c, os.Stdout) },
	}
}

// The models of the tables: some layers of Qwen3-30B-A3B's experts, and of a dense model's neurons.
const (
	cacheLayers, cacheExperts, cacheUsed = 12, 128, 8
	neuronLayers, neurons                = 8, 2048
)

// Sizes of caches, in percent of the units.
var cacheSizes = []int{25, 50, 75}

// at is the number of texts that are written at the same time.
const at = 4

// stories are the table's stories. Every text has this many tokens, four texts at a time together.
func stories(tokens int, seed uint64) (all []story) {
	write := func(h habits, text uint64, tokens int) trace {
		return h.synthesize(cacheLayers, cacheExperts, cacheUsed, tokens, seed+text)
	}
	for i, h := range append([]habits{{Name: "favourites", Zipf: 1}}, texts()...) {
		text := uint64(1000 * i)
		t := write(h, text, tokens)
		all = append(all, storyOf(h.Name, t, cacheExperts, false))
		if h.Name != "favourites" && h.Name != "drifting" && h.Name != "mixed" {
			continue
		}
		all = append(all, storyOf(h.Name+", with prompts", t, cacheExperts, true))
		var four []trace
		for k := range uint64(at) {
			four = append(four, write(h, text+k, tokens/at))
		}
		all = append(all, together(h.Name+", four at a time", four, cacheExperts))
	}
	for i, h := range neuronTexts() {
		all = append(all, storyOf(h.Name, h.synthesize(neuronLayers, neurons, tokens/2, seed+uint64(i)), neurons, false))
	}
	return all
}

func neuronTexts() []neuronHabits {
	return []neuronHabits{
		{habits{Name: "neurons, 15 % active, rank^-0.5", Zipf: 0.5, Sticky: 0.1}, 0.15},
		{habits{Name: "neurons, 10 % active, rank^-1", Zipf: 1, Sticky: 0.1}, 0.1},
		{habits{Name: "the same, drifting", Zipf: 1, Drift: 0.4, Topic: 300, Sticky: 0.1}, 0.1},
		{habits{Name: "neurons, 5 % active, rank^-1.5, drifting", Zipf: 1.5, Drift: 0.2, Topic: 300, Sticky: 0.2}, 0.05},
	}
}

func runCache(ctx context.Context, c *cli.Command, out io.Writer) error {
	tuning := residency.TunedCache()
	if tuning.HalfLife = c.Float("half-life"); !(tuning.HalfLife > 0) {
		return errors.New("--half-life must be positive")
	}
	var all []story
	if c.String("model") == "" && c.String("habits") == "" {
		all = stories(c.Int("tokens"), c.Uint64("seed"))
	} else {
		shapes, f, err := shapesOf(c.String("model"))
		if err != nil {
			return err
		}
		if f != nil {
			defer f.Close()
		}
		for _, m := range shapes {
			pairs, err := pairsOf(ctx, c, m, f)
			if err != nil {
				return err
			}
			for _, p := range pairs {
				all = append(all, storyOf(m.Name+", "+p.name, append(p.profile, p.trace...), m.Experts, false))
			}
		}
	}
	fmt.Fprint(out, "Hits of LRU / LFU / the cache / the clairvoyant, in percent of the uses\n\n| text |")
	for _, of := range cacheSizes {
		fmt.Fprintf(out, " %d %% of the units |", of)
	}
	fmt.Fprintf(out, "\n|---|%s\n", columns(len(cacheSizes)))
	for i := range all {
		s := &all[i]
		fmt.Fprintf(out, "| %s |", s.name)
		for _, of := range cacheSizes {
			n := s.units * of / 100
			fmt.Fprintf(out, " %.1f / %.1f / %.1f / %.1f |", 100*leastRecently(s, n).hits(), 100*leastOften(s, n).hits(), 100*cached(s, n, tuning, 0).hits(), 100*clairvoyant(s, n).hits())
		}
		fmt.Fprintln(out)
	}
	guessTable(out, all, tuning)
	return nil
}

func columns(n int) (s string) {
	for range n {
		s += "---:|"
	}
	return s
}

// guessTable prints the effect of predictions with half of the units in RAM.
func guessTable(out io.Writer, all []story, tuning residency.CacheTuning) {
	rights := []float64{0.3, 0.5, 0.7, 0.9}
	fmt.Fprint(out, "\nUnits that steps waited for, and all that were read, over those without guesses; half of the units are in RAM\n\n| text |")
	for _, r := range rights {
		fmt.Fprintf(out, " %.0f %% right |", 100*r)
	}
	fmt.Fprintf(out, "\n|---|%s\n", columns(len(rights)))
	for i := range all {
		s := &all[i]
		without := cached(s, s.units/2, tuning, 0)
		fmt.Fprintf(out, "| %s |", s.name)
		for _, r := range rights {
			with := cached(s, s.units/2, tuning, r)
			fmt.Fprintf(out, " %.2f, %.2f |", with.misses/without.misses, (with.misses+with.guesses)/without.misses)
		}
		fmt.Fprintln(out)
	}
}
