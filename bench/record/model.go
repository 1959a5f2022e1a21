package main

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// tale is the beginning of "The Frog-Prince" in Edgar Taylor's translation of 1823.
//
//go:embed tale.txt
var tale string

// Files in the subject's folder.
const (
	textFile  = "tale.txt"        // what perplexity is measured on
	wordsFile = "calibration.txt" // what prepare reads
)

// writeTexts writes the tale twice, enough for windows of the embedded model's larger tokens, and its words in random
// order.
func (s *subject) writeTexts() error {
	if err := os.WriteFile(filepath.Join(s.dir, textFile), []byte(tale+tale), 0o644); err != nil {
		return err
	}
	const words = 12000 // about 35,000 synthetic tokens: prepare asks for 8192, and holds documents out
	list, rng := strings.Fields(tale), rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range words {
		b.WriteString(list[rng.IntN(len(list))])
		if i%400 == 399 {
			b.WriteString("\n\n\n") // documents end here
		} else {
			b.WriteByte(' ')
		}
	}
	return os.WriteFile(filepath.Join(s.dir, wordsFile), []byte(b.String()), 0o644)
}

// model is a model of the cases. The zero spec is the embedded model.
type model struct {
	name     string
	spec     synth.Spec
	prepared bool
	modes    []string // values of --sparse
}

func (m *model) embedded() bool { return m.spec.Arch == "" }

// flags name the model on a command line.
func (m *model) flags() []string {
	if m.embedded() {
		return nil
	}
	return []string{"-m", m.file()}
}

func (m *model) file() string { return strings.ReplaceAll(m.name, " ", "-") + ".gguf" }

// plainFile returns what a prepared model is made from.
func (m *model) plainFile() string { return "plain-" + m.file() }

func families() []string { return []string{"llama", "qwen2", "qwen3", "falcon", "opt", "bamboo"} }

func types() []quant.Type {
	return []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q6_K}
}

// spec returns a small model with rows that fill the blocks of every type. Families with grouped heads have grouped
// heads.
func spec(family string, t quant.Type) synth.Spec {
	s := synth.Spec{Arch: family, Type: t, Layers: 2, Embd: 256, FF: 512, Heads: 4, Sparsity: 0.9, PowerLaw: 1, Seed: 11}
	switch family {
	case "llama", "qwen3", "bamboo":
		s.KVHeads = 2
	case "falcon":
		s.KVHeads = 1
	}
	return s
}

func typeName(t quant.Type) string { return strings.ToLower(t.String()) }

// plainModels returns all families in all types, and some models with activations that are never zero.
func plainModels() []*model {
	var list []*model
	for _, family := range families() {
		for _, t := range types() {
			list = append(list, &model{name: family + " " + typeName(t), spec: spec(family, t), modes: []string{"off", "exact"}})
		}
	}
	for _, v := range []struct{ family, activation string }{{"llama", "silu"}, {"qwen3", "silu"}, {"falcon", "gelu"}} {
		m := &model{name: v.family + " q4_0 " + v.activation, spec: spec(v.family, quant.Q4_0), modes: []string{"off"}}
		m.spec.Activation, m.spec.Sparsity, m.spec.PowerLaw = v.activation, 0, 0
		list = append(list, m)
	}
	wide := &model{name: "falcon f16 two-norms", spec: spec("falcon", quant.F16), modes: []string{"off", "exact"}}
	wide.spec.AttnNorm2, wide.spec.KVHeads = true, 2
	return append(list, wide)
}

// preparedModels are made by the binary's own prepare, which takes seconds each: llama in all types, the other families
// in two.
func preparedModels() []*model {
	var list []*model
	for _, family := range families() {
		for _, t := range types() {
			if family == "llama" || t == quant.F16 || t == quant.Q4_0 {
				list = append(list, &model{
					name: family + " " + typeName(t) + " prepared", spec: spec(family, t), prepared: true, modes: []string{"off", "exact", "predict"},
				})
			}
		}
	}
	return list
}

// originalModels have the original PowerInfer's form and predictors.
func originalModels() []*model {
	var list []*model
	for _, family := range []string{"llama", "falcon", "opt", "bamboo"} {
		for _, t := range []quant.Type{quant.F16, quant.Q4_0} {
			m := &model{name: family + " " + typeName(t) + " original", spec: spec(family, t), modes: []string{"off", "exact", "predict"}}
			m.spec.Magic = "PWRI"
			list = append(list, m)
		}
	}
	return list
}

func embeddedModel() *model {
	return &model{name: "embedded", modes: []string{"off", "exact", "predict"}}
}

// makeModels writes the models that questions are about.
func (s *subject) makeModels(ctx context.Context, all []question, jobs int) error {
	var list []*model
	seen := map[*model]bool{}
	for _, q := range all {
		if q.model != nil && !q.model.embedded() && !seen[q.model] {
			seen[q.model] = true
			list = append(list, q.model)
		}
	}
	return each(ctx, "making models", len(list), jobs, func(i int) error { return s.make(ctx, list[i]) })
}

func (s *subject) make(ctx context.Context, m *model) error {
	if !m.prepared {
		return synth.Write(ctx, filepath.Join(s.dir, m.file()), m.spec, nil)
	}
	if err := synth.Write(ctx, filepath.Join(s.dir, m.plainFile()), m.spec, nil); err != nil {
		return err
	}
	args := []string{"prepare", "-m", m.plainFile(), "-o", m.file(), "-f", wordsFile, "--tokens", "8192", "-t", "1"}
	if m.spec.Type != quant.F32 && m.spec.Type != quant.F16 && m.spec.Type != quant.BF16 {
		args = append(args, "--allow-requantize")
	}
	if _, err := s.run(ctx, args...); err != nil {
		return fmt.Errorf("preparing %s: %w", m.name, err)
	}
	return nil
}
