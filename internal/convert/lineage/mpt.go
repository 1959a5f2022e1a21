package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// mptMaxAlibi is the largest exponent of slopes where the configuration has none.
const mptMaxAlibi = 8

// MPTAttention is attn_config of MPT and of DBRX.
type MPTAttention struct {
	Type     string   `json:"attn_type"`
	Alibi    bool     `json:"alibi"`
	MaxAlibi float64  `json:"alibi_bias_max"`
	Clamp    *float64 `json:"clip_qkv"`
	HeadNorm bool     `json:"qk_ln"`
	Prefix   bool     `json:"prefix_lm"`
	Scale    *float64 `json:"softmax_scale"`
	KVHeads  int      `json:"kv_n_heads"`
	Rope     bool     `json:"rope"`
	Theta    float64  `json:"rope_theta"`
}

// mpt describes MPT: ALiBi or learned positions, LayerNorms that may be without biases, and limits of queries, keys and
// values.
func mpt() Family {
	var f Family
	f.Name, f.HuggingFace = "mpt", []string{"MPTForCausalLM", "MptForCausalLM"}
	f.Rotation, f.LayerNorm, f.Clamped, f.Activation, f.HeadsFillWidth, f.MaxContext = NotRotated, true, true, compute.GELU, true, 2048
	f.Root, f.Layer = []string{"transformer.", ""}, "blocks.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "wte.weight"},
		{Name: "position_embd.weight", Source: "wpe.weight", Optional: true},
		{Name: "output_norm.weight", Source: "norm_f.weight"},
		{Name: "output_norm.bias", Source: "norm_f.bias", Optional: true},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "norm_1.weight"},
		{Name: "attn_norm.bias", Source: "norm_1.bias", Optional: true},
		{Name: "attn_qkv.weight", Source: "attn.Wqkv.weight"},
		{Name: "attn_qkv.bias", Source: "attn.Wqkv.bias", Optional: true},
		{Name: "attn_output.weight", Source: "attn.out_proj.weight"},
		{Name: "attn_output.bias", Source: "attn.out_proj.bias", Optional: true},
		{Name: "ffn_norm.weight", Source: "norm_2.weight"},
		{Name: "ffn_norm.bias", Source: "norm_2.bias", Optional: true},
		{Name: "ffn_up.weight", Source: "ffn.up_proj.weight"},
		{Name: "ffn_up.bias", Source: "ffn.up_proj.bias", Optional: true},
		{Name: "ffn_down.weight", Source: "ffn.down_proj.weight"},
		{Name: "ffn_down.bias", Source: "ffn.down_proj.bias", Optional: true},
	}
	f.Read = readMPT
	return f
}

func readMPT(c *Config) error {
	a := c.MPT
	switch {
	case a == nil:
		return c.Errorf("attn_config", "it is missing")
	case a.HeadNorm:
		return c.Errorf("attn_config", "norms of queries and keys (qk_ln) are not supported in MPT")
	case a.Prefix:
		return c.Errorf("attn_config", "attention to a whole prefix (prefix_lm) is not supported")
	case a.Rope:
		return c.Errorf("attn_config", "rotated heads (rope) are not supported in MPT; ALiBi and learned positions are")
	case a.Scale != nil:
		return c.Errorf("attn_config", "a scale of scores (softmax_scale) is not supported in MPT")
	case c.LogitFactor != 0:
		return c.Errorf("logit_scale", "a factor of logits is not supported in MPT")
	}
	c.Hidden, c.Layers, c.Heads = cmp.Or(c.ModelWidth, c.Hidden), cmp.Or(c.MPTLayers, c.Layers), cmp.Or(c.MPTHeads, c.Heads)
	c.Context = cmp.Or(c.MaxSeq, c.Context)
	c.FF = int(cmp.Or(c.Expansion, 4) * float64(min(c.Hidden, 1<<20)))
	switch c.KVHeads = c.Heads; a.Type {
	case "", "multihead_attention":
	case "multiquery_attention":
		c.KVHeads = 1
	case "grouped_query_attention":
		c.KVHeads = a.KVHeads
	default:
		return c.Errorf("attn_config", "attention of type %q is not supported", a.Type)
	}
	most := 0.0
	if a.Alibi {
		most = cmp.Or(a.MaxAlibi, mptMaxAlibi)
	}
	c.MaxAlibi, c.Clamp = &most, or(a.Clamp, 0)
	c.epsilon("layer_norm_epsilon", c.LayerNormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu")
	c.TiedHead = or(c.Tied, true)
	return nil
}

// MPTKeys are the keys of MPT and DBRX.
type MPTKeys struct {
	ModelWidth int           `json:"d_model"`
	MPTHeads   int           `json:"n_heads"`
	MPTLayers  int           `json:"n_layers"`
	MaxSeq     int           `json:"max_seq_len"`
	Expansion  float64       `json:"expansion_ratio"` // neurons by width
	MPT        *MPTAttention `json:"attn_config"`
	DBRX       *DBRXExperts  `json:"ffn_config"`
}
