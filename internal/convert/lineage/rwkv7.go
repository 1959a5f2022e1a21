package lineage

import (
	"cmp"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// rwkv7 describes RWKV-7: time mixing, which is recurrent, and a feed-forward layer of squared ReLU, channel mixing.
// llama.cpp's files call its matrices channel_mix_key and channel_mix_value; package gguf reads and writes those names.
func rwkv7() Family {
	var f Family
	f.Name, f.HuggingFace = "rwkv7", []string{"RWKV7ForCausalLM", "Rwkv7ForCausalLM"}
	f.LayerNorm, f.Activation, f.MaxContext, f.FFNNorm, f.StateSpace, f.AllLayers = true, compute.ReLU2, 4096, "attn_norm_2", true, Recurrent|FeedForward
	f.Root, f.Layer = []string{"model."}, "layers.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.weight"},
		{Name: "token_embd_norm.weight", Source: "layers.0.pre_norm.weight"},
		{Name: "token_embd_norm.bias", Source: "layers.0.pre_norm.bias"},
		{Name: "output_norm.weight", Source: "norm.weight"},
		{Name: "output_norm.bias", Source: "norm.bias"},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "attn_norm.weight"},
		{Name: "attn_norm.bias", Source: "attn_norm.bias"},
		{Name: "time_mix_lerp_fused.weight", Source: "attn.x_r attn.x_w attn.x_k attn.x_v attn.x_a attn.x_g", Change: Gathered},
		{Name: "time_mix_receptance.weight", Source: "attn.r_proj.weight"},
		{Name: "time_mix_key.weight", Source: "attn.k_proj.weight"},
		{Name: "time_mix_value.weight", Source: "attn.v_proj.weight"},
		{Name: "time_mix_output.weight", Source: "attn.o_proj.weight"},
		{Name: "time_mix_k_k.weight", Source: "attn.k_k", Change: Flat},
		{Name: "time_mix_k_a.weight", Source: "attn.k_a", Change: Flat},
		{Name: "time_mix_r_k.weight", Source: "attn.r_k", Change: Flat},
		{Name: "time_mix_ln.weight", Source: "attn.g_norm.weight"},
		{Name: "time_mix_ln.bias", Source: "attn.g_norm.bias"},
		{Name: "attn_norm_2.weight", Source: "ffn_norm.weight"},
		{Name: "attn_norm_2.bias", Source: "ffn_norm.bias"},
		{Name: "channel_mix_lerp_k.weight", Source: "ffn.x_k", Change: Flat},
		{Name: "ffn_up.weight", Source: "ffn.key.weight"},
		{Name: "ffn_down.weight", Source: "ffn.value.weight"},
	}
	f.Buffers = []string{".0.attn.v_lora.lora.0.weight", ".0.attn.v_lora.lora.2.weight", ".0.attn.v_lora.lora.2.bias"}
	f.Read = readRWKV7
	for _, n := range []string{"w", "a", "v", "g"} {
		from := "attn." + n + "_lora.lora."
		f.Block = append(f.Block, Tensor{Name: "time_mix_" + n + "1.weight", Source: from + "0.weight"}, Tensor{Name: "time_mix_" + n + "2.weight", Source: from + "2.weight"})
		if n != "g" {
			f.Block = append(f.Block, Tensor{Name: "time_mix_" + n + "0.weight", Source: from + "2.bias"})
		}
	}
	return f
}

// TimeMixed reports whether recurrent layers are RWKV's.
func (f *Family) TimeMixed() bool {
	_, ok := f.InBlock("time_mix_key.weight")
	return ok
}

// InLayer returns t as layer l has it. llama.cpp requires of RWKV's first layer the weights by which other layers'
// values move towards its values: it gets copies of others.
func (f *Family) InLayer(t Tensor, l int) Tensor {
	if l == 0 && strings.HasPrefix(t.Name, "time_mix_v") && t.Name != "time_mix_value.weight" {
		t.Source = strings.Replace(t.Source, "attn.v_", "attn.a_", 1)
	}
	return t
}

// Ranks are the widths of RWKV's low-rank products.
type Ranks struct{ Decay, Rate, Value, Gate int }

// RWKV are the keys of that family's configuration.
type RWKV struct {
	DecayRank int `json:"decay_low_rank_dim"`
	RateRank  int `json:"a_low_rank_dim"`
	ValueRank int `json:"v_low_rank_dim"`
	GateRank  int `json:"gate_low_rank_dim"`
}

func readRWKV7(c *Config) error {
	c.epsilon("norm_eps", c.NormEps, 1e-5)
	c.nonlinearity("hidden_act", strings.Replace(c.Act, "sqrelu", "relu2", 1), "relu2")
	c.TiedHead, c.Context = or(c.Tied, false), usualPositions
	c.HeadDim = cmp.Or(c.HeadDim, 64)
	if c.Hidden%c.HeadDim != 0 || c.HeadDim > compute.MaxWKV {
		return c.Errorf("head_dim", "heads of %d elements do not make up %d", c.HeadDim, c.Hidden)
	}
	c.Heads = c.Hidden / c.HeadDim
	c.KVHeads = c.Heads
	if c.FF == 0 {
		c.FF = 4 * c.Hidden
	}
	r := &c.RWKV
	c.StateSpace = StateSpace{Inner: c.Hidden, StateSize: c.HeadDim}
	c.StateSpace.Ranks = Ranks{r.DecayRank, r.RateRank, r.ValueRank, r.GateRank}
	for _, rank := range []struct {
		key string
		n   int
	}{{"decay_low_rank_dim", r.DecayRank}, {"a_low_rank_dim", r.RateRank}, {"v_low_rank_dim", r.ValueRank}, {"gate_low_rank_dim", r.GateRank}} {
		if rank.n < 1 || rank.n > c.Hidden {
			return c.Errorf(rank.key, "%d is outside 1…%d", rank.n, c.Hidden)
		}
	}
	return nil
}
