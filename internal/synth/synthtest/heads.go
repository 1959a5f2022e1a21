package synthtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Head says what a draft head is like that Eagle3 or DFlash makes.
type Head struct {
	Layers []int // of the model, that it reads
	Embd   int   // its width
	Heads  int   // of attention, two for each KV head; 16 elements each
	FF     int   // neurons
	Depth  int   // its layers; 0: 1
	Known  int   // tokens that it drafts, every third of the model's; 0: all
	Own    bool  // it has its own table of tokens and matrix of logits
	Normed bool  // EAGLE-3: norm_before_residual and norm_before_fc
	Block  int   // DFlash: rows of a block
	Mask   int   // DFlash: the token that stands for drafted ones
	Causal bool  // DFlash: rows of a block see no later ones
	Gemma  bool  // DFlash: norms after parts, factors of layers' outputs, and no matrix of values
	Window int   // DFlash: of its first layer; 0: none
	Seed   uint64
}

// headDim is the elements of a head's key and value.
const headDim = 16

// maker collects keys and tensors.
type maker struct {
	arch    string
	rng     *rand.Rand
	keys    []gguf.KV
	tensors []gguf.Source
}

func newMaker(f *gguf.File, arch string, h *Head) *maker {
	m := &maker{arch: arch, rng: rand.New(rand.NewPCG(h.Seed, 13))}
	m.keys = []gguf.KV{{Key: "general.architecture", Value: arch}}
	for _, k := range f.Keys {
		if strings.HasPrefix(k.Key, "tokenizer.") {
			m.keys = append(m.keys, k)
		}
	}
	m.set("context_length", uint32(4096))
	m.set("block_count", uint32(max(1, h.Depth)))
	m.set("embedding_length", uint32(h.Embd))
	m.set("feed_forward_length", uint32(h.FF))
	m.set("attention.head_count", uint32(h.Heads))
	m.set("attention.head_count_kv", uint32(h.Heads/2))
	m.set("attention.key_length", uint32(headDim))
	m.set("attention.value_length", uint32(headDim))
	m.set("attention.layer_norm_rms_epsilon", float32(1e-5))
	m.set("rope.dimension_count", uint32(headDim))
	m.set("rope.freq_base", float32(1e4))
	var layers []int32
	for _, l := range h.Layers {
		layers = append(layers, int32(l))
	}
	m.set("target_layers", layers)
	return m
}

func (m *maker) set(key string, v any) {
	m.keys = append(m.keys, gguf.KV{Key: m.arch + "." + key, Value: v})
}

func (m *maker) add(name string, middle, spread float64, shape ...int) {
	m.tensors = append(m.tensors, Floats(name, normal(m.rng, middle, spread, shape...), shape...))
}

func (m *maker) matrix(name string, cols, rows int) {
	m.add(name+".weight", 0, 1/math.Sqrt(float64(cols)), cols, rows)
}

func (m *maker) norm(name string, n int) { m.add(name+".weight", 1, 0.1, n) }

// ends adds the table of tokens and the head, and which tokens it drafts.
func (m *maker) ends(h *Head, vocab int) {
	m.norm("output_norm", h.Embd)
	rows := vocab
	if h.Known > 0 {
		rows = h.Known
		ids := make([]int64, rows)
		for i := range ids {
			ids[i] = int64(3*i+1) % int64(vocab)
		}
		m.tensors = append(m.tensors, gguf.Source{Name: "d2t", Type: quant.I64, Shape: []int{rows}, Write: func(to io.Writer) error {
			return binary.Write(to, binary.LittleEndian, ids)
		}})
	}
	if h.Own {
		m.matrix("token_embd", h.Embd, vocab)
	}
	if h.Own || h.Known > 0 {
		m.matrix("output", h.Embd, rows)
	}
}

// block adds a layer's feed-forward layer and attention, with an input of width wide.
func (m *maker) block(in string, h *Head, wide int, values bool) {
	m.norm(in+"attn_norm", h.Embd)
	m.matrix(in+"attn_q", wide, h.Heads*headDim)
	m.matrix(in+"attn_k", wide, h.Heads/2*headDim)
	if values {
		m.matrix(in+"attn_v", wide, h.Heads/2*headDim)
	}
	m.matrix(in+"attn_output", h.Heads*headDim, h.Embd)
	m.norm(in+"ffn_norm", h.Embd)
	m.matrix(in+"ffn_gate", h.Embd, h.FF)
	m.matrix(in+"ffn_up", h.Embd, h.FF)
	m.matrix(in+"ffn_down", h.FF, h.Embd)
}

// Eagle3 returns an EAGLE-3 head with random weights for the model in f, in the form of llama.cpp's files.
func Eagle3(t testing.TB, f *gguf.File, h Head) *gguf.File {
	t.Helper()
	table := f.Tensor("token_embd.weight")
	m := newMaker(f, "eagle3", &h)
	m.set("target_hidden_size", uint32(table.Shape[0]))
	m.set("norm_before_residual", h.Normed)
	m.set("norm_before_fc", h.Normed)
	wide := len(h.Layers) * table.Shape[0]
	if h.Normed {
		m.norm("enc.output_norm", wide)
	}
	m.matrix("fc", wide, h.Embd)
	m.ends(&h, table.Rows())
	m.norm("blk.0.attn_norm_2", h.Embd)
	m.block("blk.0.", &h, 2*h.Embd, true)
	return Made(t, m.keys, m.tensors)
}

// DFlash returns a DFlash head for the model in f.
func DFlash(t testing.TB, f *gguf.File, h Head) *gguf.File {
	t.Helper()
	table := f.Tensor("token_embd.weight")
	m := newMaker(f, "dflash", &h)
	m.set("block_size", uint32(h.Block))
	m.keys = append(m.keys, gguf.KV{Key: "tokenizer.ggml.mask_token_id", Value: uint32(h.Mask)})
	if h.Causal {
		m.set("attention.causal", true)
	}
	if h.Window > 0 {
		windowed := make([]bool, max(1, h.Depth))
		windowed[0] = true
		m.set("attention.sliding_window", uint32(h.Window))
		m.set("attention.sliding_window_pattern", windowed)
	}
	m.matrix("fc", len(h.Layers)*table.Shape[0], h.Embd)
	m.norm("enc.output_norm", h.Embd)
	m.ends(&h, table.Rows())
	for l := range max(1, h.Depth) {
		in := fmt.Sprintf("blk.%d.", l)
		m.block(in, &h, h.Embd, !h.Gemma)
		m.norm(in+"attn_q_norm", headDim)
		m.norm(in+"attn_k_norm", headDim)
		if h.Gemma {
			m.norm(in+"post_attention_norm", h.Embd)
			m.norm(in+"post_ffw_norm", h.Embd)
			m.add(in+"layer_output_scale.weight", 0.8, 0.1, 1)
		}
	}
	return Made(t, m.keys, m.tensors)
}
