package family_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// unknown are the tensors with shapes that no key determines.
var unknown = []string{
	"token_embd.", "token_types.", "position_embd.", "per_layer_token_embd.", "laurel_l.", "attn_gate.",
	"time_mix_w1.", "time_mix_a1.", "time_mix_g1.", "time_mix_v1.",
}

// TestLister: a lister lists exactly the tensors of a synthetic model's file.
func TestLister(t *testing.T) {
	dir := t.TempDir()
	for _, name := range family.Names() {
		for i, more := range []func(*synth.Spec){
			func(*synth.Spec) {},
			func(s *synth.Spec) { s.KVHeads, s.Experts, s.Used, s.Dense, s.Shared = 4, 8, 2, 1, 2 },
			func(s *synth.Spec) { s.KVHeads, s.DirectQueries = 4, true },
			func(s *synth.Spec) { s.AttnNorm2 = true },
		} {
			s := synth.Spec{Arch: name, Layers: 7, Embd: 32, FF: 64, Heads: 4, KVHeads: 2, HeadDim: 24, Vocab: 288, Type: quant.F16, Seed: 3}
			if more(&s); s.Check() != nil {
				if s.KVHeads = 4; s.Check() != nil {
					continue
				}
			}
			path := filepath.Join(dir, "m.gguf")
			if err := synth.Write(t.Context(), path, s, nil); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			held := func(name string) *gguf.Tensor {
				of := f.Tensor(name)
				if of == nil || slices.ContainsFunc(unknown, func(s string) bool { return strings.Contains(name, s) }) {
					return of
				}
				return &gguf.Tensor{}
			}
			k := &nn.Keys{File: gguf.Describe(path, f.Magic, f.Keys, nil), Arch: name}
			b := nn.NewLister(k.File, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }}, held)
			family.Open(k, b)
			if k.Err != nil || b.Err != nil {
				t.Errorf("%s, %d: %v, %v", name, i, k.Err, b.Err)
			}
			left := map[string][]int{}
			for _, of := range f.Tensors {
				left[of.Name] = of.Shape
			}
			for _, of := range b.Listed() {
				if !slices.Equal(of.Shape, left[of.Name]) {
					t.Errorf("%s, %d: %s is listed as %v, and is %v", name, i, of.Name, of.Shape, left[of.Name])
				}
				delete(left, of.Name)
			}
			if len(left) > 0 {
				t.Errorf("%s, %d: not listed: %v", name, i, left)
			}
			f.Close()
		}
	}
}
