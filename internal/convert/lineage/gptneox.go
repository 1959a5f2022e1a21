package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// gptneox describes GPT-NeoX and Pythia: q, k and v in one tensor, a quarter of each head rotated, and attention beside
// the feed-forward layer, each with a norm of its own, unless the file says that one follows the other.
func gptneox() Family {
	return Family{
		Name: "gptneox", HuggingFace: []string{"GPTNeoXForCausalLM"},
		Rotation: HalvesApart, PartialRotary: true, LayerNorm: true, Parallel: true, ParallelKey: "use_parallel_residual",
		Activation: compute.GELU, HeadsFillWidth: true, MaxContext: 2048,
		Root: []string{"gpt_neox.", ""}, Layer: "layers.%d.", Head: "embed_out lm_head",
		Buffers: []string{".attention.bias", ".attention.masked_bias"},
		Outer: []Tensor{
			{Name: "token_embd.weight", Source: "embed_in.weight"},
			{Name: "output_norm.weight", Source: "final_layer_norm.weight"},
			{Name: "output_norm.bias", Source: "final_layer_norm.bias"},
		},
		Block: []Tensor{
			{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
			{Name: "attn_norm.bias", Source: "input_layernorm.bias"},
			{Name: "attn_qkv.weight", Source: "attention.query_key_value.weight", Change: Ungroup},
			{Name: "attn_qkv.bias", Source: "attention.query_key_value.bias", Change: Ungroup},
			{Name: "attn_output.weight", Source: "attention.dense.weight"},
			{Name: "attn_output.bias", Source: "attention.dense.bias"},
			{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
			{Name: "ffn_norm.bias", Source: "post_attention_layernorm.bias"},
			{Name: "ffn_up.weight", Source: "mlp.dense_h_to_4h.weight"},
			{Name: "ffn_up.bias", Source: "mlp.dense_h_to_4h.bias"},
			{Name: "ffn_down.weight", Source: "mlp.dense_4h_to_h.weight"},
			{Name: "ffn_down.bias", Source: "mlp.dense_4h_to_h.bias"},
		},
		Read: readGPTNeoX,
	}
}

func readGPTNeoX(c *Config) error {
	if c.KVHeads = cmp.Or(c.KVHeads, c.Heads); c.KVHeads != c.Heads {
		return c.Errorf("num_key_value_heads", "GPT-NeoX's heads have keys and values of their own, and %d of %d do", c.KVHeads, c.Heads)
	}
	c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu")
	c.TiedHead = or(c.Tied, false)
	c.RopeTheta = cmp.Or(c.RopeTheta, c.RotaryBase)
	if c.Rope == nil || c.Rope.Partial == 0 {
		c.Rotary = cmp.Or(c.Rotary, c.RotaryShare, 0.25)
	}
	return nil
}
