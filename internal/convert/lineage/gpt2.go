package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// gpt2 describes GPT-2: learned positions, LayerNorm, biases everywhere, and checkpoints that store matrices by column.
func gpt2() Family {
	return Family{
		Name: "gpt2", HuggingFace: []string{"GPT2LMHeadModel"},
		Rotation: NotRotated, LayerNorm: true, Activation: compute.GELU, HeadsFillWidth: true, MaxContext: 1024,
		Root: []string{"transformer.", ""}, Layer: "h.%d.",
		Buffers: []string{".attn.bias", ".attn.masked_bias"},
		Outer: []Tensor{
			{Name: "token_embd.weight", Source: "wte.weight"},
			{Name: "position_embd.weight", Source: "wpe.weight"},
			{Name: "output_norm.weight", Source: "ln_f.weight"},
			{Name: "output_norm.bias", Source: "ln_f.bias"},
		},
		Block: []Tensor{
			{Name: "attn_norm.weight", Source: "ln_1.weight"},
			{Name: "attn_norm.bias", Source: "ln_1.bias"},
			{Name: "attn_qkv.weight", Source: "attn.c_attn.weight", Change: Transposed},
			{Name: "attn_qkv.bias", Source: "attn.c_attn.bias"},
			{Name: "attn_output.weight", Source: "attn.c_proj.weight", Change: Transposed},
			{Name: "attn_output.bias", Source: "attn.c_proj.bias"},
			{Name: "ffn_norm.weight", Source: "ln_2.weight"},
			{Name: "ffn_norm.bias", Source: "ln_2.bias"},
			{Name: "ffn_up.weight", Source: "mlp.c_fc.weight", Change: Transposed},
			{Name: "ffn_up.bias", Source: "mlp.c_fc.bias"},
			{Name: "ffn_down.weight", Source: "mlp.c_proj.weight", Change: Transposed},
			{Name: "ffn_down.bias", Source: "mlp.c_proj.bias"},
		},
		Read: readGPT2,
	}
}

func readGPT2(c *Config) error {
	switch {
	case c.ScaleByLayer:
		return c.Errorf("scale_attn_by_inverse_layer_idx", "scores divided by the layer's number are not supported")
	case c.CrossRead:
		return c.Errorf("add_cross_attention", "attention to another model's output is not supported")
	}
	c.Hidden, c.Layers, c.Heads = cmp.Or(c.OldHidden, c.Hidden), cmp.Or(c.OldLayers, c.Layers), cmp.Or(c.OldHeads, c.Heads)
	c.Context = cmp.Or(c.Positions, c.OldContext, c.Context)
	c.FF = cmp.Or(c.Inner, c.FF, 4*min(c.Hidden, 1<<20))
	c.epsilon("layer_norm_epsilon", c.LayerNormEps, 1e-5)
	c.nonlinearity("activation_function", c.OPTAct, "gelu_new")
	c.TiedHead = or(c.Tied, true)
	return nil
}
