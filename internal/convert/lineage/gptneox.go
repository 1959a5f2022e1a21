package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// gptneox describes GPT-NeoX and Pythia: q, k and v in one tensor, a quarter of each head rotated, and attention
// parallel to the feed-forward layer, each with its own norm, unless the file says that one follows the other.
func gptneox() Family {
	var f Family
	f.Name, f.HuggingFace = "gptneox", []string{"GPTNeoXForCausalLM"}
	f.Rotation, f.PartialRotary, f.LayerNorm, f.Parallel, f.ParallelKey = HalvesApart, true, true, true, "use_parallel_residual"
	f.Activation, f.HeadsFillWidth, f.MaxContext = compute.GELU, true, 2048
	f.Root, f.Layer, f.Head = []string{"gpt_neox.", ""}, "layers.%d.", "embed_out lm_head"
	f.Buffers = []string{".attention.bias", ".attention.masked_bias"}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embed_in.weight"},
		{Name: "output_norm.weight", Source: "final_layer_norm.weight"},
		{Name: "output_norm.bias", Source: "final_layer_norm.bias"},
	}
	f.Block = biased(
		Tensor{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		Tensor{Name: "attn_qkv.weight", Source: "attention.query_key_value.weight", Change: Ungroup},
		Tensor{Name: "attn_output.weight", Source: "attention.dense.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
		Tensor{Name: "ffn_up.weight", Source: "mlp.dense_h_to_4h.weight"},
		Tensor{Name: "ffn_down.weight", Source: "mlp.dense_4h_to_h.weight"})
	f.Read = readGPTNeoX
	return f
}

func readGPTNeoX(c *Config) error {
	if c.KVHeads = cmp.Or(c.KVHeads, c.Heads); c.KVHeads != c.Heads {
		return c.Errorf("num_key_value_heads", "GPT-NeoX's heads have keys and values of their own, and %d of %d do", c.KVHeads, c.Heads)
	}
	c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu")
	c.TiedHead = or(c.Tied, false)
	c.RopeTheta = cmp.Or(c.RopeTheta, c.RotaryBase)
	c.rotates(c.RotaryShare, 0.25)
	return nil
}

// GPTNeoXKeys are GPT-NeoX's keys.
type GPTNeoXKeys struct {
	RotaryBase  float64 `json:"rotary_emb_base"`
	RotaryShare float64 `json:"rotary_pct"`
}
