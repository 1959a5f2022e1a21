package vision_test

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// eachTower calls f with the keys and tensors of each case's tower, cut down to the first layer.
func eachTower(t *testing.T, f func(t *testing.T, keys []gguf.KV, tensors []gguf.Source)) {
	for _, c := range visiontest.Cases() {
		if !family.HasTower(c.Projector()) || strings.HasSuffix(c.Name, "_f16") || strings.HasSuffix(c.Name, "_causal") {
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
			keys := slices.Clone(tower.Keys)
			for i := range keys {
				if keys[i].Key == "clip.vision.block_count" {
					keys[i].Value = min(keys[i].Value.(uint32), 1)
				}
			}
			later := regexp.MustCompile(`^v\.(blk|deepstack)\.[1-9]\.`)
			var tensors []gguf.Source
			for _, w := range tower.Tensors {
				if !later.MatchString(w.Name) {
					tensors = append(tensors, gguf.Source{Name: w.Name, Type: w.Type, Shape: w.Shape, Write: func(to io.Writer) error {
						_, err := to.Write(w.Data)
						return err
					}})
				}
			}
			f(t, keys, tensors)
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
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	tower, err := vision.Open(context.Background(), f, dev, vision.Options{})
	if err != nil {
		dev.Close()
	}
	return tower, err
}

// A file that lacks a tensor, or has one of another shape, is refused with an error that names it, unless towers may lack
// it or be of that shape.
func TestDamagedTensors(t *testing.T) {
	optional := []string{
		"v.patch_embd.bias", "v.post_ln.", "v.pre_ln.", "v.deepstack.", "attn_q_norm", "attn_k_norm", "mm.input_norm.", "ls1.weight", "input_min", "input_max",
		"output_min", "output_max", "v.std_", "_norm.bias", "v.position_embd.weight", ".bias",
	}
	eachTower(t, func(t *testing.T, keys []gguf.KV, all []gguf.Source) {
		for i, w := range all {
			without := slices.Delete(slices.Clone(all), i, i+1)
			_, err := opened(t, keys, without)
			may := slices.ContainsFunc(optional, func(part string) bool { return strings.Contains(w.Name, part) })
			switch {
			case err == nil && !may:
				t.Errorf("it opens without %s", w.Name)
			case err != nil && !strings.Contains(err.Error(), "tensor"):
				t.Errorf("without %s: %v", w.Name, err)
			}
			longer, rows := slices.Clone(all), 1
			for _, n := range w.Shape[1:] {
				rows *= n
			}
			longer[i].Shape = append([]int{w.Shape[0] + 8}, w.Shape[1:]...)
			longer[i].Write = func(to io.Writer) error {
				_, err := to.Write(make([]byte, w.Type.RowBytes(longer[i].Shape[0])*rows))
				return err
			}
			if _, err = opened(t, keys, longer); err == nil || !strings.Contains(err.Error(), w.Name) && !strings.Contains(err.Error(), "tensor") {
				t.Errorf("with a larger %s: %v", w.Name, err)
			}
		}
	})
}

// A file with an absurd number is refused with an error that names the key, or opens with views of reasonable sizes, and
// then shows a picture or says why not.
func TestDamagedKeys(t *testing.T) {
	m := picture.Blank(300, 40, [3]byte{200, 100, 50})
	eachTower(t, func(t *testing.T, sound []gguf.KV, all []gguf.Source) {
		for i, k := range sound {
			var absurd []any
			switch k.Value.(type) {
			case uint32:
				absurd = []any{uint32(0), uint32(7), uint32(math.MaxUint32), "text"}
			case float32:
				absurd = []any{float32(math.NaN()), float32(-1), "text"}
			case []float32:
				absurd = []any{[]float32{1, 2}, []float32{float32(math.NaN()), 0, 0}, []float32{0, 0, 0}, "text"}
			}
			for _, v := range absurd {
				keys := slices.Clone(sound)
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
