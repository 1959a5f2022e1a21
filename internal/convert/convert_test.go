package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// convertTo converts dir and opens the result.
func convertTo(t *testing.T, dir string, o Options) *gguf.File {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.gguf")
	if err := HuggingFace(t.Context(), dir, out, o); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// values decodes a tensor of f.
func values(t *testing.T, f *gguf.File, name string) []float32 {
	t.Helper()
	x := f.Tensor(name)
	if x == nil {
		t.Fatalf("no tensor %s", name)
	}
	out := make([]float32, x.Elems())
	quant.Decode(x.Type, out, x.Data)
	return out
}

func expectKey(t *testing.T, f *gguf.File, key string, want any) {
	t.Helper()
	got, ok := f.Lookup(key)
	if want == nil {
		if ok {
			t.Errorf("key %s = %v, want none", key, got)
		}
		return
	}
	if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
		t.Errorf("key %s = %T %v, want %T %v", key, got, got, want, want)
	}
}

func expectValues(t *testing.T, f *gguf.File, name string, want []float32) {
	t.Helper()
	if got := values(t, f, name); !slices.Equal(got, want) {
		t.Errorf("tensor %s differs from its source", name)
	}
}

// rotate applies rotary embedding at position pos to one head by its definition: pair j of d/2 turns by pos·θ_j.
// at gives the two elements of pair j.
func rotate(head []float64, pos float64, at func(j int) (int, int)) []float64 {
	out := slices.Clone(head)
	for j := range len(head) / 2 {
		a, b := at(j)
		sin, cos := math.Sincos(pos * math.Pow(10000, -2*float64(j)/float64(len(head))))
		out[a], out[b] = head[a]*cos-head[b]*sin, head[a]*sin+head[b]*cos
	}
	return out
}

// Rotating neighbours of the permuted rows gives what rotating halves of the original rows gives, element by element.
func TestInterleavedByDefinition(t *testing.T) {
	const d = 16
	order := interleaved(d)
	for head := range 3 {
		original, permuted := make([]float64, d), make([]float64, d)
		for i := range d {
			original[i] = math.Sin(float64(1 + i + d*head))
		}
		for i := range d {
			from := order(head*d + i)
			if from/d != head {
				t.Fatalf("row %d comes from another head (%d)", head*d+i, from)
			}
			permuted[i] = original[from%d]
		}
		halves := rotate(original, 7, func(j int) (int, int) { return j, j + d/2 })
		neighbours := rotate(permuted, 7, func(j int) (int, int) { return 2 * j, 2*j + 1 })
		for j := range d / 2 {
			if halves[j] != neighbours[2*j] || halves[j+d/2] != neighbours[2*j+1] {
				t.Fatalf("head %d pair %d: halves (%g, %g), neighbours (%g, %g)", head, j, halves[j], halves[j+d/2], neighbours[2*j], neighbours[2*j+1])
			}
		}
	}
}

func TestFalconOrderByDefinition(t *testing.T) {
	for _, kv := range []int{1, 2, 4} {
		const heads, d = 4, 8
		// The model's own view: [kv groups, heads/kv + 2, d], the last two of a group k and v.
		var q, k, v []int
		row := 0
		for range kv {
			for range heads / kv {
				for range d {
					q = append(q, row)
					row++
				}
			}
			for range d {
				k = append(k, row)
				row++
			}
			for range d {
				v = append(v, row)
				row++
			}
		}
		order := ungrouped(sizes{Heads: heads, KVHeads: kv, Key: d, Value: d}, kv)
		for r, want := range slices.Concat(q, k, v) {
			if got := order(r); got != want {
				t.Fatalf("%d KV heads: row %d comes from %d, want %d", kv, r, got, want)
			}
		}
	}
}

// TestUnevenGroups: a layer with fewer KV heads than a fused tensor has groups is refused.
func TestUnevenGroups(t *testing.T) {
	f := likeReference(t, "mimo2-fused")
	const heads, key, value, groups, windowKV = 4, 24, 16, 4, 1
	f.config["num_key_value_heads"], f.config["swa_num_key_value_heads"] = groups, windowKV
	for name := range f.tensors {
		if strings.HasSuffix(name, ".qkv_proj.weight") {
			kv := windowKV
			if strings.Contains(name, "layers.0.") || strings.Contains(name, "layers.3.") {
				kv = groups
			}
			f.random("F32", name, heads*key+kv*(key+value), 64)
		}
	}
	f.save(t, 1, 48)
	err := HuggingFace(t.Context(), f.dir, filepath.Join(f.dir, "model.gguf"), Options{Output: OutputOf(quant.F32), NoFurther: true})
	expectError(t, err, "4 heads and 1 KV heads of a layer are not 4 equal groups")
}

func TestLlama(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"attention_bias": true})
	f.random("F32", "model.layers.0.self_attn.rotary_emb.inv_freq", tinyHeadDim/2) // old checkpoints store it
	f.save(t, 1, tinyVocab)
	var last, total int64
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16), Progress: func(d, n int64) { last, total = d, n }})
	if last != total || total == 0 {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	for key, want := range map[string]any{
		"general.architecture": "llama", "general.name": "tiny", "general.file_type": uint32(1), "general.quantization_version": uint32(2),
		"llama.context_length": uint32(tinyContext), "llama.embedding_length": uint32(tinyEmbd), "llama.block_count": uint32(tinyLayers),
		"llama.feed_forward_length": uint32(tinyFF), "llama.attention.head_count": uint32(tinyHeads), "llama.attention.head_count_kv": uint32(tinyKV),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5), "llama.rope.freq_base": float32(10000), "llama.rope.dimension_count": uint32(tinyHeadDim),
		"llama.vocab_size": uint32(tinyVocab), "llama.attention.key_length": nil, "llama.rope.scaling.type": nil,
		"powerinfer.activation": "relu", "powerinfer.activation_threshold": nil, "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
		"tokenizer.ggml.unknown_token_id": uint32(0), "tokenizer.ggml.bos_token_id": nil,
	} {
		expectKey(t, g, key, want)
	}
	if x := g.Tensor("blk.1.ffn_down.weight"); x.Type != quant.F16 || !slices.Equal(x.Shape, []int{tinyFF, tinyEmbd}) {
		t.Errorf("ffn_down is %s %v", x.Type, x.Shape)
	}
	if x := g.Tensor("blk.1.attn_q.bias"); x.Type != quant.F32 || !slices.Equal(x.Shape, []int{tinyEmbd}) {
		t.Errorf("attn_q.bias is %s %v", x.Type, x.Shape)
	}
	expectValues(t, g, "output.weight", f.tensors["lm_head.weight"].values)
	expectValues(t, g, "output_norm.weight", f.tensors["model.norm.weight"].values)
	expectValues(t, g, "blk.1.attn_v.weight", f.tensors["model.layers.1.self_attn.v_proj.weight"].values)
	for out, in := range map[string]string{"blk.1.attn_q.weight": "q_proj.weight", "blk.0.attn_k.weight": "k_proj.weight", "blk.1.attn_k.bias": "k_proj.bias"} {
		src := f.tensors[fmt.Sprintf("model.layers.%c.self_attn.%s", out[4], in)]
		width := 1
		if len(src.shape) == 2 {
			width = src.shape[1]
		}
		var want []float32
		for head := range src.shape[0] / tinyHeadDim {
			for j := range tinyHeadDim / 2 { // neighbours in the output: element j of the first half, then of the second
				for _, r := range []int{head*tinyHeadDim + j, head*tinyHeadDim + j + tinyHeadDim/2} {
					want = append(want, src.values[r*width:(r+1)*width]...)
				}
			}
		}
		expectValues(t, g, out, want)
	}
}

func TestFamilies(t *testing.T) {
	t.Run("qwen2", func(t *testing.T) {
		f := tinyLlama(t, "Qwen2ForCausalLM", map[string]any{"tie_word_embeddings": true, "hidden_act": "silu", "rope_theta": 1e6})
		f.save(t, 1, tinyVocab-5)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.BF16)})
		expectKey(t, g, "qwen2.rope.freq_base", float32(1e6))
		expectKey(t, g, "powerinfer.activation", "silu")
		expectKey(t, g, "general.file_type", uint32(32))
		expectValues(t, g, "blk.0.attn_q.weight", f.tensors["model.layers.0.self_attn.q_proj.weight"].values) // not permuted
		expectValues(t, g, "blk.0.attn_k.bias", f.tensors["model.layers.0.self_attn.k_proj.bias"].values)
		if g.Tensor("output.weight") != nil {
			t.Error("a tied model has output.weight")
		}
		tokens, _ := g.Lookup("tokenizer.ggml.tokens")
		if list := tokens.([]string); len(list) != tinyVocab || list[tinyVocab-1] != fmt.Sprintf("[PAD%d]", tinyVocab-1) {
			t.Errorf("vocabulary is not padded to the embedding: %q", list)
		}
	})
	t.Run("qwen3", func(t *testing.T) {
		f := tinyLlama(t, "Qwen3ForCausalLM", nil)
		f.save(t, 1, tinyVocab)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
		expectValues(t, g, "blk.1.attn_k_norm.weight", f.tensors["model.layers.1.self_attn.k_norm.weight"].values)
	})
	t.Run("mistral", func(t *testing.T) {
		f := tinyLlama(t, "MistralForCausalLM", map[string]any{"sliding_window": 16})
		f.save(t, 1, tinyVocab)
		var notes []string
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32), Notes: func(s string) { notes = append(notes, s) }})
		expectKey(t, g, "general.architecture", "llama")
		if len(notes) != 1 {
			t.Errorf("notes %q, want one on the sliding window", notes)
		}
	})
	t.Run("prosparse", func(t *testing.T) {
		f := tinyLlama(t, "SparseLlamaForCausalLM", map[string]any{"hidden_act": "fatrelu", "hidden_act_param": 0.01})
		f.save(t, 1, tinyVocab)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
		expectKey(t, g, "powerinfer.activation", "fatrelu")
		expectKey(t, g, "powerinfer.activation_threshold", float32(0.01))
	})
	t.Run("bamboo", func(t *testing.T) {
		f := tinyLlama(t, "BambooForCausalLM", nil)
		f.save(t, 1, tinyVocab)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
		expectKey(t, g, "bamboo.block_count", uint32(tinyLayers))
		expectKey(t, g, "powerinfer.activation", "drelu")
		// Row 1 of a head rotates with row 0, so it is the first row of the source head's second half.
		source := f.tensors["model.layers.0.self_attn.q_proj.weight"]
		got, cols := make([]float32, len(source.values)), source.shape[1]
		quant.Decode(quant.F32, got, g.Tensor("blk.0.attn_q.weight").Data)
		half := g.Tensor("blk.0.attn_q.weight").Rows() / tinyHeads / 2
		if !slices.Equal(got[cols:2*cols], source.values[half*cols:(half+1)*cols]) {
			t.Error("q is not interleaved, as the engine rotates bamboo")
		}
	})
	t.Run("falcon 7B", func(t *testing.T) {
		// The published configuration gives num_kv_heads as the number of heads, which multi_query overrides.
		f := tinyFalcon(t, 1, map[string]any{"num_kv_heads": tinyHeads})
		f.save(t, 1, tinyVocab)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
		expectKey(t, g, "falcon.attention.head_count_kv", uint32(1))
		expectKey(t, g, "falcon.attention.layer_norm_epsilon", float32(1e-5))
		expectKey(t, g, "falcon.context_length", uint32(2048))
		expectKey(t, g, "powerinfer.activation", "gelu")
		// With one KV head the stored order already is q, k, v.
		expectValues(t, g, "blk.1.attn_qkv.weight", f.tensors["transformer.h.1.self_attention.query_key_value.weight"].values)
	})
	t.Run("falcon 40B", func(t *testing.T) {
		f := tinyFalcon(t, 2, map[string]any{"num_kv_heads": 2, "new_decoder_architecture": true, "tie_word_embeddings": false})
		f.save(t, 1, tinyVocab)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
		expectKey(t, g, "falcon.attention.head_count_kv", uint32(2))
		expectValues(t, g, "blk.0.attn_norm.bias", f.tensors["transformer.h.0.ln_mlp.bias"].values)
		expectValues(t, g, "blk.0.attn_norm_2.bias", f.tensors["transformer.h.0.ln_attn.bias"].values)
		expectValues(t, g, "output.weight", f.tensors["lm_head.weight"].values)
		src := f.tensors["transformer.h.0.self_attention.query_key_value.weight"].values
		got := values(t, g, "blk.0.attn_qkv.weight")
		const block = tinyHeadDim * tinyEmbd
		for i, from := range []int{0, 1, 4, 5, 2, 6, 3, 7} { // groups of q q k v -> q q q q k k v v
			if !slices.Equal(got[i*block:(i+1)*block], src[from*block:(from+1)*block]) {
				t.Errorf("head %d is not source head %d", i, from)
			}
		}
	})
	t.Run("opt", func(t *testing.T) {
		f := tinyOPT(t)
		f.save(t, 1, tinyVocab)
		g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F16)})
		expectKey(t, g, "opt.feed_forward_length", uint32(tinyFF))
		expectKey(t, g, "powerinfer.activation", "relu")
		expectValues(t, g, "position_embd.weight", f.tensors["model.decoder.embed_positions.weight"].values)
		expectValues(t, g, "blk.1.ffn_down.bias", f.tensors["model.decoder.layers.1.fc2.bias"].values)
		expectValues(t, g, "blk.1.attn_norm.weight", f.tensors["model.decoder.layers.1.self_attn_layer_norm.weight"].values)
	})
}

func TestHeadDim(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"head_dim": 8})
	for i := range tinyLayers {
		l := fmt.Sprintf("model.layers.%d.self_attn.", i)
		f.random("F32", l+"q_proj.weight", tinyHeads*8, tinyEmbd)
		f.random("F32", l+"k_proj.weight", tinyKV*8, tinyEmbd)
		f.random("F32", l+"v_proj.weight", tinyKV*8, tinyEmbd)
		f.random("F32", l+"o_proj.weight", tinyEmbd, tinyHeads*8)
	}
	f.save(t, 1, tinyVocab)
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
	expectKey(t, g, "llama.attention.key_length", uint32(8))
	expectKey(t, g, "llama.attention.value_length", uint32(8))
	expectKey(t, g, "llama.rope.dimension_count", uint32(8))
}

func TestRopeScaling(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 4.0}})
	f.save(t, 1, tinyVocab)
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
	expectKey(t, g, "llama.rope.scaling.type", "linear")
	expectKey(t, g, "llama.rope.scaling.factor", float32(4))

	f = tinyLlama(t, "LlamaForCausalLM", map[string]any{"rope_parameters": map[string]any{
		"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5, "original_max_position_embeddings": 32,
	}})
	f.save(t, 1, tinyVocab)
	g = convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
	expectKey(t, g, "llama.rope.scaling.type", "yarn")
	expectKey(t, g, "llama.rope.scaling.original_context_length", uint32(32))
	expectKey(t, g, "llama.rope.freq_base", float32(5e5))

	f = tinyLlama(t, "LlamaForCausalLM", map[string]any{"rope_scaling": map[string]any{
		"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
	}})
	f.save(t, 1, tinyVocab)
	g = convertTo(t, f.dir, Options{Output: OutputOf(quant.F16)})
	expectKey(t, g, "llama.rope.scaling.type", nil)
	// By definition: waves shorter than 8192/4 stay (divisor 1), longer than 8192 are slowed 8 times, between them the
	// frequency is a blend of f and f/8 that is linear in 8192/wave.
	const original = 8192.0
	for i, got := range values(t, g, "rope_freqs.weight") {
		freq := math.Pow(10000, -2*float64(i)/tinyHeadDim)
		wave := 2 * math.Pi / freq
		smooth := math.Min(1, math.Max(0, (original/wave-1)/(4-1)))
		want := freq / ((1-smooth)*freq/8 + smooth*freq)
		if math.Abs(float64(got)-want) > 1e-6*want { // float32 rounding
			t.Errorf("divisor %d is %g, want %g", i, got, want)
		}
	}
}

func TestOutTypes(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	f.save(t, 1, tinyVocab)
	for typ, fileType := range map[quant.Type]uint32{quant.F32: 0, quant.F16: 1, quant.BF16: 32, quant.Q8_0: 7, quant.Q4_0: 2, quant.Q4_1: 3} {
		t.Run(typ.String(), func(t *testing.T) {
			g := convertTo(t, f.dir, Options{Output: OutputOf(typ)})
			expectKey(t, g, "general.file_type", fileType)
			head := typ
			if typ == quant.Q4_0 || typ == quant.Q4_1 { // Q6_K: these rows are not multiples of its blocks
				head = quant.Q8_0
			}
			for name, want := range map[string]quant.Type{
				"output.weight": head, "token_embd.weight": typ, "blk.0.ffn_up.weight": typ, "blk.0.ffn_norm.weight": quant.F32,
			} {
				if got := g.Tensor(name).Type; got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			// The blocks are those of the scalar encoder applied to the source.
			src := f.tensors["model.layers.0.mlp.up_proj.weight"].values
			want := make([]byte, typ.RowBytes(tinyEmbd)*tinyFF)
			quant.Encode(typ, want, src)
			if !bytes.Equal(g.Tensor("blk.0.ffn_up.weight").Data, want) {
				t.Error("ffn_up is not the encoding of up_proj")
			}
		})
	}
}

// TestOddRows: rows that are not multiples of a block become F16, and the user is told.
func TestOddRows(t *testing.T) {
	const odd = 40
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"intermediate_size": odd})
	for i := range tinyLayers {
		l := fmt.Sprintf("model.layers.%d.mlp.", i)
		f.random("F32", l+"gate_proj.weight", odd, tinyEmbd)
		f.random("F32", l+"up_proj.weight", odd, tinyEmbd)
		f.random("F32", l+"down_proj.weight", tinyEmbd, odd)
	}
	f.save(t, 1, tinyVocab)
	var notes []string
	g := convertTo(t, f.dir, Options{Output: OutputOf(quant.Q8_0), Notes: func(s string) { notes = append(notes, s) }})
	if g.Tensor("blk.0.ffn_down.weight").Type != quant.F16 || g.Tensor("blk.0.ffn_up.weight").Type != quant.Q8_0 {
		t.Errorf("ffn_down is %s, ffn_up %s", g.Tensor("blk.0.ffn_down.weight").Type, g.Tensor("blk.0.ffn_up.weight").Type)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "blk.0.ffn_down.weight and 1 more: rows of 40") {
		t.Errorf("notes %q, want one of both ffn_down", notes)
	}
	expectValues(t, g, "blk.0.ffn_down.weight", f.tensors["model.layers.0.mlp.down_proj.weight"].values)
}

func TestShardsGiveTheSameBytes(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	f.save(t, 1, tinyVocab)
	var files [][]byte
	for _, shards := range []int{1, 3} {
		if shards > 1 {
			if err := os.Remove(filepath.Join(f.dir, "model.safetensors")); err != nil {
				t.Fatal(err)
			}
			f.save(t, shards, tinyVocab)
		}
		out := filepath.Join(t.TempDir(), "out.gguf")
		if err := HuggingFace(t.Context(), f.dir, out, Options{Output: OutputOf(quant.Q4_0)}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("three shards and one file give different bytes")
	}
}

// A tensor of many chunks per lane comes out in order.
func TestChunks(t *testing.T) {
	const rows, cols = 3001, 257
	x := fixture{dtype: "F32", shape: []int{rows, cols}, values: make([]float32, rows*cols)}
	for i := range x.values {
		x.values[i] = float32(i)
	}
	f := newFolder(t, nil)
	f.write(t, "model.safetensors", safetensors(map[string]fixture{"x": x}, []string{"x"}))
	c, err := checkpoint.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e := &encoder{lanes: make([]lane, 3)}
	var out bytes.Buffer
	reverse := &tensor{name: "x", shape: []int{cols, rows}, stack: stack{}.and(section{Tensor: c.Tensors["x"]}), row: func(r int) int { return rows - 1 - r }}
	if err := e.write(&out, reverse, quant.F32); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 4*rows*cols {
		t.Fatalf("%d bytes", out.Len())
	}
	for i := range rows * cols {
		got := math.Float32frombits(binary.LittleEndian.Uint32(out.Bytes()[4*i:]))
		if want := float32((rows-1-i/cols)*cols + i%cols); got != want {
			t.Fatalf("element %d is %g, want %g", i, got, want)
		}
	}
}

// The demo model: every tensor against an independent reading of its safetensors file.
func TestDemoModel(t *testing.T) {
	dir := demotest.HuggingFace(t)
	g := convertTo(t, dir, Options{Output: OutputOf(quant.F16), Name: "tales-relu"})
	for key, want := range map[string]any{
		"general.name": "tales-relu", "powerinfer.activation": "relu", "llama.context_length": uint32(512), "llama.feed_forward_length": uint32(768),
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(0),
		"tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": false,
	} {
		expectKey(t, g, key, want)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	source := func(name string) []float32 {
		e := header[name]
		out := make([]float32, (e.Offsets[1]-e.Offsets[0])/2)
		for i := range out {
			out[i] = quant.F32FromF16(binary.LittleEndian.Uint16(raw[8+int(n)+e.Offsets[0]+2*i:]))
		}
		return out
	}
	if want := len(header) - 1; len(g.Tensors) != want { // less __metadata__
		t.Errorf("%d tensors, want %d", len(g.Tensors), want)
	}
	expectValues(t, g, "token_embd.weight", source("model.embed_tokens.weight"))
	expectValues(t, g, "output_norm.weight", source("model.norm.weight"))
	for i := range 6 {
		for out, in := range map[string]string{
			"attn_norm": "input_layernorm", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
			"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
		} {
			expectValues(t, g, fmt.Sprintf("blk.%d.%s.weight", i, out), source(fmt.Sprintf("model.layers.%d.%s.weight", i, in)))
		}
		const headDim, width = 32, 192
		for out, in := range map[string]string{"attn_q": "q_proj", "attn_k": "k_proj"} {
			got := values(t, g, fmt.Sprintf("blk.%d.%s.weight", i, out))
			src := source(fmt.Sprintf("model.layers.%d.self_attn.%s.weight", i, in))
			for r := range len(src) / width {
				j := r % headDim
				to := r - j + j%(headDim/2)*2 + j/(headDim/2)
				if !slices.Equal(got[to*width:(to+1)*width], src[r*width:(r+1)*width]) {
					t.Fatalf("layer %d %s: row %d is not at %d", i, out, r, to)
				}
			}
		}
	}
}

// TestCancelled: a conversion and a quantisation stop with their context, in the middle of the file, and leave no
// files.
func TestCancelled(t *testing.T) {
	hf := demotest.HuggingFace(t)
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(ctx context.Context, path string, progress func(done, total int64)) error{
		"convert": func(ctx context.Context, path string, progress func(done, total int64)) error {
			return HuggingFace(ctx, hf, path, Options{Output: OutputOf(quant.F16), Progress: progress})
		},
		"quantize": func(ctx context.Context, path string, progress func(done, total int64)) error {
			return Quantize(ctx, f, path, Quantization{Output: OutputOf(quant.Q8_0), Progress: progress})
		},
	} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		after := 0
		err := write(ctx, filepath.Join(dir, "m.gguf"), func(int64, int64) {
			if ctx.Err() != nil {
				after++
			}
			cancel()
		})
		if !errors.Is(err, context.Canceled) || after > 0 {
			t.Errorf("%s: %v after %d more pieces", name, err, after)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s left behind %v, %v", name, left, err)
		}
	}
}
