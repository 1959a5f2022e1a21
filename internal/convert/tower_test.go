package convert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
)

// towerTolerance is the share of the largest number by which rows of a tower in F32 may differ from float64.
const towerTolerance = 2e-5

// processorTolerance is the same on the processor, on which attention may multiply terms of BF16.
const processorTolerance = 3e-4

// halfTolerance is the same of a tower with matrices in F16.
const halfTolerance = 3e-3

// towerReference holds results of testdata/towers/towers.py, which follows the published definition of a tower.
type towerReference struct {
	reference
	Picture [2]int      `json:"picture"` // width and height
	Rows    [][]float64 `json:"rows"`
}

func towerReferences(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "towers", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no references: %v", err)
	}
	return files
}

func readTowerReference(t *testing.T, name string) *towerReference {
	t.Helper()
	r := new(towerReference)
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// image returns the picture that towers.py draws.
func (r *towerReference) image() *picture.Image {
	m := picture.Blank(r.Picture[0], r.Picture[1], [3]byte{})
	for y := range m.Height {
		for x := range m.Width {
			for c := range 3 {
				m.Pix[3*(y*m.Width+x)+c] = byte(5*x + 11*y + 3*x*y + 70*c + x*x%31*c)
			}
		}
	}
	return m
}

// convert converts the folder's tower.
func (r *towerReference) convert(t *testing.T, typ quant.Type) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	if err := convert.Tower(t.Context(), r.folder(t), path, convert.Options{Output: convert.OutputOf(typ)}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// show compares what a tower makes of the picture. It closes dev.
func (r *towerReference) show(t *testing.T, f *gguf.File, dev compute.Device, tolerance float64) {
	t.Helper()
	tower, err := vision.Open(t.Context(), f, dev, vision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tower.Close()
	parts, err := tower.Show(t.Context(), r.image())
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]float32
	for _, p := range parts {
		if p.Rows != nil {
			rows = append(rows, p.Rows.Vectors...)
		}
	}
	if len(rows) != len(r.Rows) {
		t.Fatalf("%s: %d rows, and the reference has %d", dev.Name(), len(rows), len(r.Rows))
	}
	near(t, dev.Name(), slices.Concat(rows...), slices.Concat(r.Rows...), tolerance)
}

// TestTowerReference converts tiny towers of each kind that towers.py knows, and compares the rows that they make of a
// picture on the scalar device and the processor.
func TestTowerReference(t *testing.T) {
	covered := map[string]bool{}
	for _, name := range towerReferences(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			r := readTowerReference(t, name)
			f := r.convert(t, quant.F32)
			for _, key := range []string{"clip.projector_type", "clip.vision.projector_type"} {
				if kind, ok, _ := f.String(key); ok {
					covered[kind] = true
				}
			}
			r.show(t, f, ref.New(), towerTolerance)
			dev, err := cpu.New(cpu.Options{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			r.show(t, f, dev, processorTolerance)
		})
	}
	if all := convert.TowerKinds(); !t.Failed() && !slices.Equal(slices.Sorted(maps.Keys(covered)), all) {
		t.Errorf("references cover %v of %v", slices.Sorted(maps.Keys(covered)), all)
	}
	if ours := tower.Names(); !slices.Equal(ours, convert.TowerKinds()) {
		t.Errorf("the programs are %v, and convert writes %v", ours, convert.TowerKinds())
	}
}

// TestTowerTypes compares what smaller types make of towers, and checks what stays F32.
func TestTowerTypes(t *testing.T) {
	for _, name := range []string{"gemma3", "mistral3", "qwen2.5vl", "glm4v"} {
		r := readTowerReference(t, filepath.Join("testdata", "towers", name+".json"))
		for _, typ := range []quant.Type{quant.F16, quant.BF16, quant.Q8_0} {
			t.Run(fmt.Sprint(name, " ", typ), func(t *testing.T) {
				f := r.convert(t, typ)
				matrices := 0
				for _, x := range f.Tensors {
					switch {
					case len(x.Shape) == 1 || strings.Contains(x.Name, "_embd"):
						if x.Type != quant.F32 {
							t.Errorf("%s is %s", x.Name, x.Type)
						}
					case strings.HasPrefix(x.Name, "mm.input_projection") || strings.HasPrefix(x.Name, "mm.patch_merger"):
						if x.Type != quant.F16 {
							t.Errorf("%s is %s", x.Name, x.Type)
						}
					case x.Type == typ:
						matrices++
					case typ != quant.Q8_0 || x.Shape[0]%32 == 0:
						t.Errorf("%s is %s", x.Name, x.Type)
					}
				}
				if matrices == 0 && name != "gemma3" {
					t.Errorf("no matrix is %s", typ)
				}
				if typ == quant.F16 {
					r.show(t, f, ref.New(), halfTolerance)
				}
			})
		}
	}
}

func TestTowerErrors(t *testing.T) {
	file := func(name string) string { return filepath.Join("testdata", "towers", name+".json") }
	vision := func(r *towerReference) map[string]any { return r.Config["vision_config"].(map[string]any) }
	for name, c := range map[string]struct {
		change func(r *towerReference)
		want   string
	}{
		"no tower":         {func(r *towerReference) { delete(r.Config, "vision_config") }, "sees no pictures"},
		"another model":    {func(r *towerReference) { r.Config["architectures"] = []string{"Idefics3ForConditionalGeneration"} }, "supported are those of Gemma3For"},
		"a key missing":    {func(r *towerReference) { delete(r.Config, "text_config"); r.Files["tokenizer.json"] = 0 }, `"hidden_size": it is missing`},
		"no colours":       {func(r *towerReference) { delete(r.Files, "preprocessor_config.json") }, "download preprocessor_config.json"},
		"another width":    {func(r *towerReference) { vision(r)["hidden_size"] = 48 }, "has shape"},
		"no whole heads":   {func(r *towerReference) { vision(r)["num_attention_heads"] = 5 }, "do not share"},
		"not a number":     {func(r *towerReference) { vision(r)["depth"] = "two" }, "not a whole number"},
		"another function": {func(r *towerReference) { vision(r)["hidden_act"] = "relu" }, "activation"},
		"a tensor missing": {func(r *towerReference) { delete(r.Tensors, "visual.blocks.1.mlp.up_proj.weight") }, "is missing"},
		"a further tensor": {func(r *towerReference) { r.Tensors["visual.more.weight"] = r.Tensors["visual.merger.ln_q.weight"] }, "no place for tensors visual.more.weight"},
		"other windows":    {func(r *towerReference) { vision(r)["window_size"] = 56 }, "window_size"},
		"layers at random": {func(r *towerReference) { vision(r)["fullatt_block_indexes"] = []int{0, 3} }, "fullatt_block_indexes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := readTowerReference(t, file("qwen2.5vl"))
			c.change(r)
			if r.Config["text_config"] == nil {
				r.Config["vocab_size"] = 48.0
			}
			err := convert.Tower(t.Context(), r.folder(t), filepath.Join(t.TempDir(), "mmproj.gguf"), convert.Options{Output: convert.OutputOf(quant.F16)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	r := readTowerReference(t, file("gemma3"))
	err := convert.Tower(t.Context(), r.folder(t), filepath.Join(t.TempDir(), "mmproj.gguf"), convert.Options{Output: convert.OutputOf(quant.Q4_0)})
	if err == nil || !strings.Contains(err.Error(), "f32, f16, bf16 or q8_0") {
		t.Errorf("%v", err)
	}
}

// TestTowerConfigurations puts values that make no sense under each key: each is an error in one line, or makes no
// difference.
func TestTowerConfigurations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is written
	for _, name := range towerReferences(t) {
		if strings.Contains(name, "-") { // another form of the same
			continue
		}
		r := readTowerReference(t, name)
		dir, out := r.folder(t), filepath.Join(t.TempDir(), "mmproj.gguf")
		path := filepath.Join(dir, "config.json")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		vision := r.Config["vision_config"].(map[string]any)
		for _, of := range []map[string]any{r.Config, vision} {
			for _, key := range slices.Sorted(maps.Keys(of)) {
				kept := of[key]
				for _, v := range []any{0, 1e9, "x", []any{3, -1}, map[string]any{"hidden_size": []any{nil}}} {
					of[key] = v
					data, err := json.Marshal(r.Config)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, data, 0o644); err != nil {
						t.Fatal(err)
					}
					err = convert.Tower(ctx, dir, out, convert.Options{Output: convert.OutputOf(quant.F16)})
					if !errors.Is(err, context.Canceled) && (err == nil || !strings.HasPrefix(err.Error(), dir) || strings.Contains(err.Error(), "\n")) {
						t.Errorf("%s: %s %v: %v", name, key, v, err)
					}
				}
				of[key] = kept
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
