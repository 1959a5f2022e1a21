package modelcost

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// header returns a file's header for the shape, as far as binding and computing a model depend on it. The architecture
// is llama if neurons have gates, else OPT. predictor is the bytes of a layer's predictor. Only vectors have data,
// which are zeros.
func (s *Shape) header(predictor int64) *gguf.File {
	arch, norm := "opt", "attention.layer_norm_epsilon"
	if s.Gated {
		arch, norm = "llama", "attention.layer_norm_rms_epsilon"
	}
	magic, activation := "GGUF", "relu"
	if s.Mode == model.Predict {
		magic = "PWRI"
	}
	if s.Mode == model.Off {
		activation = "gelu"
	}
	key := func(name string, value any) gguf.KV { return gguf.KV{Key: arch + "." + name, Value: value} }
	keys := []gguf.KV{
		{Key: "general.architecture", Value: arch},
		{Key: "powerinfer.activation", Value: activation},
		key("context_length", uint32(1)), // the least, for positions are not described
		key("embedding_length", uint32(s.Embd)), key("block_count", uint32(s.Layers)), key("feed_forward_length", uint32(s.FF)),
		key("attention.head_count", uint32(s.Heads)), key("attention.head_count_kv", uint32(s.KVHeads)), key(norm, float32(1e-5)),
	}
	h := &header{zeros: make([]byte, 4*max(s.Embd, s.FF))}
	h.matrix("token_embd.weight", s.Type, s.Embd, s.Vocab)
	h.norm("output_norm", s.Embd, s.Gated)
	if s.Gated || !s.Tied {
		h.matrix("output.weight", s.Type, s.Embd, s.Vocab)
	}
	if !s.Gated {
		h.matrix("position_embd.weight", quant.F16, s.Embd, 1+2) // OPT's positions begin at 2
	}
	for l := range s.Layers {
		h.prefix = fmt.Sprintf("blk.%d.", l)
		s.layer(h, s.rank(predictor))
	}
	return gguf.Describe(s.Name, magic, keys, h.tensors)
}

// layer adds a layer's tensors, with a predictor of that rank.
func (s *Shape) layer(h *header, rank int) {
	kv := s.Embd / s.Heads * s.KVHeads
	for _, m := range []struct {
		name string
		rows int
	}{{"attn_q", s.Embd}, {"attn_k", kv}, {"attn_v", kv}, {"attn_output", s.Embd}} {
		h.matrix(m.name+".weight", s.Type, s.Embd, m.rows)
		if !s.Gated {
			h.vector(m.name+".bias", m.rows)
		}
	}
	h.norm("attn_norm", s.Embd, s.Gated)
	h.norm("ffn_norm", s.Embd, s.Gated)
	down := "ffn_down"
	h.matrix("ffn_up.weight", s.Type, s.Embd, s.FF)
	if s.Gated {
		h.matrix("ffn_gate.weight", s.Type, s.Embd, s.FF)
	}
	if s.Mode == model.Predict {
		down = "ffn_down_t"
		h.matrix(down+".weight", s.Type, s.Embd, s.FF)
		h.matrix("fc1.weight", quant.F16, s.Embd, rank)
		h.matrix("fc2.weight", quant.F16, rank, s.FF)
	} else {
		h.matrix(down+".weight", s.Type, s.FF, s.Embd)
	}
	if !s.Gated {
		h.vector("ffn_up.bias", s.FF)
		h.vector(down+".bias", s.Embd)
	}
}

// rank returns the rank of predictors in F16 that take predictor bytes a layer.
func (s *Shape) rank(predictor int64) int { return max(1, int(predictor/int64(2*(s.Embd+s.FF)))) }

// header gathers tensors.
type header struct {
	prefix  string
	tensors []*gguf.Tensor
	zeros   []byte
}

func (h *header) matrix(name string, t quant.Type, cols, rows int) {
	h.tensors = append(h.tensors, &gguf.Tensor{Name: h.prefix + name, Type: t, Shape: []int{cols, rows}})
}

func (h *header) vector(name string, n int) {
	h.tensors = append(h.tensors, &gguf.Tensor{Name: h.prefix + name, Type: quant.F32, Shape: []int{n}, Data: h.zeros[:4*n]})
}

func (h *header) norm(name string, n int, rms bool) {
	h.vector(name+".weight", n)
	if !rms {
		h.vector(name+".bias", n)
	}
}
