package convert_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/imatrix"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestFurther: the MTP layer is converted under llama.cpp's names, and the model loads with and without it.
func TestFurther(t *testing.T) {
	for _, name := range []string{"glm4moe", "deepseek2"} {
		b, err := os.ReadFile("testdata/reference/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var r reference
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		r.Config["num_nextn_predict_layers"] = 1
		layers := int(r.Config["num_hidden_layers"].(float64))
		at := func(l int) string { return "model.layers." + string(rune('0'+l)) + "." }
		for from, x := range r.Tensors { // as the last layer's
			if rest, ok := strings.CutPrefix(from, at(layers-1)); ok {
				r.Tensors[at(layers)+rest] = x
			}
		}
		like, norm := r.Tensors["model.embed_tokens.weight"], r.Tensors["model.norm.weight"]
		join := like
		join.Shape = []int{norm.Shape[0], 2 * norm.Shape[0]}
		r.Tensors[at(layers)+"eh_proj.weight"] = join
		r.Tensors[at(layers)+"embed_tokens.weight"], r.Tensors[at(layers)+"shared_head.head.weight"] = like, like
		for _, s := range []string{"enorm", "hnorm", "shared_head.norm"} {
			r.Tensors[at(layers)+s+".weight"] = norm
		}
		out := filepath.Join(t.TempDir(), "model.gguf")
		if err := convert.HuggingFace(t.Context(), r.folder(t), out, convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got := f.Tensor("blk." + string(rune('0'+layers)) + ".nextn.eh_proj.weight")
		if got == nil {
			t.Fatalf("%s: no eh_proj", name)
		}
		row := make([]float32, got.Elems())
		quant.Decode(quant.F32, row, got.Data)
		if want := weight(at(layers)+"eh_proj.weight", got.Elems(), join.Scale, join.Offset); !slices.Equal(row, want) {
			t.Errorf("%s: eh_proj has other numbers", name)
		}
		for _, further := range []bool{false, true} {
			dev, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			m, err := model.Load(t.Context(), f, dev, model.Options{Further: further, Batch: 4, Outputs: 1, Cache: compute.CacheSpec{Pages: 2}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if m.Layers != layers || m.Config.Further != 1 || m.GuessesFurther() != further {
				t.Errorf("%s: %d layers and %d further ones", name, m.Layers, m.Config.Further)
			}
			dev.Close()
		}
	}
}

// TestFurtherApart: an MTP layer outside the list of layers is converted, too. Qwen3-Next's and Qwen3.5's are like
// this, with norms stored less 1.
func TestFurtherApart(t *testing.T) {
	for name, root := range map[string]string{"qwen3next": "model.", "qwen35": "model.language_model.", "qwen35moe": "model.language_model."} {
		b, err := os.ReadFile("testdata/reference/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var r reference
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		for from, x := range r.Tensors { // as the fourth layer's, which has attention
			if rest, ok := strings.CutPrefix(from, root+"layers.3."); ok {
				r.Tensors["mtp.layers.0."+rest] = x
			}
		}
		norm := r.Tensors[root+"norm.weight"]
		join := r.Tensors[root+"embed_tokens.weight"]
		join.Shape = []int{norm.Shape[0], 2 * norm.Shape[0]}
		r.Tensors["mtp.fc.weight"] = join
		for _, s := range []string{"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"} {
			r.Tensors["mtp."+s+".weight"] = norm
		}
		out := filepath.Join(t.TempDir(), "model.gguf")
		if err := convert.HuggingFace(t.Context(), r.folder(t), out, convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for to, from := range map[string]string{"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "shared_head_norm": "norm"} {
			got := f.Tensor("blk.4.nextn." + to + ".weight")
			if got == nil {
				t.Fatalf("%s: no %s", name, to)
			}
			row := make([]float32, got.Elems())
			quant.Decode(quant.F32, row, got.Data)
			x := r.Tensors["mtp."+from+".weight"]
			want := weight("mtp."+from+".weight", got.Elems(), x.Scale, x.Offset)
			if to != "eh_proj" {
				for i := range want {
					want[i]++
				}
			}
			if !slices.Equal(row, want) {
				t.Errorf("%s: %s has other numbers", name, to)
			}
		}
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(t.Context(), f, dev, model.Options{Further: true, Batch: 4, Outputs: 1, Cache: compute.CacheSpec{Pages: 2}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Layers != 4 || m.Config.Further != 1 || !m.GuessesFurther() {
			t.Errorf("%s: %d layers and %d further ones", name, m.Layers, m.Config.Further)
		}
		dev.Close()
	}
}

// TestFurtherLayersApart: several such layers of Qwen3-Next and Qwen3.5 are left out, and one note says why.
func TestFurtherLayersApart(t *testing.T) {
	b, err := os.ReadFile("testdata/reference/qwen35.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	norm := r.Tensors["model.language_model.norm.weight"]
	for _, s := range []string{"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "layers.0.input_layernorm", "layers.1.input_layernorm"} {
		r.Tensors["mtp."+s+".weight"] = norm
	}
	var notes []string
	out := filepath.Join(t.TempDir(), "model.gguf")
	o := convert.Options{Output: convert.OutputOf(quant.F32), Notes: func(s string) { notes = append(notes, s) }}
	if err := convert.HuggingFace(t.Context(), r.folder(t), out, o); err != nil {
		t.Fatal(err)
	}
	notes = slices.DeleteFunc(notes, func(s string) bool { return !strings.Contains(s, "further") })
	if len(notes) != 1 || !strings.HasSuffix(notes[0], "layers from 4 on, which predict further tokens, are left out: the folder has several, and files of qwen35 hold one at most") {
		t.Errorf("notes of further layers: %q", notes)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, x := range f.Tensors {
		if strings.Contains(x.Name, "nextn") || strings.HasPrefix(x.Name, "blk.4.") {
			t.Errorf("%s is in the file", x.Name)
		}
	}
}

// TestQuantizeFurther: the MTP layer, which has no importances, does not get types that need them.
func TestQuantizeFurther(t *testing.T) {
	f := synthtest.Further(t, synth.Spec{Arch: "glm4moe", Layers: 2, Embd: 256, FF: 256, Heads: 4, Type: quant.F16, Experts: 2, Used: 1, Activation: "silu", Seed: 5}, true)
	out, err := convert.ParseOutput("iq2_xs")
	if err != nil {
		t.Fatal(err)
	}
	q := convert.Quantization{Output: out, Matrix: &imatrix.Matrix{}}
	choices, err := q.Plan(f)
	if err != nil {
		t.Fatal(err)
	}
	low := 0
	for _, c := range choices {
		if last := strings.HasPrefix(c.Tensor.Name, "blk.1."); last && c.NeedsMatrix {
			t.Errorf("%s would be %s", c.Tensor.Name, c.Type)
		} else if !last && c.NeedsMatrix {
			low++
		}
		if bits := float64(c.Type.RowBytes(256)) / 32; strings.HasSuffix(c.Tensor.Name, "eh_proj.weight") && math.Abs(bits-4.5) > 0.1 {
			t.Errorf("%s has %.1f bits", c.Tensor.Name, bits)
		}
	}
	if low == 0 {
		t.Error("no tensor needs importances")
	}
}

// TestFurtherPublished: folders with several MTP layers, after the others or separate, with their own or shared parts,
// give files with all of them, and the first predicts. Arrays of such files have a number for each of them.
func TestFurtherPublished(t *testing.T) {
	for _, c := range []struct {
		name  string
		count int
		edit  func(r *reference)
		sizes []string // keys of arrays
	}{
		{"step35", 1, nil, []string{"attention.head_count", "attention.head_count_kv", "attention.sliding_window_pattern", "swiglu_clamp_exp"}}, // the second has no window
		{"mimo2-fused", 2, nil, []string{"attention.head_count_kv", "attention.sliding_window_pattern"}},
		{"glm-ocr", 1, nil, nil},
		{"exaone-moe", 2, func(r *reference) {
			r.Config["num_nextn_predict_layers"] = 2
			r.Config["mtp_layer_types"] = []string{"full_attention", "full_attention"}
			for name, x := range r.Tensors {
				if rest, ok := strings.CutPrefix(name, "model.layers.0."); ok {
					r.Tensors["mtp.layers.0."+rest], r.Tensors["mtp.layers.1."+rest] = x, x
				}
			}
			norm := r.Tensors["model.norm.weight"]
			join := r.Tensors["model.embed_tokens.weight"]
			join.Shape = []int{64, 128}
			r.Tensors["mtp.fc.weight"] = join
			for _, s := range []string{"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"} {
				r.Tensors["mtp."+s+".weight"] = norm
			}
		}, []string{"attention.sliding_window_pattern"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/reference/" + c.name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var r reference
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			if c.edit != nil {
				c.edit(&r)
			}
			out := filepath.Join(t.TempDir(), "model.gguf")
			if err := convert.HuggingFace(t.Context(), r.folder(t), out, convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			dev, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			m, err := model.Load(t.Context(), f, dev, model.Options{Further: true, Batch: 4, Outputs: 1, Cache: compute.CacheSpec{Pages: 2}})
			if err != nil {
				t.Fatal(err)
			}
			if m.Config.Further != c.count || !m.GuessesFurther() {
				t.Errorf("%d further layers, want %d; the first predicts: %v", m.Config.Further, c.count, m.GuessesFurther())
			}
			for _, key := range c.sizes {
				v, _ := f.Lookup(m.Arch + "." + key)
				if n := reflect.ValueOf(v).Len(); n != m.Layers+c.count {
					t.Errorf("%s has %d elements for %d layers and %d further ones", key, n, m.Layers, c.count)
				}
			}
		})
	}
}
