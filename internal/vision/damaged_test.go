package vision_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// mayLack are parts of names of tensors that a tower may be without.
var mayLack = []string{
	"v.pre_ln.", "v.post_ln.", "v.deepstack.", "v.position_embd.weight", "v.patch_embd.bias", "v.std_", "attn_q_norm", "attn_k_norm", "ls1.weight", "mm.input_norm.",
	".input_min", ".input_max", ".output_min", ".output_max", ".bias",
}

// A file that lacks a tensor, or has one of another shape, is refused with an error that names a tensor.
func TestDamagedTensors(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if !family.HasTower(c.Projector()) {
			continue
		}
		path := filepath.Join(t.TempDir(), visiontest.TowerFile)
		if err := c.WriteTower(path); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		opened := func(tensors []*gguf.Tensor) error {
			of := gguf.Describe("tower.gguf", "GGUF", f.Keys, tensors)
			k := &nn.Keys{File: of, Arch: "clip.vision"}
			b := nn.NewOutline(of, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }})
			family.OpenTower(c.Projector(), k, b, family.TowerLimits{})
			if k.Err != nil {
				return k.Err
			}
			return b.Finish()
		}
		if err := opened(f.Tensors); err != nil {
			t.Fatal(err)
		}
		for i, w := range f.Tensors {
			err := opened(slices.Delete(slices.Clone(f.Tensors), i, i+1))
			may := slices.ContainsFunc(mayLack, func(part string) bool { return strings.Contains(w.Name, part) })
			if err == nil && !may || err != nil && !strings.Contains(err.Error(), "tensor") {
				t.Errorf("%s without %s: error %v", c.Name, w.Name, err)
			}
			for axis := range w.Shape {
				other := slices.Clone(f.Tensors)
				other[i] = &gguf.Tensor{Name: w.Name, Type: w.Type, Shape: slices.Clone(w.Shape)}
				other[i].Shape[axis] += 8
				err := opened(other)
				table := axis > 0 && strings.Contains(w.Name, "position_embd") // another grid, or a longer table, is one, too
				if err == nil && !table || err != nil && !strings.Contains(err.Error(), "tensor") {
					t.Errorf("%s with %s %v: error %v", c.Name, w.Name, other[i].Shape, err)
				}
			}
		}
	}
}
