package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestSameBytes: neither the number of threads nor the cutting of a prompt into steps changes a bit. In modes by neuron
// this holds for steps of up to 63 tokens: longer ones may be matrix products, which round differently.
func TestSameBytes(t *testing.T) {
	r, demo := loadReference(t)
	type models struct {
		name   string
		file   *gguf.File
		mode   model.SparseMode
		tokens []int32
	}
	all := []models{{"demo", demo, model.Off, r.IDs[:24]}, {"demo", demo, model.Exact, r.IDs[:24]}}
	for _, s := range []synth.Spec{
		{Arch: "llama", Type: quant.F16, Magic: "PWRI"},
		{Arch: "bamboo", Type: quant.Q4_0, Magic: "PWRI"},
		{Arch: "opt", Type: quant.Q4_0, Magic: "PWRI"},
	} {
		all = append(all, models{fmt.Sprintf("%s %s", s.Arch, s.Type), synthtest.Sparse(t, s, 2), model.Predict, sparseTokens})
	}
	experts := synth.Spec{Arch: "smallthinker", Type: quant.Q4_0}
	all = append(all, models{"smallthinker", synthtest.Sparse(t, experts, 2), model.Exact, sparseTokens})
	for _, m := range testenv.Few(t, 2, all) {
		for _, k := range kernel.Variants() {
			most := 4
			if k.Name == kernel.Generic { // slow, and row by row: threads can hardly matter
				most = 2
				if m.mode == model.Off || strings.HasPrefix(m.name, "opt") {
					continue
				}
			}
			t.Run(fmt.Sprintf("%s/%s/%s", m.name, m.mode, k.Name), func(t *testing.T) {
				t.Parallel()
				var short, long [][]float32
				same := func(got [][]float32, want *[][]float32, what string) {
					if *want == nil {
						*want = got
					}
					if at := differ(got, *want); at >= 0 {
						t.Fatalf("%s: logits of position %d differ", what, at)
					}
				}
				for threads := 1; threads <= most; threads++ {
					loaded := load(t, m.file, cpu.Options{Threads: threads, ThreadsBatch: 5 - threads, Set: k.Name}, m.mode)
					for _, steps := range [][]int{{1}, {7, 1, 2, 10}, {64}} {
						same(evaluate(t, loaded, m.tokens, steps...), &short, fmt.Sprintf("%d threads, steps %v", threads, steps))
					}
					if k.Name != kernel.Generic {
						four := slices.Concat(m.tokens, m.tokens, m.tokens, m.tokens)
						same(evaluate(t, loaded, four[:64], 64), &long, fmt.Sprintf("%d threads, a step of 64", threads))
					}
				}
			})
		}
	}
}

// differ returns the first position at which the logits do not have the same bytes, or -1.
func differ(a, b [][]float32) int {
	for i := range a {
		if !slices.Equal(a[i], b[i]) {
			return i
		}
	}
	return -1
}
