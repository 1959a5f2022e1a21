package model_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/devicetest"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestReplay: a forward pass of one shape calls the same verbs for all tokens, positions and activations, in every
// family and mode, so that a device may record it once.
func TestReplay(t *testing.T) {
	_, demo := loadReference(t)
	replay := func(name string, f *gguf.File, mode model.SparseMode) {
		t.Run(fmt.Sprintf("%s/%s", name, mode), func(t *testing.T) {
			dev, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			m := loadOn(t, f, devicetest.Replay(dev), mode)
			other := slices.Clone(sparseTokens)
			slices.Reverse(other)
			steps := []int{3, 1, 1, 9, 1} // decoding continues at other positions
			first := evaluate(t, m, sparseTokens, steps...)
			if second := evaluate(t, m, other, steps...); differ(first, second) != 0 {
				t.Error("other tokens have the same logits")
			}
		})
	}
	replay("demo", demo, model.Off)
	replay("demo", demo, model.Exact)
	modes := testenv.Turns(t, model.Off, model.Exact)
	for i, family := range testenv.Few(t, 7, lineage.All()) {
		if family.Headless {
			continue
		}
		f := synthtest.Sparse(t, synth.Spec{Arch: family.Name, Type: quant.Q8_0, FF: 256}, 2)
		c, err := model.ReadConfig(f, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range modes(i) {
			if _, err := c.Resolve(mode); err != nil { // the family needs every neuron
				mode = model.Off
			}
			replay(family.Name, f, mode)
		}
	}
	for _, name := range []string{"llama", "bamboo", "falcon", "opt"} {
		replay(name+" with predictors", synthtest.Sparse(t, synth.Spec{Arch: name, Type: quant.F16, Magic: "PWRI"}, 2), model.Predict)
	}
}
