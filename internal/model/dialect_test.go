package model

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// written is a file's content that a test rewrites as another program would have written it.
type written struct {
	keys    []gguf.KV
	tensors []*gguf.Tensor
}

// set replaces or adds a key; nil takes it away.
func (w *written) set(key string, v any) {
	w.keys = slices.DeleteFunc(slices.Clone(w.keys), func(k gguf.KV) bool { return k.Key == key })
	if v != nil {
		w.keys = append(w.keys, gguf.KV{Key: key, Value: v})
	}
}

// value returns a key's value.
func (w *written) value(key string) any {
	for _, k := range w.keys {
		if k.Key == key {
			return k.Value
		}
	}
	return nil
}

// architecture renames the architecture and its keys.
func (w *written) architecture(from, to string) {
	w.keys = slices.Clone(w.keys)
	for i, k := range w.keys {
		if rest, ok := strings.CutPrefix(k.Key, from+"."); ok {
			w.keys[i].Key = to + "." + rest
		}
	}
	w.set("general.architecture", to)
}

// rename replaces parts of tensors' names, given in pairs.
func (w *written) rename(pairs ...string) {
	r := strings.NewReplacer(pairs...)
	for _, t := range w.tensors {
		t.Name = r.Replace(t.Name)
	}
}

// add adds a tensor of zeros.
func (w *written) add(name string, shape ...int) {
	t := &gguf.Tensor{Name: name, Type: quant.F32, Shape: shape}
	t.Data = make([]byte, t.Bytes())
	w.tensors = append(w.tensors, t)
}

// longer adds rows of zeros to a matrix.
func (w *written) longer(name string, rows int) {
	for _, t := range w.tensors {
		if t.Name == name {
			t.Shape = []int{t.Shape[0], t.Shape[1] + rows}
			t.Data = append(slices.Clone(t.Data), make([]byte, rows*t.Type.RowBytes(t.Shape[0]))...)
		}
	}
}

// open writes the file and opens it.
func (w *written) open(t *testing.T) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.gguf")
	var tensors []gguf.Source
	for _, x := range w.tensors {
		tensors = append(tensors, gguf.Source{Name: x.Name, Type: x.Type, Shape: x.Shape, Write: func(to io.Writer) error {
			_, err := to.Write(x.Data)
			return err
		}})
	}
	if err := gguf.Create(t.Context(), path, "GGUF", w.keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestOllamasFiles: a file of Ollama's converters gives the same model as one with llama.cpp's names, to the last
// hyperparameter and byte.
func TestOllamasFiles(t *testing.T) {
	pictures := func(w *written) {
		w.add("v.blk.0.attn_q.weight", 32, 32)
		w.add("a.blk.0.attn_q.weight", 32, 32)
		w.add("mm.input_projection.weight", 32, 32)
	}
	key := func(name string, v any) gguf.KV { return gguf.KV{Key: name, Value: v} }
	for _, c := range []struct {
		name   string
		spec   synth.Spec
		theirs func(w *written)
		notes  int
	}{
		{"gemma3", synth.Spec{Arch: "gemma3", Layers: 7, Keys: []gguf.KV{key("gemma3.rope.freq_base", float32(500)), key("gemma3.rope.freq_base_swa", float32(70))}}, func(w *written) {
			w.set("gemma3.rope.global.freq_base", w.value("gemma3.rope.freq_base"))
			w.set("gemma3.rope.local.freq_base", w.value("gemma3.rope.freq_base_swa"))
			w.set("gemma3.rope.freq_base", nil)
			w.set("gemma3.rope.freq_base_swa", nil)
			w.set("tokenizer.ggml.tokens", append(slices.Clone(w.value("tokenizer.ggml.tokens").([]string)), "<image_soft_token>"))
			pictures(w)
		}, 1},
		{"gemma3 without usual numbers", synth.Spec{Arch: "gemma3", Layers: 7, Keys: []gguf.KV{key("gemma3.rope.freq_base", float32(1e6)), key("gemma3.rope.freq_base_swa", float32(1e4)), key("gemma3.attention.layer_norm_rms_epsilon", float32(1e-6))}}, func(w *written) {
			w.set("gemma3.rope.freq_base", nil)
			w.set("gemma3.rope.freq_base_swa", nil)
			w.set("gemma3.attention.layer_norm_rms_epsilon", nil)
		}, 0},
		{"gpt-oss", synth.Spec{Arch: "gpt-oss", Layers: 2, Keys: []gguf.KV{key("gpt-oss.rope.scaling.type", "yarn"), key("gpt-oss.rope.scaling.factor", float32(32)), key("gpt-oss.rope.scaling.original_context_length", uint32(64))}}, func(w *written) {
			w.architecture("gpt-oss", "gptoss")
			w.set("gptoss.rope.scaling.type", nil)
			w.rename(".attn_output.", ".attn_out.", ".attn_sinks.weight", ".attn_sinks", ".post_attention_norm.", ".ffn_norm.")
		}, 0},
		{"mistral3", synth.Spec{Arch: "mistral3", Layers: 2, Keys: []gguf.KV{
			key("mistral3.rope.scaling.type", "yarn"), key("mistral3.rope.scaling.factor", float32(16)), key("mistral3.rope.scaling.original_context_length", uint32(64)),
			key("mistral3.rope.scaling.yarn_beta_fast", float32(20)), key("mistral3.rope.scaling.yarn_beta_slow", float32(2)), key("mistral3.rope.scaling.yarn_log_multiplier", float32(1)),
			key("mistral3.attention.temperature_scale", float32(0.1)),
		}}, func(w *written) {
			for ours, theirs := range map[string]string{"rope.scaling.yarn_beta_fast": "rope.scaling.beta_fast", "rope.scaling.yarn_beta_slow": "rope.scaling.beta_slow", "rope.scaling.yarn_log_multiplier": "rope.scaling.mscale_all_dim", "attention.temperature_scale": "rope.scaling_beta"} {
				w.set("mistral3."+theirs, w.value("mistral3."+ours))
				w.set("mistral3."+ours, nil)
			}
			pictures(w)
		}, 1},
		{"qwen2vl", synth.Spec{Arch: "qwen2vl", Layers: 2}, func(w *written) {
			w.architecture("qwen2vl", "qwen25vl")
			w.set("qwen25vl.rope.mrope_section", []int32{4, 6, 6})
			pictures(w)
		}, 1},
		{"olmo2", synth.Spec{Arch: "olmo2", Layers: 4, Keys: []gguf.KV{key("olmo2.attention.sliding_window", uint32(32))}}, func(w *written) { w.architecture("olmo2", "olmo3") }, 0},
		{"lfm2", synth.Spec{Arch: "lfm2", Layers: 3}, func(w *written) {
			w.rename("token_embd_norm.weight", "output_norm.weight")
			w.set("lfm2.feed_forward_length", uint32(12288))
		}, 0},
		{"glm4", synth.Spec{Arch: "glm4", Layers: 2, Keys: []gguf.KV{key("glm4.rope.dimension_sections", []int32{4, 2, 2})}}, func(w *written) {
			w.architecture("glm4", "glmocr")
			w.set("glmocr.rope.mrope_section", w.value("glmocr.rope.dimension_sections"))
			w.set("glmocr.rope.dimension_sections", nil)
			w.rename(".attn_output.", ".attn_out.", ".post_attention_norm.", ".post_attn_norm.", ".post_ffw_norm.", ".post_ffn_norm.")
		}, 0},
		{"qwen3next", synth.Spec{Arch: "qwen3next", Layers: 4}, func(w *written) { w.rename(".ssm_dt.bias", ".ssm_dt"); w.add("mtp.fc.weight", 32, 32) }, 1},
		{"deepseek2-ocr", synth.Spec{Arch: "deepseek2-ocr", Layers: 2, Mixing: synth.Mixing{Dense: 1}, Keys: []gguf.KV{key("deepseek2-ocr.attention.layer_norm_rms_epsilon", float32(1e-6))}}, func(w *written) {
			w.architecture("deepseek2-ocr", "deepseekocr")
			for _, name := range []string{"expert_feed_forward_length", "expert_shared_count", "attention.layer_norm_rms_epsilon"} {
				w.set("deepseekocr."+name, nil)
			}
			w.add("s.blk.0.attn.qkv.weight", 32, 32)
		}, 1},
		{"deepseek2", synth.Spec{Arch: "deepseek2", Layers: 2, Embd: 64, HeadDim: 32}, func(w *written) {
			w.architecture("deepseek2", "glm4moelite")
			head := w.value("glm4moelite.attention.key_length_mla")
			value := w.value("glm4moelite.attention.value_length_mla")
			w.set("glm4moelite.attention.key_length_mla", w.value("glm4moelite.attention.key_length"))
			w.set("glm4moelite.attention.value_length_mla", w.value("glm4moelite.attention.value_length"))
			w.set("glm4moelite.attention.key_length", head)
			w.set("glm4moelite.attention.value_length", value)
			w.set("glm4moelite.attention.head_count_kv", w.value("glm4moelite.attention.head_count"))
		}, 0},
		{"mllama", synth.Spec{Arch: "llama", Layers: 3}, func(w *written) {
			w.architecture("llama", "mllama")
			w.rename("blk.2.", "blk.3.", "blk.1.", "blk.2.")
			w.set("mllama.block_count", uint32(4))
			w.set("mllama.attention.cross_attention_layers", []int32{1})
			w.add("blk.1.cross_attn_q_proj.weight", 32, 32)
			w.set("tokenizer.ggml.tokens", append(slices.Clone(w.value("tokenizer.ggml.tokens").([]string)), "<|image|>"))
			w.longer("token_embd.weight", 8)
			pictures(w)
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Embd, c.spec.FF, c.spec.Heads, c.spec.Type, c.spec.Seed = max(c.spec.Embd, 32), 32, 2, quant.F32, 3
			keys := c.spec.Keys
			c.spec.Keys = nil
			plain := openSynth(t, c.spec)
			w := &written{keys: plain.Keys, tensors: plain.Tensors}
			for _, k := range keys {
				w.set(k.Key, k.Value)
			}
			ours := w.open(t)
			c.theirs(w)
			theirs := w.open(t)
			if len(theirs.Notes) != c.notes {
				t.Errorf("%d notes instead of %d: %q", len(theirs.Notes), c.notes, theirs.Notes)
			}
			want, err := ReadConfig(ours, "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(theirs, "")
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("hyperparameters differ:\n%+v\n%+v", got, want)
			}
			if d := tensorsOf(theirs); !reflect.DeepEqual(d, tensorsOf(ours)) {
				t.Errorf("tensors differ: %v", d)
			}
			was, err := Tokenizer(ours)
			if err != nil {
				t.Fatal(err)
			}
			is, err := Tokenizer(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if is.Size() != was.Size() {
				t.Errorf("%d tokens instead of %d", is.Size(), was.Size())
			}
		})
	}
}

// tensorsOf lists the tensors' names, shapes and bytes.
func tensorsOf(f *gguf.File) map[string]string {
	all := map[string]string{}
	for _, t := range f.Tensors {
		all[t.Name] = fmt.Sprint(t.Type, t.Shape, t.Data)
	}
	return all
}
