package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// expectError checks that err is one line that holds want.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if s := err.Error(); !strings.Contains(s, want) || strings.Contains(s, "\n") {
		t.Errorf("error %q, want one line with %q", s, want)
	}
}

func TestBadFolders(t *testing.T) {
	llama := func(t *testing.T, extra map[string]any) *folder {
		return tinyLlama(t, "LlamaForCausalLM", extra)
	}
	set := func(key string, v any) func(*testing.T) *folder {
		return func(t *testing.T) *folder {
			f := llama(t, nil)
			f.config[key] = v
			return f
		}
	}
	edit := func(change func(*folder)) func(*testing.T) *folder {
		return func(t *testing.T) *folder {
			f := llama(t, nil)
			change(f)
			return f
		}
	}
	for _, c := range []struct {
		name   string
		make   func(*testing.T) *folder
		damage func(t *testing.T, f *folder) // after saving
		want   string
	}{
		{"architecture", set("architectures", []string{"PerceptronForCausalLM"}), nil, `config.json: key "architectures": "PerceptronForCausalLM" is not supported; supported are AfmoeForCausalLM, `},
		{"no architecture", set("architectures", nil), nil, `key "architectures": 0 names instead of one`},
		{"type", set("hidden_size", "wide"), nil, `key "hidden_size": a JSON string where an integer belongs`},
		{"missing size", set("hidden_size", 0), nil, `key "hidden_size": it is missing`},
		{"absurd size", set("num_hidden_layers", 1<<30), nil, `key "num_hidden_layers": 1073741824 is outside 1…4096`},
		{"negative size", set("intermediate_size", -1), nil, `key "intermediate_size": -1 is outside`},
		{"heads", set("num_key_value_heads", 3), nil, `key "num_key_value_heads": 4 heads do not share 3 KV heads evenly`},
		{"activation", set("hidden_act", "tanh"), nil, `key "hidden_act": activation "tanh" is not supported; supported are silu`},
		{"rope", set("rope_scaling", map[string]any{"type": "longrope", "factor": 2.0}), nil, `key "rope_scaling": type longrope of llama is not supported`},
		{"rope factor", set("rope_scaling", map[string]any{"type": "linear"}), nil, `factor 0 is not a number of at least 1`},
		{"partial", set("partial_rotary_factor", 0.5), nil, `key "partial_rotary_factor"`},
		{"quantised", set("quantization_config", map[string]any{"quant_method": "gptq"}), nil, `weights quantised by "gptq" are not read`},
		{"missing tensor", edit(func(f *folder) { delete(f.tensors, "model.layers.1.mlp.up_proj.weight") }), nil, `model.safetensors: tensor "model.layers.1.mlp.up_proj.weight" is missing`},
		{"no head", edit(func(f *folder) { delete(f.tensors, "lm_head.weight") }), nil, `tensor "lm_head.weight" is missing`},
		{"surplus tensor", edit(func(f *folder) { f.random("F32", "model.layers.0.mlp.up_proj.bias", 4) }), nil, `no place for tensors model.layers.0.mlp.up_proj.bias`},
		{"misshapen", edit(func(f *folder) { f.random("F32", "model.norm.weight", 4, 16) }), nil, `tensor "model.norm.weight" has shape [4 16], config.json makes it [64]`},
		{"not finite", edit(func(f *folder) {
			f.tensors["model.norm.weight"] = fixture{dtype: "F32", shape: []int{tinyEmbd}, values: append(make([]float32, tinyEmbd-1), quant.F32FromF16(0x7c00))}
		}), nil, `tensor "model.norm.weight" holds +Inf; the model is damaged`},
		{"beyond F16", edit(func(f *folder) {
			f.tensors["lm_head.weight"].values[5] = 1
			x := f.tensors["lm_head.weight"]
			x.dtype = "F32"
			x.values[5] = 70000
			f.tensors["lm_head.weight"] = x
		}), nil, `tensor "lm_head.weight" holds 70000, beyond F16; choose bf16 or f32`},
		{"no weights", edit(func(*folder) {}), func(t *testing.T, f *folder) { remove(t, f, "model.safetensors") }, `no model.safetensors and no model.safetensors.index.json in it; name a Hugging Face model folder`},
		{"pytorch", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			remove(t, f, "model.safetensors")
			f.write(t, "pytorch_model.bin", nil)
		}, `pytorch_model.bin: it is no archive of torch.save; it is damaged, download it again`},
		{"index elsewhere", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			remove(t, f, "model.safetensors")
			f.writeJSON(t, "model.safetensors.index.json", map[string]any{"weight_map": map[string]string{"a": "../a.safetensors"}})
		}, `tensor "a": "../a.safetensors" is not a file name in this folder`},
		{"index of another form", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			remove(t, f, "model.safetensors")
			f.writeJSON(t, "model.safetensors.index.json", []int{1})
		}, `model.safetensors.index.json: offset 1: a JSON array where an object belongs`},
		{"a map in a list's place", set("architectures", map[string]any{}), nil, `key "architectures": a JSON object where an array belongs`},
		{"endless file", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			remove(t, f, "config.json")
			if err := symlink(os.DevNull, filepath.Join(f.dir, "config.json")); err != nil {
				t.Skip(err)
			}
		}, `config.json: not a regular file`},
		{"endless weights", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			remove(t, f, "model.safetensors")
			if err := symlink(os.DevNull, filepath.Join(f.dir, "null.safetensors")); err != nil {
				t.Skip(err)
			}
			f.writeJSON(t, "model.safetensors.index.json", map[string]any{"weight_map": map[string]string{"a": "null.safetensors"}})
		}, `null.safetensors: not a regular file`},
		{"template in no UTF-8", edit(func(*folder) {}), func(t *testing.T, f *folder) { f.write(t, "chat_template.jinja", []byte("\xff")) }, `chat_template.jinja: it is not UTF-8: download it again`},
		{"no folder's file", edit(func(*folder) {}), func(t *testing.T, f *folder) { remove(t, f, "config.json") }, `config.json: file does not exist: give a Hugging Face folder with all its files, or download it again`},
		{"missing shard", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			remove(t, f, "model.safetensors")
			f.writeJSON(t, "model.safetensors.index.json", map[string]any{"weight_map": map[string]string{"a": "b.safetensors"}})
		}, `b.safetensors: file does not exist: give a Hugging Face folder with all its files, or download it again`},
		{"index wrong", edit(func(*folder) {}), func(t *testing.T, f *folder) {
			if err := os.Rename(filepath.Join(f.dir, "model.safetensors"), filepath.Join(f.dir, "x.safetensors")); err != nil {
				t.Fatal(err)
			}
			f.writeJSON(t, "model.safetensors.index.json", map[string]any{"weight_map": map[string]string{"a": "x.safetensors"}})
		}, `tensor "a" is not in `},
		{"no tokenizer", edit(func(*folder) {}), func(t *testing.T, f *folder) { remove(t, f, "tokenizer.model") }, `no tokenizer.model, tokenizer.json, tokenizer.jsonl or vocab.json in it`},
		{"damaged tokenizer", edit(func(*folder) {}), func(t *testing.T, f *folder) { f.write(t, "tokenizer.model", []byte("IQ== 0\n")) }, `tokenizer.model: this is not a SentencePiece model`},
		{"large vocabulary", edit(func(*folder) {}), func(t *testing.T, f *folder) { f.write(t, "tokenizer.model", sentencePieceModel(tinyVocab+1)) }, `49 pieces for 48 rows of the embedding`},
		{"damaged config", edit(func(*folder) {}), func(t *testing.T, f *folder) { f.write(t, "config.json", []byte(`{"a":1,}`)) }, `config.json: offset 8: invalid character`},
		{"falcon-rw", func(t *testing.T) *folder { return tinyFalcon(t, 1, map[string]any{"alibi": true}) }, nil, `Falcon-RW (alibi, biases or sequential blocks) is not supported`},
		{"opt 350m", func(t *testing.T) *folder { f := tinyOPT(t); f.config["word_embed_proj_dim"] = 32; return f }, nil, `key "word_embed_proj_dim": embeddings narrower than the model (32 of 64) are not supported`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(t)
			f.save(t, 1, tinyVocab)
			if c.damage != nil {
				c.damage(t, f)
			}
			out := filepath.Join(t.TempDir(), "out.gguf")
			expectError(t, HuggingFace(t.Context(), f.dir, out, Options{Output: OutputOf(quant.F16), Notes: func(s string) {
				t.Errorf("a folder that is refused brings a note: %s", s)
			}}), c.want)
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	words := edit(func(*folder) {})(t) // its unknown token does not exist, in a form that gives a note
	words.save(t, 1, tinyVocab)
	remove(t, words, "tokenizer.model")
	words.write(t, "tokenizer.json", []byte(`{"model":{"type":"WordLevel","unk_token":"?","vocab":{"a":0}}}`))
	expectError(t, HuggingFace(t.Context(), words.dir, filepath.Join(t.TempDir(), "out"), Options{Output: OutputOf(quant.F16), Notes: func(s string) {
		t.Errorf("a tokenizer that is refused brings a note: %s", s)
	}}), "tokenizer.json: ")
	expectError(t, HuggingFace(t.Context(), t.TempDir(), "out", Options{}), "give an output type; supported are "+OutTypes())
}

func remove(t *testing.T, f *folder, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// symlink makes a symbolic link and fails if it does not work: older versions of wine only claim to make one.
func symlink(target, path string) error {
	err := os.Symlink(target, path)
	if err == nil {
		_, err = os.Stat(path)
	}
	return err
}
