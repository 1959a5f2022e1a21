package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// embeddings writes a table of the models of embeddings that only names, or all: how far each peer's embeddings of the
// text's lines are from ours, as the least cosine of a line.
func (b *bench) embeddings(ctx context.Context, only string) error {
	text, err := os.ReadFile(b.text)
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(s string) bool {
		return len(s) < 20 || len(s) > 200 || strings.Contains(s, `\`) // a newline that is written as an escape would be one
	})
	lines = lines[:min(len(lines), b.chunks)]
	b.failures = nil
	fmt.Fprint(b.out, "| model of embeddings |")
	for _, f := range b.forms {
		for _, p := range b.embedders {
			fmt.Fprintf(b.out, " %s, %s |", f.name, p.name)
		}
	}
	fmt.Fprintf(b.out, "\n|---|%s\n", strings.Repeat("---|", len(b.forms)*len(b.embedders)))
	for _, f := range lineage.All() {
		if !f.Headless || only != "" && !slices.Contains(strings.Split(only, ","), f.Name) {
			continue
		}
		for _, s := range specs(f) {
			s.KVHeads = s.Heads                   // as all such models have
			s.Layers = max(s.Layers, f.FullEvery) // llama.cpp ends with a failed assertion where no layer sees all positions
			if f.Experts != nil {                 // the second of every two layers has some
				s.Layers, s.Dense, s.Experts, s.Used = 2, 1, 8, 2
				s.Keys = append(s.Keys, gguf.KV{Key: f.Name + ".moe_every_n_layers", Value: uint32(2)})
			}
			fmt.Fprintf(b.out, "| %s |", title(f, s))
			for _, form := range b.forms {
				for _, cell := range b.cosines(ctx, s, form, lines) {
					fmt.Fprintf(b.out, " %s |", cell)
				}
			}
			fmt.Fprintln(b.out)
		}
	}
	b.listFailures()
	return nil
}

// cosines returns the cells of a model.
func (b *bench) cosines(ctx context.Context, s synth.Spec, f form, lines []string) (cells []string) {
	path := filepath.Join(b.dir, "embeddings.gguf")
	defer os.Remove(path)
	ours, err := [][]float64(nil), f.write(ctx, path, s)
	if err == nil {
		ours, err = embed(ctx, []string{b.ours, "embedding"}, path, lines)
	}
	for _, p := range b.embedders {
		theirs := [][]float64(nil)
		if err == nil {
			theirs, err = embed(ctx, []string{p.path}, path, lines)
		}
		if err != nil {
			cells = append(cells, "fails")
			b.failures = append(b.failures, fmt.Sprintf("%s, %s, %s: %v", p.name, s.Arch, f.name, err))
			continue
		}
		least := 1.0
		for i := range ours {
			least = min(least, cosine(ours[i], theirs[i]))
		}
		cells = append(cells, fmt.Sprintf("%.6f", least))
	}
	return cells
}

// embed returns the embeddings of lines, by a program that takes llama-embedding's flags.
func embed(ctx context.Context, program []string, model string, lines []string) (vectors [][]float64, err error) {
	args := append(program[1:], "-m", model, "-t", "1", "--embd-output-format", "array", "-p", strings.Join(lines, "\n"))
	for range attempts {
		cmd := exec.CommandContext(ctx, program[0], args...)
		var out, messages bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &messages
		if err = cmd.Run(); err != nil {
			if err = reason(fmt.Errorf("%s: %w", filepath.Base(program[0]), err), messages.Bytes()); len(bytes.TrimSpace(messages.Bytes())) > 0 {
				return nil, err
			}
			continue
		}
		if err = json.Unmarshal(out.Bytes(), &vectors); err == nil {
			break
		}
	}
	if err == nil && len(vectors) != len(lines) {
		err = fmt.Errorf("%d embeddings of %d lines", len(vectors), len(lines))
	}
	return vectors, err
}

// cosine returns the cosine of the angle between two vectors; 0 if a vector has no length.
func cosine(a, b []float64) float64 {
	if len(a) != len(b) {
		return 0
	}
	var product, first, second float64
	for i, x := range a {
		product, first, second = product+x*b[i], first+x*x, second+b[i]*b[i]
	}
	if first == 0 || second == 0 {
		return 0
	}
	return product / math.Sqrt(first*second)
}
