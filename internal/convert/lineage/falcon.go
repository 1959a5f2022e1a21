package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// falconContext is the context that Falcon was trained for; its older configurations do not say it.
const falconContext = 2048

// falcon describes Falcon 7B (one KV head, one norm) and 40B (grouped KV heads, attn_norm_2 is attention's own norm).
func falcon() Family {
	var f Family
	f.Name, f.HuggingFace = "falcon", []string{"FalconForCausalLM", "RWForCausalLM"}
	f.Rotation, f.LayerNorm, f.Parallel, f.Activation = HalvesApart, true, true, compute.GELU
	f.Layout, f.HeadsFillWidth, f.MaxContext = "jploski", true, falconContext
	f.Root, f.Layer = []string{"transformer."}, "h.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "word_embeddings.weight"},
		{Name: "output_norm.weight", Source: "ln_f.weight"},
		{Name: "output_norm.bias", Source: "ln_f.bias"},
		{Name: "rope_freqs.weight", Optional: true, Change: Computed},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "ln_mlp.weight input_layernorm.weight"},
		{Name: "attn_norm.bias", Source: "ln_mlp.bias input_layernorm.bias"},
		{Name: "attn_norm_2.weight", Source: "ln_attn.weight", Optional: true},
		{Name: "attn_norm_2.bias", Source: "ln_attn.bias", Optional: true},
		{Name: "attn_qkv.weight", Source: "self_attention.query_key_value.weight", Change: Ungroup},
		{Name: "attn_output.weight", Source: "self_attention.dense.weight"},
		{Name: "ffn_up.weight", Source: "mlp.dense_h_to_4h.weight"},
		{Name: "ffn_down.weight", Source: "mlp.dense_4h_to_h.weight"},
	}
	f.Read = readFalcon
	return f
}

func readFalcon(c *Config) error {
	c.refuse(c.Alibi || c.Bias || !or(c.Parallel, true), "architectures", "Falcon-RW (alibi, biases or sequential blocks) is not supported; Falcon 7B and 40B are")
	c.Layers = cmp.Or(c.Layers, c.OldLayers)
	c.Heads = cmp.Or(c.Heads, c.OldHeads)
	// As the model's own code decides it: without the new layout, multi-query means one KV head whatever else is said.
	switch {
	case c.NewDecoder:
		c.KVHeads = cmp.Or(c.falconKV(), c.OldKVHeads, c.Heads)
	case or(c.MultiQuery, true) && c.OldKVHeads <= 1:
		c.KVHeads = 1
	default:
		c.KVHeads = cmp.Or(c.falconKV(), c.OldKVHeads, c.Heads)
	}
	c.FF = cmp.Or(c.FalconFF, 4*min(c.Hidden, 1<<20))
	c.Context = cmp.Or(c.Context, falconContext)
	c.epsilon("layer_norm_epsilon", c.LayerNormEps, 1e-5)
	c.nonlinearity("activation", c.FalconAct, "gelu")
	if c.Act != "" { // ReLU variants name it as Llama does
		c.nonlinearity("hidden_act", c.Act, "")
	}
	c.TiedHead = or(c.Tied, true)
	return nil
}

// falconKV returns the number of KV heads by its newer name; 0: the configuration lacks it.
func (c *Config) falconKV() int {
	if len(c.FalconKV) == 0 {
		return 0
	}
	return c.FalconKV[0]
}

// FalconKeys are Falcon's keys, with its older names.
type FalconKeys struct {
	FalconAct    string  `json:"activation"`
	FalconKV     Counts  `json:"num_kv_heads"` // OpenELM: for each layer
	OldLayers    int     `json:"n_layer"`
	OldHeads     int     `json:"n_head"`
	OldKVHeads   int     `json:"n_head_kv"`
	FalconFF     int     `json:"ffn_hidden_size"`
	LayerNormEps float64 `json:"layer_norm_epsilon"`
	MultiQuery   *bool   `json:"multi_query"`
	NewDecoder   bool    `json:"new_decoder_architecture"`
	Parallel     *bool   `json:"parallel_attn"`
	Alibi        bool    `json:"alibi"`
	Bias         bool    `json:"bias"`
}
