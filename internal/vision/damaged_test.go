package vision_test

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// eachTower calls f with the file of each case's tower.
func eachTower(t *testing.T, f func(t *testing.T, c visiontest.Case, tower *gguf.File)) {
	for _, c := range visiontest.Cases() {
		if !family.HasTower(c.Projector()) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), visiontest.TowerFile)
			if err := c.WriteTower(path); err != nil {
				t.Fatal(err)
			}
			tower, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer tower.Close()
			f(t, c, tower)
		})
	}
}

// opened writes and opens a tower of keys and tensors.
func opened(t *testing.T, keys []gguf.KV, tensors []gguf.Source) (*vision.Tower, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), visiontest.TowerFile)
	if err := gguf.Create(context.Background(), path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return vision.Open(context.Background(), f, ref.New(), vision.Options{})
}

// sources returns the tensors of a file.
func sources(f *gguf.File) (all []gguf.Source) {
	for _, w := range f.Tensors {
		all = append(all, gguf.Source{Name: w.Name, Type: w.Type, Shape: w.Shape, Write: func(to io.Writer) error {
			_, err := to.Write(w.Data)
			return err
		}})
	}
	return all
}

// A file that lacks a tensor, or has one of another shape, is refused with an error that names it, unless towers may lack
// it or be of that shape.
func TestDamagedTensors(t *testing.T) {
	optional := []string{
		"v.patch_embd.bias", "v.post_ln.", "v.pre_ln.", "v.deepstack.", "attn_q_norm", "attn_k_norm", "mm.input_norm.", "ls1.weight", "input_min", "input_max",
		"output_min", "output_max", "v.std_", "_norm.bias", "v.position_embd.weight", ".bias",
	}
	eachTower(t, func(t *testing.T, c visiontest.Case, f *gguf.File) {
		all := sources(f)
		for i, w := range f.Tensors {
			if strings.HasPrefix(w.Name, "v.blk.1.") || strings.HasPrefix(w.Name, "v.blk.2.") { // as the first
				continue
			}
			without := slices.Delete(slices.Clone(all), i, i+1)
			_, err := opened(t, f.Keys, without)
			may := slices.ContainsFunc(optional, func(part string) bool { return strings.Contains(w.Name, part) })
			switch {
			case err == nil && !may:
				t.Errorf("it opens without %s", w.Name)
			case err != nil && !strings.Contains(err.Error(), "tensor"):
				t.Errorf("without %s: %v", w.Name, err)
			}
			longer := slices.Clone(all)
			longer[i].Shape = append([]int{w.Shape[0] + 8}, w.Shape[1:]...)
			longer[i].Write = func(to io.Writer) error {
				_, err := to.Write(make([]byte, w.Type.RowBytes(w.Shape[0]+8)*w.Rows()))
				return err
			}
			if _, err = opened(t, f.Keys, longer); err == nil || !strings.Contains(err.Error(), w.Name) && !strings.Contains(err.Error(), "tensor") {
				t.Errorf("with a larger %s: %v", w.Name, err)
			}
		}
	})
}

// A file with an absurd number is refused with an error that names the key, or opens with views of reasonable sizes, and
// then shows a picture or says why not.
func TestDamagedKeys(t *testing.T) {
	m := picture.Blank(300, 40, [3]byte{200, 100, 50})
	eachTower(t, func(t *testing.T, c visiontest.Case, f *gguf.File) {
		all := sources(f)
		for i, k := range f.Keys {
			var absurd []any
			switch k.Value.(type) {
			case uint32:
				absurd = []any{uint32(0), uint32(1), uint32(3), uint32(7), uint32(4096), uint32(math.MaxInt32), uint32(math.MaxUint32), "text"}
			case float32:
				absurd = []any{float32(math.NaN()), float32(-1), float32(math.Inf(1)), "text"}
			case []float32:
				absurd = []any{[]float32{}, []float32{1, 2}, []float32{float32(math.NaN()), 0, 0}, []float32{0, 0, 0}, "text"}
			}
			for _, v := range absurd {
				keys := slices.Clone(f.Keys)
				keys[i].Value = v
				tower, err := opened(t, keys, all)
				if err != nil {
					if !strings.Contains(err.Error(), k.Key) && !strings.Contains(err.Error(), "tensor") && !strings.Contains(err.Error(), " of ") {
						t.Errorf("%s = %v: %v", k.Key, v, err)
					}
					continue
				}
				if s := tower.Sizes(); s.Patches > 1<<17 || s.Rows > 1<<17 {
					t.Errorf("%s = %v: views of %d patches", k.Key, v, s.Patches)
				} else if s.Patches < 1000 {
					if _, err := tower.Show(context.Background(), m); err != nil {
						t.Errorf("%s = %v: %v", k.Key, v, err)
					}
				}
				tower.Close()
			}
		}
	})
}
