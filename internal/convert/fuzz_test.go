package convert

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// FuzzFolder converts a model's folder with data in one file other than weights. An error must be one line that begins
// with the folder's name, and no output remains. If that file is its configuration, the adapter next to the model is
// converted, too.
func FuzzFolder(f *testing.F) {
	names := []string{
		"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json", "tokenizer.jsonl",
		"modules.json", "1_Pooling/config.json", "vocab.txt", "chat_template.jinja", "hf_quant_config.json", "model.safetensors.index.json", "adapter_config.json",
		paramsFile, tekkenFile, tiktokenFile,
	}
	made := func(t *testing.T) (files, adapter map[string][]byte) {
		m := tinyLlama(t, "LlamaForCausalLM", nil)
		m.save(t, 1, tinyVocab)
		dir, _ := adapted(t, m, map[string]any{"lora_alpha": 1}, 1, "model.layers.0.mlp.up_proj")
		read := func(dir string) map[string][]byte {
			files := map[string][]byte{}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
					t.Fatal(err)
				}
			}
			return files
		}
		return read(m.dir), read(dir)
	}
	for i, data := range [][]byte{
		[]byte(`{"architectures":["LlamaForCausalLM"],"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":96,
			"max_position_embeddings":128,"vocab_size":48,"rms_norm_eps":1e-5,"hidden_act":"silu","rope_scaling":{"type":"linear","factor":2.0},"bos_token_id":1,
			"eos_token_id":[2,3],"quantization_config":null,"text_config":{"hidden_size":64}}`),
		byteLevelJSON(llama3Pre, withBOS),
		[]byte(`{"bos_token":"<s>","eos_token":{"content":"</s>"},"added_tokens_decoder":{"4":{"content":"x","special":true}},"chat_template":[{"name":"default","template":"D"}]}`),
		[]byte(`{"bos_token":"<s>","pad_token":null}`),
		[]byte(`{"<x>":47}`),
		[]byte(`{"eos_token_id":[1,2]}`),
		[]byte(`["a",-1.0,"NORMAL"]` + "\n" + `["<unk>",0,"UNKNOWN"]`),
		[]byte(`[{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]`),
		[]byte(`{"word_embedding_dimension":64,"pooling_mode_mean_tokens":true}`),
		[]byte("[PAD]\n[UNK]\na\n##b\n"),
		[]byte(`{{ messages[0].content }}`),
		[]byte(`{"quantization":{"quant_algo":"NVFP4","group_size":16}}`),
		[]byte(`{"weight_map":{"lm_head.weight":"model.safetensors"}}`),
		[]byte(`{"peft_type":"LORA","r":3,"lora_alpha":1,"bias":"none","base_model_name_or_path":"x","rank_pattern":{"up_proj":3},"use_rslora":true}`),
		[]byte(`{"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"hidden_dim":96,"max_position_embeddings":128,"vocab_size":48,"norm_eps":1e-5,"yarn":{"factor":2,
			"original_max_position_embeddings":64,"beta":32,"alpha":1,"apply_scale":false},"llama_4_scaling":{"original_max_position_embeddings":64,"beta":0.1},
			"vision_encoder":{"num_attention_heads":2},"quantization":{"qformat_weight":"fp8_e4m3"}}`),
		tekkenJSON([]string{"a", "b", "ab"}),
		[]byte("YQ== 0\nYg== 1\nYWI= 2\n"),
	} {
		f.Add(uint8(i), data)
	}
	for _, name := range []string{"step35", "deci", "dots3note", "grovemoe", "mimo2-fused", "glm4v-moe"} {
		data, err := os.ReadFile(filepath.Join("testdata", "reference", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		var r struct {
			Config json.RawMessage `json:"config"`
		}
		if err := json.Unmarshal(data, &r); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(0), []byte(r.Config))
	}
	var files, adapter map[string][]byte
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		if files == nil {
			files, adapter = made(t)
		}
		name := names[int(which)%len(names)]
		put := func(dir string, files map[string][]byte) {
			files = maps.Clone(files)
			files[name] = data
			switch name {
			case "tokenizer.json", "tokenizer.jsonl", tekkenFile, tiktokenFile:
				delete(files, "tokenizer.model")
			case paramsFile:
				files["consolidated.safetensors"] = files["model.safetensors"]
				delete(files, "model.safetensors")
				delete(files, "config.json")
			}
			for _, n := range slices.Sorted(maps.Keys(files)) {
				path := filepath.Join(dir, n)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, files[n], 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		dir, into := t.TempDir(), t.TempDir()
		out := filepath.Join(into, "m.gguf")
		base := filepath.Join(dir, "model")
		o := Options{Output: OutputOf(quant.F16)}
		put(base, files)
		var err error
		if name == "adapter_config.json" {
			beside := filepath.Join(dir, "adapter")
			put(beside, adapter)
			err = Adapter(t.Context(), beside, base, out, o)
		} else {
			err = HuggingFace(t.Context(), base, out, o)
		}
		if err == nil {
			return
		}
		if s := err.Error(); !strings.HasPrefix(s, dir) || strings.ContainsAny(s, "\n\r") {
			t.Fatalf("error %q", s)
		}
		if left, err := os.ReadDir(into); err != nil || len(left) > 0 {
			t.Fatalf("%v is left behind (%v)", left, err)
		}
	})
}
