package synthtest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Assistant returns a draft model of the tiny Gemma 4 in f, half as wide, with random weights: three layers with windows
// and one without, as published. Heads are the model's, which are of one size in all its layers.
func Assistant(t testing.TB, f *gguf.File, seed uint64) *gguf.File {
	t.Helper()
	const layers, arch = 4, "gemma4-assistant"
	table := f.Tensor("token_embd.weight")
	of := func(key string) int {
		n, _, err := f.Uint("gemma4." + key)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	wide, vocab := table.Shape[0], table.Rows()
	embd, heads, key := wide/2, of("attention.head_count"), of("attention.key_length")
	ff := 2 * embd

	keys := []gguf.KV{{Key: "general.architecture", Value: arch}}
	for _, k := range f.Keys {
		switch rest, own := strings.CutPrefix(k.Key, "gemma4."); {
		case own && (rest == "attention.sliding_window" || strings.HasPrefix(rest, "rope.") || strings.HasPrefix(rest, "attention.key_length") || strings.HasPrefix(rest, "attention.value_length") || rest == "context_length" || rest == "attention.layer_norm_rms_epsilon"):
			keys = append(keys, gguf.KV{Key: arch + "." + rest, Value: k.Value})
		case strings.HasPrefix(k.Key, "tokenizer."), k.Key == "powerinfer.activation":
			keys = append(keys, k)
		}
	}
	sizes := map[string]int{
		"block_count": layers, "nextn_predict_layers": layers, "attention.shared_kv_layers": layers, "embedding_length": embd, "embedding_length_out": wide,
		"feed_forward_length": ff, "attention.head_count": heads, "attention.head_count_kv": of("attention.head_count_kv"), "embedding_length_per_layer_input": 0,
	}
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		keys = append(keys, gguf.KV{Key: arch + "." + key, Value: uint32(sizes[key])})
	}
	keys = append(keys, gguf.KV{Key: arch + ".attention.sliding_window_pattern", Value: []bool{true, true, true, false}})

	rng := rand.New(rand.NewPCG(seed, 11))
	var tensors []gguf.Source
	add := func(name string, middle, spread float64, shape ...int) {
		tensors = append(tensors, Floats(name+".weight", normal(rng, middle, spread, shape...), shape...))
	}
	matrix := func(name string, cols, rows int) { add(name, 0, 1/math.Sqrt(float64(cols)), cols, rows) }
	matrix("token_embd", embd, vocab)
	add("output_norm", 1, 0.1, embd)
	tensors = append(tensors, Copied(f.Tensor("rope_freqs.weight"), "rope_freqs.weight"))
	matrix("nextn.pre_projection", 2*wide, embd)
	matrix("nextn.post_projection", embd, wide)
	for l := range layers {
		in := fmt.Sprintf("blk.%d.", l)
		for _, norm := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			add(in+norm, 1, 0.1, embd)
		}
		add(in+"attn_q_norm", 1, 0.1, key)
		matrix(in+"attn_q", embd, heads*key)
		matrix(in+"attn_output", heads*key, embd)
		matrix(in+"ffn_gate", embd, ff)
		matrix(in+"ffn_up", embd, ff)
		matrix(in+"ffn_down", ff, embd)
		add(in+"layer_output_scale", 0.8, 0.1, 1)
	}
	return Made(t, keys, tensors)
}
