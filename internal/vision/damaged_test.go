package vision_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// mayLack are parts of names of tensors that a tower may be without.
var mayLack = []string{
	"v.pre_ln.", "v.post_ln.", "v.deepstack.", "v.position_embd.weight", "v.patch_embd.bias", "v.std_", "attn_q_norm", "attn_k_norm", "ls1.weight", "mm.input_norm.",
	".input_min", ".input_max", ".output_min", ".output_max", ".bias",
}

// A file that lacks a tensor, or has one of another shape, is refused with an error that names a tensor.
func TestDamagedTensors(t *testing.T) {
	for _, c := range testenv.Few(t, 6, visiontest.Cases()) {
		if !tower.Has(c.Projector()) {
			continue
		}
		f := c.Tower(t)
		opened := func(tensors []*gguf.Tensor) error {
			of := gguf.Describe("tower.gguf", "GGUF", f.Keys, tensors)
			k := &nn.Keys{File: of, Arch: "clip.vision"}
			b := nn.NewOutline(of, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }})
			tower.Open(c.Projector(), k, b, tower.Limits{})
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

// bad is a value that a key may not have, or seldom.
func bad(r *rand.Rand) any {
	all := []any{
		uint32(0), uint32(1), uint32(2), uint32(3), uint32(7), uint32(1 << 8), uint32(1 << 14), uint32(1 << 31), uint32(math.MaxUint32), uint64(1 << 62), uint64(math.MaxUint64),
		int32(-1), int64(math.MinInt64), float32(0), float32(-1), float32(1e30), float32(math.NaN()), float32(math.Inf(1)), true, false, "", "gelu",
		[]float32{},
		[]float32{1, 2},
		[]float32{0, 0, 0},
		[]float32{float32(math.NaN()), 1, 1},
		[]int32{-1, 1 << 30},
		[]string{"a"},
	}
	return all[r.IntN(len(all))]
}

// mostMemory bounds what opening a damaged file of less than a megabyte, and preparing a picture, may take.
const mostMemory = 1 << 30

// tried opens a file with damaged keys or tensors and shows it a small picture. It returns an error that names the
// file, and fails for any other error, for a fault, and for memory that only a number in the file demands.
func tried(t *testing.T, what string, c visiontest.Case, f *gguf.File) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	patches := 0
	err := fault.Guard(func() error {
		k := &nn.Keys{File: f, Arch: "clip.vision"}
		b := nn.NewOutline(f, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }})
		m := tower.Open(c.Projector(), k, b, tower.Limits{})
		if k.Err != nil {
			return k.Err
		}
		if err := b.Finish(); err != nil {
			return err
		}
		parts, err := m.Show(gradient(60, 45))
		for _, p := range parts {
			if p.View == nil {
				continue
			}
			patches += len(p.View.Patches)
			if s := m.Sizes(); len(p.View.Patches) > s.Patches || p.View.Rows > s.Rows {
				t.Errorf("%s: a view of %d patches and %d rows is larger than %+v", what, len(p.View.Patches), p.View.Rows, s)
			}
		}
		patches = max(patches, m.Sizes().Patches/16)
		return err
	})
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > mostMemory {
		t.Errorf("%s: took %d MB", what, taken>>20)
	}
	if errors.Is(err, fault.Err) {
		t.Errorf("%s: %v", what, err)
	}
	const few = 300 // that a test has time to compute
	if err != nil || patches > few {
		return err
	}
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	tower, err := vision.Open(context.Background(), f, dev, vision.Options{})
	if err != nil {
		dev.Close()
		if errors.Is(err, fault.Err) || !strings.HasPrefix(err.Error(), "tower.gguf: ") || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s: error %q", what, err)
		}
		return err
	}
	defer tower.Close()
	if _, err := tower.Show(context.Background(), gradient(60, 45)); err != nil {
		t.Errorf("%s: it opens, but shows nothing: %v", what, err)
	}
	return nil
}

// TestDamagedKeys gives each key of each case values of any kind, and of any size.
func TestDamagedKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range testenv.Few(t, 6, visiontest.Cases()) {
		if !tower.Has(c.Projector()) {
			continue
		}
		path := filepath.Join(t.TempDir(), visiontest.TowerFile)
		if err := c.WriteTower(path); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := gguf.Parse("tower.gguf", data)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, k := range whole.Keys {
			if strings.HasPrefix(k.Key, "clip.") && !strings.HasSuffix(k.Key, "projector_type") {
				keys = append(keys, k.Key)
			}
		}
		for _, more := range []string{
			"image_min_pixels", "image_max_pixels", "projector.scale_factor", "spatial_merge_size", "preproc_min_tiles", "preproc_max_tiles", "n_wa_pattern",
		} {
			if key := "clip.vision." + more; !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			for range 2 {
				f, err := gguf.Parse("tower.gguf", data)
				if err != nil {
					t.Fatal(err)
				}
				value := bad(r)
				f.Set(key, value)
				err = tried(t, fmt.Sprintf("%s with %s = %v", c.Name, key, value), c, f)
				if err != nil && !strings.ContainsAny(err.Error(), "\"0123456789") && !strings.Contains(err.Error(), "surplus tensors") {
					t.Errorf("%s with %s = %v: error %q names no key, tensor or number", c.Name, key, value, err)
				}
			}
		}
	}
}

// TestTowerOfAnother: a tower is refused for a text model that takes other rows, or that cannot distinguish their
// places in the picture.
func TestTowerOfAnother(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if c.Name != "qwen3vl_merger" && c.Name != "gemma3" {
			continue
		}
		f := c.Tower(t)
		width := map[string]int{"qwen3vl_merger": 3 * 64, "gemma3": 64}[c.Name]
		for _, o := range []vision.Options{{Width: width, Axes: true}, {Width: width}, {Width: 32, Axes: true}, {}} {
			want := ""
			switch {
			case o.Width == 32:
				want = "the two files are of different models"
			case o.Width > 0 && !o.Axes && c.Name == "qwen3vl_merger":
				want = "rope.dimension_sections"
			}
			dev, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			_, err = vision.Open(context.Background(), f, dev, o)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s for %+v: error %v, not %q", c.Name, o, err, want)
			}
			dev.Close()
		}
	}
}

// A text model's file is refused as such, with what to give.
func TestTextAsTower(t *testing.T) {
	dir := t.TempDir()
	if err := visiontest.Cases()[0].Write(dir); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(filepath.Join(dir, visiontest.TextFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = vision.NeedOf(f, vision.Options{}); err == nil || !strings.Contains(err.Error(), "holds a text model") {
		t.Errorf("error %v, not that it is a text model", err)
	}
}

// Files of llama.cpp state another width of feed-forward layers than GLM-4.1V and Qwen2-VL have, and open.
func TestStatedWidth(t *testing.T) {
	for _, c := range visiontest.Cases() {
		f := c.Tower(t)
		keys := slices.Clone(f.Keys)
		for i := range keys {
			if keys[i].Key == "clip.vision.feed_forward_length" {
				keys[i].Value = uint32(13696)
			}
		}
		of := gguf.Describe("tower.gguf", "GGUF", keys, f.Tensors)
		k := &nn.Keys{File: of, Arch: "clip.vision"}
		b := nn.NewOutline(of, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }})
		tower.Open(c.Projector(), k, b, tower.Limits{})
		if k.Err != nil || b.Finish() != nil {
			t.Errorf("%s: %v, %v", c.Name, k.Err, b.Finish())
		}
	}
}
