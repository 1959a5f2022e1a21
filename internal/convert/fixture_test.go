package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// folder is a tiny model folder in the making.
type folder struct {
	dir     string
	config  map[string]any
	tensors map[string]fixture
	rng     *rand.Rand
}

// fixture is a tensor in the making; values are exact in dtype.
type fixture struct {
	dtype  string
	shape  []int
	values []float32
	raw    []byte // instead of values
}

func newFolder(t *testing.T, config map[string]any) *folder {
	t.Helper()
	return &folder{dir: t.TempDir(), config: config, tensors: map[string]fixture{}, rng: testenv.Rand(t)}
}

// random adds a tensor of values that F16 and BF16 hold exactly, so that float conversions can be compared exactly.
func (f *folder) random(dtype, name string, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(f.rng.IntN(255)-127) / 64
	}
	f.tensors[name] = fixture{dtype: dtype, shape: shape, values: v}
}

// encode gives a fixture's bytes.
func (x fixture) encode() []byte {
	b := x.raw
	for _, v := range x.values {
		bits := math.Float32bits(v)
		switch x.dtype {
		case "F32":
			b = binary.LittleEndian.AppendUint32(b, bits)
		case "BF16":
			b = binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
		case "U8", "F8_E4M3": // the byte's number
			b = append(b, byte(v))
		case "F16":
			b = binary.LittleEndian.AppendUint16(b, quant.F16FromF32(v))
		default:
			panic(x.dtype)
		}
	}
	return b
}

// safetensors lays out the named tensors in that order.
func safetensors(tensors map[string]fixture, names []string) []byte {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, name := range names {
		b := tensors[name].encode()
		header[name] = map[string]any{"dtype": tensors[name].dtype, "shape": tensors[name].shape, "data_offsets": []int{len(data), len(data) + len(b)}}
		data = append(data, b...)
	}
	j, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(j))), j, data)
}

func (f *folder) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (f *folder) writeJSON(t *testing.T, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, name, b)
}

// save writes config, weights in n shards (1: model.safetensors) and a tokenizer of vocab tokens.
func (f *folder) save(t *testing.T, n, vocab int) {
	t.Helper()
	f.writeJSON(t, "config.json", f.config)
	f.write(t, "tokenizer.model", sentencePieceModel(vocab))
	names := slices.Sorted(maps.Keys(f.tensors))
	if n == 1 {
		f.write(t, "model.safetensors", safetensors(f.tensors, names))
		return
	}
	weightMap := map[string]string{}
	shards := make([][]string, n)
	for i, name := range names {
		shards[i%n] = append(shards[i%n], name)
		weightMap[name] = fmt.Sprintf("model-%05d-of-%05d.safetensors", i%n+1, n)
	}
	for i := range shards {
		f.write(t, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n), safetensors(f.tensors, shards[i]))
	}
	f.writeJSON(t, "model.safetensors.index.json", map[string]any{"weight_map": weightMap})
}

// sentencePieceModel encodes a ModelProto by hand: <unk>, <s>, </s>, a space, letters and pieces made of them.
func sentencePieceModel(n int) []byte {
	message := func(num byte, body []byte) []byte {
		return slices.Concat([]byte{num<<3 | 2}, binary.AppendUvarint(nil, uint64(len(body))), body)
	}
	var out []byte
	for i := range n {
		text, kind, score := fmt.Sprintf("▁w%d", i), tokenNormal, float32(-i)
		switch i {
		case 0:
			text, kind = "<unk>", tokenUnknown
		case 1:
			text, kind = "<s>", tokenControl
		case 2:
			text, kind = "</s>", tokenControl
		}
		p := message(1, []byte(text))
		p = append(p, 2<<3|5)
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(score))
		p = append(p, 3<<3, byte(kind))
		out = append(out, message(1, p)...)
	}
	return append(out, message(2, []byte{3 << 3, 2})...)
}

// Sizes of the tiny models: every dimension differs, so that a transposed or swapped one is seen.
const (
	tinyVocab, tinyEmbd, tinyFF, tinyLayers, tinyHeads, tinyKV, tinyContext = 48, 64, 96, 2, 4, 2, 128
	tinyHeadDim                                                             = tinyEmbd / tinyHeads
)

// tinyLlama returns a folder of the Llama kind; kind decides on biases and head norms.
func tinyLlama(t *testing.T, architecture string, extra map[string]any) *folder {
	config := map[string]any{
		"architectures": []string{architecture}, "_name_or_path": "maker/tiny", "hidden_size": tinyEmbd, "num_hidden_layers": tinyLayers,
		"num_attention_heads": tinyHeads, "num_key_value_heads": tinyKV, "intermediate_size": tinyFF, "max_position_embeddings": tinyContext,
		"vocab_size": tinyVocab, "rms_norm_eps": 1e-5, "hidden_act": "relu", "tie_word_embeddings": false,
	}
	maps.Copy(config, extra)
	f := newFolder(t, config)
	f.random("F32", "model.embed_tokens.weight", tinyVocab, tinyEmbd)
	f.random("BF16", "model.norm.weight", tinyEmbd)
	if config["tie_word_embeddings"] == false {
		f.random("F16", "lm_head.weight", tinyVocab, tinyEmbd)
	}
	for i := range tinyLayers {
		l := fmt.Sprintf("model.layers.%d.", i)
		f.random("F32", l+"input_layernorm.weight", tinyEmbd)
		f.random("F32", l+"post_attention_layernorm.weight", tinyEmbd)
		f.random("F16", l+"self_attn.q_proj.weight", tinyEmbd, tinyEmbd)
		f.random("BF16", l+"self_attn.k_proj.weight", tinyKV*tinyHeadDim, tinyEmbd)
		f.random("F32", l+"self_attn.v_proj.weight", tinyKV*tinyHeadDim, tinyEmbd)
		f.random("F32", l+"self_attn.o_proj.weight", tinyEmbd, tinyEmbd)
		f.random("F32", l+"mlp.gate_proj.weight", tinyFF, tinyEmbd)
		f.random("F32", l+"mlp.up_proj.weight", tinyFF, tinyEmbd)
		f.random("F32", l+"mlp.down_proj.weight", tinyEmbd, tinyFF)
		if architecture == "Qwen2ForCausalLM" || config["attention_bias"] == true {
			f.random("F32", l+"self_attn.q_proj.bias", tinyEmbd)
			f.random("F32", l+"self_attn.k_proj.bias", tinyKV*tinyHeadDim)
			f.random("F32", l+"self_attn.v_proj.bias", tinyKV*tinyHeadDim)
		}
		if architecture == "Qwen3ForCausalLM" {
			f.random("F32", l+"self_attn.q_norm.weight", tinyHeadDim)
			f.random("F32", l+"self_attn.k_norm.weight", tinyHeadDim)
		}
	}
	return f
}

func tinyFalcon(t *testing.T, kvHeads int, extra map[string]any) *folder {
	config := map[string]any{
		"architectures": []string{"FalconForCausalLM"}, "hidden_size": tinyEmbd, "num_hidden_layers": tinyLayers,
		"num_attention_heads": tinyHeads, "vocab_size": tinyVocab, "layer_norm_epsilon": 1e-5, "multi_query": true,
	}
	maps.Copy(config, extra)
	f := newFolder(t, config)
	norm := func(name string) {
		f.random("F32", name+".weight", tinyEmbd)
		f.random("F32", name+".bias", tinyEmbd)
	}
	f.random("F32", "transformer.word_embeddings.weight", tinyVocab, tinyEmbd)
	f.random("F32", "lm_head.weight", tinyVocab, tinyEmbd)
	norm("transformer.ln_f")
	for i := range tinyLayers {
		l := fmt.Sprintf("transformer.h.%d.", i)
		if kvHeads > 1 {
			norm(l + "ln_attn")
			norm(l + "ln_mlp")
		} else {
			norm(l + "input_layernorm")
		}
		f.random("F32", l+"self_attention.query_key_value.weight", (tinyHeads+2*kvHeads)*tinyHeadDim, tinyEmbd)
		f.random("F32", l+"self_attention.dense.weight", tinyEmbd, tinyEmbd)
		f.random("F32", l+"mlp.dense_h_to_4h.weight", 4*tinyEmbd, tinyEmbd)
		f.random("F32", l+"mlp.dense_4h_to_h.weight", tinyEmbd, 4*tinyEmbd)
	}
	return f
}

func tinyOPT(t *testing.T) *folder {
	f := newFolder(t, map[string]any{
		"architectures": []string{"OPTForCausalLM"}, "hidden_size": tinyEmbd, "num_hidden_layers": tinyLayers, "num_attention_heads": tinyHeads,
		"ffn_dim": tinyFF, "max_position_embeddings": tinyContext, "vocab_size": tinyVocab, "activation_function": "relu",
		"do_layer_norm_before": true, "word_embed_proj_dim": tinyEmbd,
	})
	both := func(name string, dims ...int) {
		f.random("F16", name+".weight", dims...)
		f.random("F16", name+".bias", dims[0])
	}
	f.random("F16", "model.decoder.embed_tokens.weight", tinyVocab, tinyEmbd)
	f.random("F16", "model.decoder.embed_positions.weight", tinyContext+2, tinyEmbd)
	both("model.decoder.final_layer_norm", tinyEmbd)
	for i := range tinyLayers {
		l := fmt.Sprintf("model.decoder.layers.%d.", i)
		for _, name := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"} {
			both(l+name, tinyEmbd, tinyEmbd)
		}
		both(l+"self_attn_layer_norm", tinyEmbd)
		both(l+"final_layer_norm", tinyEmbd)
		both(l+"fc1", tinyFF, tinyEmbd)
		both(l+"fc2", tinyEmbd, tinyFF)
	}
	return f
}
