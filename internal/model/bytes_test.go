package model_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// TestSameBytes: threads change no bit, and neither does the cutting of a prompt into steps where layers are dense. By neuron, all
// steps of up to eight tokens agree, and longer ones are matrix products with a rounding of their own.
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
		all = append(all, models{fmt.Sprintf("%s %s", s.Arch, s.Type), synthetic(t, s), model.Predict, sparseTokens})
	}
	long, short := [][]int{{64}, {9, 1, 10}}, [][]int{{1}, {7, 1, 2, 8}}
	for _, m := range all {
		agree := [][][]int{slices.Concat(short, long)} // what is in one list gives the same bytes
		if m.mode != model.Off {
			agree = [][][]int{long[:1], long[1:], short}
		}
		for _, k := range kernel.Variants() {
			kernels, most := k.Name, 4
			if kernels == "generic" { // slow, and row by row: threads can hardly matter
				most = 2
			}
			t.Run(fmt.Sprintf("%s/%s/%s", m.name, m.mode, kernels), func(t *testing.T) {
				want := make([][][]float32, len(agree))
				for threads := 1; threads <= most; threads++ {
					loaded := load(t, m.file, cpu.Options{Threads: threads, ThreadsBatch: 5 - threads, Kernels: kernels}, m.mode)
					for i, plans := range agree {
						for _, steps := range plans {
							got := evaluate(t, loaded, m.tokens, steps...)
							if want[i] == nil {
								want[i] = got
							}
							if at := differ(got, want[i]); at >= 0 {
								t.Fatalf("%d threads, steps %v: logits of position %d differ", threads, steps, at)
							}
						}
					}
				}
			})
		}
	}
}

// differ is the first position whose logits are not the same bytes, or -1.
func differ(a, b [][]float32) int {
	for i := range a {
		if !slices.Equal(a[i], b[i]) {
			return i
		}
	}
	return -1
}
