package convert

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// rankOf is the adapters' rank, and changeTolerance what a merged weight may differ by: sums of a few products in
// float32, of numbers below 8.
const (
	rankOf          = 3
	changeTolerance = 1e-4
)

// adapted adds a random adapter for f's modules, in a folder as PEFT saves it, and returns it and a folder of the model
// with the adapter merged.
func adapted(t *testing.T, f *folder, config map[string]any, scale float64, modules ...string) (adapter string, merged *folder) {
	t.Helper()
	a := &folder{dir: t.TempDir(), tensors: map[string]fixture{}, rng: f.rng}
	merged = &folder{dir: t.TempDir(), config: f.config, tensors: maps.Clone(f.tensors), rng: f.rng}
	for _, module := range modules {
		w := f.tensors[module+".weight"]
		rows, cols := w.shape[0], w.shape[1]
		name := "base_model.model." + module
		a.random("F32", name+".lora_A.weight", rankOf, cols)
		a.random("F32", name+".lora_B.weight", rows, rankOf)
		x, y := a.tensors[name+".lora_A.weight"].values, a.tensors[name+".lora_B.weight"].values
		w.values, w.dtype = slices.Clone(w.values), "F32"
		for r := range rows {
			for c := range cols {
				sum := 0.0
				for k := range rankOf {
					sum += float64(y[r*rankOf+k]) * float64(x[k*cols+c])
				}
				w.values[r*cols+c] += float32(scale * sum)
			}
		}
		merged.tensors[module+".weight"] = w
	}
	full := map[string]any{"peft_type": "LORA", "r": rankOf, "base_model_name_or_path": f.dir, "bias": "none"}
	maps.Copy(full, config)
	a.writeJSON(t, "adapter_config.json", full)
	a.write(t, "adapter_model.safetensors", safetensors(a.tensors, slices.Sorted(maps.Keys(a.tensors))))
	return a.dir, merged
}

func numbersIn(t *testing.T, f *gguf.File, name string) []float32 {
	t.Helper()
	tensor := f.Tensor(name)
	if tensor == nil {
		t.Fatalf("there is no tensor %q", name)
	}
	x := make([]float32, tensor.Rows()*tensor.Shape[0])
	quant.Decode(tensor.Type, x, tensor.Data)
	return x
}

// TestAdapter: a converted model with its converted adapter equals the conversion of the merged model, however
// conversion changes rows.
func TestAdapter(t *testing.T) {
	llama := []string{"lm_head"}
	for _, m := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		llama = append(llama, "model.layers.0."+m, "model.layers.1."+m)
	}
	for _, c := range []struct {
		name    string
		folder  *folder
		config  map[string]any
		scale   float64
		modules []string
	}{
		{"llama", tinyLlama(t, "LlamaForCausalLM", nil), map[string]any{"lora_alpha": 6}, 2, llama},
		{"qwen2 by the root of the rank", tinyLlama(t, "Qwen2ForCausalLM", nil), map[string]any{"lora_alpha": 6, "use_rslora": true}, 6 / math.Sqrt(rankOf), llama[3:]},
		{"falcon", tinyFalcon(t, 2, map[string]any{"new_decoder_architecture": true, "num_kv_heads": 2}), map[string]any{"lora_alpha": 3}, 1, []string{"transformer.h.1.self_attention.query_key_value", "transformer.h.0.mlp.dense_h_to_4h"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.folder.save(t, tinyVocab, tinyVocab)
			adapter, merged := adapted(t, c.folder, c.config, c.scale, c.modules...)
			merged.save(t, tinyVocab, tinyVocab)
			o := Options{Output: OutputOf(quant.F32)}
			read := func(path string, err error) *gguf.File {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				f, err := gguf.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			out := t.TempDir()
			path := func(name string) string { return filepath.Join(out, name) }
			base := read(path("base"), HuggingFace(t.Context(), c.folder.dir, path("base"), o))
			want := read(path("merged"), HuggingFace(t.Context(), merged.dir, path("merged"), o))
			got := read(path("adapter"), Adapter(t.Context(), adapter, "", path("adapter"), o))
			alpha, _ := got.Lookup("adapter.lora.alpha")
			changed := 0
			for _, tensor := range base.Tensors {
				x, y := numbersIn(t, base, tensor.Name), numbersIn(t, want, tensor.Name)
				if got.Tensor(tensor.Name+".lora_a") != nil {
					changed++
					a, b := numbersIn(t, got, tensor.Name+".lora_a"), numbersIn(t, got, tensor.Name+".lora_b")
					cols := tensor.Shape[0]
					for i := range x {
						for k := range rankOf {
							x[i] += alpha.(float32) / rankOf * b[i/cols*rankOf+k] * a[k*cols+i%cols]
						}
					}
				}
				for i := range x {
					if !(math.Abs(float64(x[i]-y[i])) <= changeTolerance) {
						t.Fatalf("%s: element %d is %g, in the merged model %g", tensor.Name, i, x[i], y[i])
					}
				}
			}
			if changed < len(c.modules) || 2*changed != len(got.Tensors) {
				t.Errorf("%d tensors are changed by %d modules, and the adapter has %d", changed, len(c.modules), len(got.Tensors))
			}
		})
	}
}

// TestAdapterRefuses: settings that GGUF cannot express are refused in a sentence.
func TestAdapterRefuses(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"tie_word_embeddings": true})
	f.save(t, tinyVocab, tinyVocab)
	const module = "model.layers.0.mlp.up_proj"
	for _, c := range []struct {
		what   string
		config map[string]any
		module string
		want   string
	}{
		{"DoRA", map[string]any{"use_dora": true}, module, "use_dora"},
		{"another form", map[string]any{"peft_type": "IA3"}, module, "peft_type"},
		{"an expression that Go has not", map[string]any{"alpha_pattern": map[string]any{"(?=q)q_proj": 2}}, module, "merge the adapter"},
		{"whole modules", map[string]any{"modules_to_save": []string{"lm_head"}}, module, "modules_to_save"},
		{"no model", map[string]any{"base_model_name_or_path": "maker/none"}, module, "--base"},
		{"no such module", nil, "model.layers.7.mlp.up_proj", "no place for tensors model.layers.7.mlp.up_proj"},
		{"the embedding", nil, "model.embed_tokens", "not supported"},
	} {
		if c.module != module {
			f.random("F32", c.module+".weight", tinyVocab, tinyEmbd)
		}
		config := map[string]any{"lora_alpha": 1}
		maps.Copy(config, c.config)
		adapter, _ := adapted(t, f, config, 1, c.module)
		out := filepath.Join(t.TempDir(), "adapter.gguf")
		err := Adapter(t.Context(), adapter, "", out, Options{Output: OutputOf(quant.F32)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: the file was written", c.what)
		}
	}
}

// TestPatterns: PEFT's rule is re.match(rf"(.*\.)?({key})$", name), and the first key that matches counts.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns string
		module   string
		want     float64 // 0: none
	}{
		{`{"q_proj": 2}`, "model.layers.0.self_attn.q_proj", 2},
		{`{"_proj": 2}`, "model.layers.0.self_attn.q_proj", 0},
		{`{"layers.1.self_attn.q_proj": 2}`, "model.layers.1.self_attn.q_proj", 2},
		{`{"layers.1.self_attn.q_proj": 2}`, "model.layers.11.self_attn.q_proj", 0},
		{`{"^model.layers.1.self_attn.q_proj": 2}`, "model.layers.1.self_attn.q_proj", 2},
		{`{"^layers.1.self_attn.q_proj": 2}`, "model.layers.1.self_attn.q_proj", 0},
		{`{".*\\.layers\\.(1|3)\\..*(q|v)_proj": 2.5}`, "model.layers.3.self_attn.v_proj", 2.5},
		{`{"v_proj|q_proj": 2}`, "model.layers.3.self_attn.q_proj", 2},
		{`{"z_proj": 1, "q_proj": 2, "layers.0.self_attn.q_proj": 3}`, "model.layers.0.self_attn.q_proj", 2},
		{`{"layers.0.self_attn.q_proj": 3, "q_proj": 2}`, "model.layers.0.self_attn.q_proj", 3},
		{`null`, "q_proj", 0},
		{`{}`, "q_proj", 0},
	} {
		var p patterns
		if err := json.Unmarshal([]byte(c.patterns), &p); err != nil {
			t.Fatal(c.patterns, err)
		}
		if got, ok := p.of(c.module); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: %s has %g, %v", c.patterns, c.module, got, ok)
		}
	}
	for _, wrong := range []string{`[]`, `{"a": "b"}`, `{"a(": 1}`, `3`} {
		if err := json.Unmarshal([]byte(wrong), new(patterns)); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// TestAdapterScales: a module's change has the scale of its own alpha and rank, alpha/rank in PEFT's documentation, or
// alpha/√rank with use_rslora.
func TestAdapterScales(t *testing.T) {
	f := tinyLlama(t, "Qwen2ForCausalLM", nil)
	f.save(t, 1, tinyVocab)
	const q, v = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj"
	for _, byRoot := range []bool{false, true} {
		a := &folder{dir: t.TempDir(), tensors: map[string]fixture{}, rng: f.rng}
		for module, rank := range map[string]int{q: 3, v: 5} {
			a.random("F32", "base_model.model."+module+".lora_A.weight", rank, tinyEmbd)
			a.random("F32", "base_model.model."+module+".lora_B.weight", f.tensors[module+".weight"].shape[0], rank)
		}
		a.writeJSON(t, "adapter_config.json", map[string]any{
			"peft_type": "LORA", "r": 3, "lora_alpha": 6, "use_rslora": byRoot, "base_model_name_or_path": f.dir,
			"rank_pattern": map[string]int{"v_proj": 5}, "alpha_pattern": map[string]float64{"layers.1.self_attn.v_proj": 40},
		})
		a.write(t, "adapter_model.safetensors", safetensors(a.tensors, slices.Sorted(maps.Keys(a.tensors))))
		out := filepath.Join(t.TempDir(), "adapter.gguf")
		if err := Adapter(t.Context(), a.dir, "", out, Options{Output: OutputOf(quant.F32)}); err != nil {
			t.Fatal(err)
		}
		g, err := gguf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		alpha, _, _ := g.Float("adapter.lora.alpha")
		for _, c := range []struct {
			module, name string
			alpha, rank  float64
		}{{q, "blk.0.attn_q.weight", 6, 3}, {v, "blk.1.attn_v.weight", 40, 5}} {
			want := c.alpha / c.rank
			if byRoot {
				want = c.alpha / math.Sqrt(c.rank)
			}
			stored, written := a.tensors["base_model.model."+c.module+".lora_B.weight"].values, numbersIn(t, g, c.name+".lora_b")
			for i := range stored {
				if got := alpha / c.rank * float64(written[i]); math.Abs(got-want*float64(stored[i])) > changeTolerance {
					t.Fatalf("by root %v: %s: element %d has the weight %g instead of %g", byRoot, c.module, i, got, want*float64(stored[i]))
				}
			}
		}
	}
}
