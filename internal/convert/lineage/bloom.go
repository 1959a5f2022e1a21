package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// bloom describes BLOOM: ALiBi, a norm of the embedding, q, k and v in one tensor, biases everywhere.
func bloom() Family {
	var f Family
	f.Name, f.HuggingFace = "bloom", []string{"BloomForCausalLM", "BloomModel"}
	f.Rotation, f.LayerNorm, f.Activation, f.HeadsFillWidth, f.MaxContext = NotRotated, true, compute.GELU, true, 2048
	f.Root, f.Layer = []string{"transformer.", ""}, "h.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "word_embeddings.weight"},
		{Name: "token_embd_norm.weight", Source: "word_embeddings_layernorm.weight"},
		{Name: "token_embd_norm.bias", Source: "word_embeddings_layernorm.bias"},
		{Name: "output_norm.weight", Source: "ln_f.weight"},
		{Name: "output_norm.bias", Source: "ln_f.bias"},
	}
	f.Block = biased(
		Tensor{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		Tensor{Name: "attn_qkv.weight", Source: "self_attention.query_key_value.weight", Change: Ungroup},
		Tensor{Name: "attn_output.weight", Source: "self_attention.dense.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
		Tensor{Name: "ffn_up.weight", Source: "mlp.dense_h_to_4h.weight"},
		Tensor{Name: "ffn_down.weight", Source: "mlp.dense_4h_to_h.weight"})
	f.Read = readBloom
	return f
}

func readBloom(c *Config) error {
	c.refuse(c.ResidualNorm, "apply_residual_connection_post_layernorm", "a residual behind the norm is not supported")
	c.Hidden, c.Layers, c.Heads = cmp.Or(c.Hidden, c.OldWidth), cmp.Or(c.OldLayers, c.Layers), cmp.Or(c.OldHeads, c.Heads)
	c.FF = 4 * min(c.Hidden, 1<<20)
	c.Context = cmp.Or(c.SeqLength, c.Context, 2048)
	c.KVHeads = c.Heads
	c.epsilon("layer_norm_epsilon", c.LayerNormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu_pytorch_tanh")
	c.TiedHead = or(c.Tied, true)
	return nil
}
