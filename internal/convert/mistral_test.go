package convert

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// inMistralsForm returns f with Mistral's own names, and with neighbouring pairs of rows in queries and keys.
func inMistralsForm(t *testing.T, f *folder, params map[string]any, heads, kv, visionHeads int) *folder {
	t.Helper()
	out := &folder{dir: t.TempDir(), config: params, tensors: map[string]fixture{}}
	latent := params["kv_lora_rank"] != nil
	for name, x := range f.tensors {
		n := heads
		switch {
		case strings.HasPrefix(name, "vision_tower."):
			n = visionHeads
		case strings.Contains(name, ".k_proj."):
			n = kv
		}
		if (strings.Contains(name, ".q_proj.") || strings.Contains(name, ".k_proj.")) && !latent {
			cols, head := len(x.values)/x.shape[0], x.shape[0]/n
			turned := make([]float32, len(x.values))
			for h := range n {
				for i := range head {
					to := h*head + i%(head/2)*2 + i/(head/2)
					copy(turned[to*cols:][:cols], x.values[(h*head+i)*cols:][:cols])
				}
			}
			x.values = turned
		}
		for _, r := range [][2]string{
			{"language_model.model.", ""},
			{"model.", ""},
			{"embed_tokens.", "tok_embeddings."},
			{"lm_head.", "output."},
			{"input_layernorm.", "attention_norm."},
			{"post_attention_layernorm.", "ffn_norm."},
			{"self_attn.q_a_layernorm.", "attention.q_a_norm."},
			{"self_attn.kv_a_layernorm.", "attention.kv_a_norm."},
			{"self_attn.kv_a_proj_with_mqa.", "attention.wkv_a_with_mqa."},
			{"self_attn.q_a_proj.", "attention.wq_a."},
			{"self_attn.q_b_proj.", "attention.wq_b."},
			{"self_attn.kv_b_proj.", "attention.wkv_b."},
			{"self_attn.q_proj.", "attention.wq."},
			{"self_attn.k_proj.", "attention.wk."},
			{"self_attn.v_proj.", "attention.wv."},
			{"self_attn.o_proj.", "attention.wo."},
			{"attention.q_proj.", "attention.wq."},
			{"attention.k_proj.", "attention.wk."},
			{"attention.v_proj.", "attention.wv."},
			{"attention.o_proj.", "attention.wo."},
			{"mlp.shared_experts.", "shared_experts."},
			{"mlp.experts.", "experts."},
			{"mlp.gate.", "gate."},
			{"block_sparse_moe.", "feed_forward."},
			{"mlp.", "feed_forward."},
			{"gate_proj.", "w1."},
			{"down_proj.", "w2."},
			{"up_proj.", "w3."},
			{"vision_tower.", "vision_encoder."},
			{"multi_modal_projector.linear_1.", "vision_language_adapter.w_in."},
			{"multi_modal_projector.linear_2.", "vision_language_adapter.w_out."},
		} {
			name = strings.Replace(name, r[0], r[1], 1)
		}
		out.tensors[name] = x
	}
	out.writeJSON(t, "params.json", params)
	return out
}

// unstack returns f with experts each on their own, as folders in Mistral's form have them.
func unstack(f *folder, width, hidden int) {
	for name, x := range maps.Clone(f.tensors) {
		base, whole, ok := strings.Cut(name, "experts.")
		if !ok || whole != "gate_up_proj" && whole != "down_proj" {
			continue
		}
		delete(f.tensors, name)
		n := len(x.values) / x.shape[0]
		for e := range x.shape[0] {
			own := x.values[e*n:][:n]
			at := fmt.Sprintf("%sexperts.%d.", base, e)
			if whole == "down_proj" {
				f.tensors[at+"down_proj.weight"] = fixture{dtype: "F32", shape: []int{hidden, width}, values: own}
				continue
			}
			f.tensors[at+"gate_proj.weight"] = fixture{dtype: "F32", shape: []int{width, hidden}, values: own[:n/2]}
			f.tensors[at+"up_proj.weight"] = fixture{dtype: "F32", shape: []int{width, hidden}, values: own[n/2:]}
		}
	}
}

// TestMistralsForm: a folder in Mistral's own form gives the same file as one in transformers' form.
func TestMistralsForm(t *testing.T) {
	common := func(f *folder) map[string]any {
		c := f.config
		return map[string]any{
			"dim": c["hidden_size"], "n_layers": c["num_hidden_layers"], "hidden_dim": c["intermediate_size"], "n_heads": c["num_attention_heads"], "n_kv_heads": c["num_key_value_heads"],
			"norm_eps": c["rms_norm_eps"], "vocab_size": c["vocab_size"], "max_position_embeddings": c["max_position_embeddings"], "rope_theta": 10000.0,
		}
	}
	with := func(f *folder, more map[string]any) map[string]any {
		p := common(f)
		maps.Copy(p, more)
		return p
	}
	llama := func(rope map[string]any, architecture string) *folder {
		f := tinyLlama(t, architecture, map[string]any{"hidden_act": "silu", "rope_parameters": rope})
		return f
	}
	for name, c := range map[string]struct {
		f      *folder
		params func(f *folder) map[string]any
		heads  [3]int
	}{
		"text": {llama(map[string]any{"rope_type": "default", "rope_theta": 10000.0}, "MistralForCausalLM"), common, [3]int{tinyHeads, tinyKV, 0}},
		"growing queries": {
			llama(map[string]any{
				"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0, "llama_4_scaling_beta": 0.1,
			}, "Ministral3ForCausalLM"),
			func(f *folder) map[string]any {
				return with(f, map[string]any{
					"yarn":            map[string]any{"factor": 4, "original_max_position_embeddings": 32, "beta": 32, "alpha": 1, "apply_scale": false},
					"llama_4_scaling": map[string]any{"original_max_position_embeddings": 32, "beta": 0.1},
				})
			},
			[3]int{tinyHeads, tinyKV, 0},
		},
		"mixture": {likeReference(t, "mixtral"), func(f *folder) map[string]any {
			return with(f, map[string]any{"rope_theta": 1e6, "moe": map[string]any{"num_experts": 8, "num_experts_per_tok": 2}})
		}, [3]int{4, 2, 0}},
		"latent": {likeReference(t, "mistral4"), func(f *folder) map[string]any {
			unstack(f, 32, 64)
			return with(f, map[string]any{
				"kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24, "head_dim": 24,
				"moe": map[string]any{
					"num_experts": 8, "num_experts_per_tok": 3, "expert_hidden_dim": 32, "num_shared_experts": 1, "first_k_dense_replace": 0, "route_every_n": 1, "routed_scale": 1.0,
					"num_expert_groups": 1, "num_expert_groups_per_tok": 1,
				},
				"yarn":            map[string]any{"factor": 8, "original_max_position_embeddings": 16, "beta": 2, "alpha": 1, "apply_scale": true},
				"llama_4_scaling": map[string]any{"original_max_position_embeddings": 16, "beta": 0.1},
			})
		}, [3]int{4, 4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			own := inMistralsForm(t, c.f, c.params(c.f), c.heads[0], c.heads[1], c.heads[2])
			own.write(t, "tokenizer.model.v3", sentencePieceModel(tinyVocab))
			own.write(t, "consolidated.safetensors", safetensors(own.tensors, slices.Sorted(maps.Keys(own.tensors))))
			c.f.save(t, 1, tinyVocab)
			compareFiles(t, c.f.dir, own.dir, func(dir, out string) error {
				return HuggingFace(t.Context(), dir, out, Options{Output: OutputOf(quant.F32), Name: "one"})
			})
		})
	}
}

// TestMistralsPacked: packed queries and keys, with zeros that share words across rows and columns in groups of any
// order, give those of an unpacked folder in transformers' form.
func TestMistralsPacked(t *testing.T) {
	f := tinyLlama(t, "MistralForCausalLM", map[string]any{"hidden_act": "silu", "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 10000.0}})
	parts := map[string]fixture{}
	for _, m := range []struct {
		from, to string
		heads    int
	}{{"q_proj", "wq", tinyHeads}, {"k_proj", "wk", tinyKV}} {
		name := "model.layers.0.self_attn." + m.from + ".weight"
		x := f.tensors[name]
		rows, cols := x.shape[0], x.shape[1]
		packed, values := packedWords(4, 32, true, true)(f.rng, rows, cols)
		for end, p := range packed {
			parts["layers.0.attention."+m.to+end] = p
		}
		x = fixture{dtype: "F32", shape: x.shape, values: make([]float32, len(values))}
		for r, head := 0, rows/m.heads; r < rows; r++ {
			from := r/head*head + r%head%(head/2)*2 + r%head/(head/2)
			copy(x.values[r*cols:][:cols], values[from*cols:])
		}
		f.tensors[name] = x
	}
	c := f.config
	own := inMistralsForm(t, f, map[string]any{
		"dim": c["hidden_size"], "n_layers": c["num_hidden_layers"], "hidden_dim": c["intermediate_size"], "n_heads": c["num_attention_heads"], "n_kv_heads": c["num_key_value_heads"],
		"norm_eps": c["rms_norm_eps"], "vocab_size": c["vocab_size"], "max_position_embeddings": c["max_position_embeddings"], "rope_theta": 10000.0,
		"quantization": compressed("pack-quantized", map[string]any{"num_bits": 4, "group_size": 32}),
	}, tinyHeads, tinyKV, 0)
	delete(own.tensors, "layers.0.attention.wq.weight")
	delete(own.tensors, "layers.0.attention.wk.weight")
	maps.Copy(own.tensors, parts)
	own.write(t, "tokenizer.model.v3", sentencePieceModel(tinyVocab))
	own.write(t, "consolidated.safetensors", safetensors(own.tensors, slices.Sorted(maps.Keys(own.tensors))))
	f.save(t, 1, tinyVocab)
	compareFiles(t, f.dir, own.dir, func(dir, out string) error {
		return HuggingFace(t.Context(), dir, out, Options{Output: OutputOf(quant.F32), Name: "one"})
	})
}

// compareFiles converts two folders and compares the files.
func compareFiles(t *testing.T, a, b string, convert func(dir, out string) error) {
	t.Helper()
	var files []*gguf.File
	for _, dir := range []string{a, b} {
		out := filepath.Join(t.TempDir(), "out.gguf")
		if err := convert(dir, out); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	for _, kv := range files[0].Keys {
		if got, _ := files[1].Lookup(kv.Key); !reflect.DeepEqual(got, kv.Value) {
			t.Errorf("%s is %v, and %v of the folder in transformers' form", kv.Key, got, kv.Value)
		}
	}
	for _, want := range files[0].Tensors {
		if got := files[1].Tensor(want.Name); got == nil || !slices.Equal(got.Shape, want.Shape) || string(got.Data) != string(want.Data) {
			t.Errorf("%s differs", want.Name)
		}
	}
	for _, kv := range files[1].Keys {
		if _, ok := files[0].Lookup(kv.Key); !ok {
			t.Errorf("%s is %v, and not there of the folder in transformers' form", kv.Key, kv.Value)
		}
	}
	if len(files[0].Keys) != len(files[1].Keys) || len(files[0].Tensors) != len(files[1].Tensors) {
		t.Errorf("%d keys and %d tensors instead of %d and %d", len(files[1].Keys), len(files[1].Tensors), len(files[0].Keys), len(files[0].Tensors))
	}
}

// TestMistralsTower is TestMistralsForm for a vision tower.
func TestMistralsTower(t *testing.T) {
	f := likeTower(t, "pixtral")
	f.save(t, 1, tinyVocab)
	v := f.config["vision_config"].(map[string]any)
	params := map[string]any{"dim": 16, "n_layers": 1, "n_heads": 2, "n_kv_heads": 2, "norm_eps": 1e-5, "vocab_size": 48, "hidden_dim": 32, "head_dim": 8, "vision_encoder": map[string]any{
		"hidden_size": v["hidden_size"], "intermediate_size": v["intermediate_size"], "num_hidden_layers": v["num_hidden_layers"], "num_attention_heads": v["num_attention_heads"],
		"image_size": v["image_size"], "patch_size": v["patch_size"], "rope_theta": v["rope_theta"],
	}}
	own := inMistralsForm(t, f, params, 2, 2, 2)
	own.write(t, "consolidated.safetensors", safetensors(own.tensors, slices.Sorted(maps.Keys(own.tensors))))
	own.write(t, "tekken.json", tekkenJSON(nil))
	compareFiles(t, f.dir, own.dir, func(dir, out string) error {
		return Tower(t.Context(), dir, out, Options{Output: OutputOf(quant.F32), Name: "one"})
	})
}

// tekkenJSON returns tekken.json of 20 special tokens with the usual names, and tokens.
func tekkenJSON(tokens []string) []byte {
	var list []string
	for i, token := range tokens {
		list = append(list, fmt.Sprintf(`{"rank":%d,"token_bytes":%q}`, i, base64.StdEncoding.EncodeToString([]byte(token))))
	}
	return fmt.Appendf(nil, `{"config":{"default_vocab_size":%d,"default_num_special_tokens":20},"vocab":[%s]}`, 20+len(tokens), strings.Join(list, ","))
}

// TestTekken: tekken.json encodes as tiktoken does, its special tokens come first, and texts begin with <s>.
func TestTekken(t *testing.T) {
	_, tokens := tiktokenModel()
	f := &folder{dir: t.TempDir()}
	f.write(t, tekkenFile, tekkenJSON(tokens))
	tok := &tokenizerConfig{}
	v, err := readTekkenVocabulary(filepath.Join(f.dir, tekkenFile), 20+len(tokens), tok)
	if err != nil {
		t.Fatal(err)
	}
	if v.tokens[12] != "[IMG_BREAK]" || v.types[12] != tokenControl || tok.BOS.text != "<s>" || tok.EOS.text != "</s>" || !*v.addBOS || *v.addEOS {
		t.Errorf("token 12 is %q, texts begin with %q and end with %q", v.tokens[12], tok.BOS.text, tok.EOS.text)
	}
	enc, err := tokenizer.New(tokenizer.Vocab{Model: v.model, Pre: v.pre, Tokens: v.tokens, Types: v.types, Merges: v.merges, BOS: 1, EOS: 2, UNK: -1, EOT: -1, PAD: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, pieces := range [][]string{{"hello", " world"}, {"中文文"}, {"1", "2", "3"}} {
		var want []int32
		for _, p := range pieces {
			for _, id := range encodeRanks(p, tokens) {
				want = append(want, 20+id)
			}
		}
		if got := enc.Encode(strings.Join(pieces, ""), false, false); !slices.Equal(got, want) {
			t.Errorf("%q: %v, tiktoken has %v", pieces, got, want)
		}
	}
	for _, damaged := range []string{
		`{}`, `{"config":{"default_vocab_size":30,"default_num_special_tokens":20},"vocab":[]}`, `{"config":{"default_vocab_size":2,"default_num_special_tokens":1},"vocab":[{"rank":1,"token_bytes":"IQ=="}]}`,
		`{"config":{"default_vocab_size":1,"default_num_special_tokens":1},"special_tokens":[{"rank":7,"token_str":"x"}]}`,
	} {
		f.write(t, tekkenFile, []byte(damaged))
		if _, err := readTekkenVocabulary(filepath.Join(f.dir, tekkenFile), 40, &tokenizerConfig{}); err == nil && damaged != `{}` {
			t.Errorf("%s: no error", damaged)
		}
	}
}
