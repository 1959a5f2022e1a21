package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// gpt2 describes GPT-2: learned positions, LayerNorm, biases everywhere, and checkpoints that store matrices by column.
func gpt2() Family {
	var f Family
	f.Name, f.HuggingFace = "gpt2", []string{"GPT2LMHeadModel"}
	f.Rotation, f.LayerNorm, f.Activation, f.HeadsFillWidth, f.MaxContext = NotRotated, true, compute.GELU, true, 1024
	f.Root, f.Layer = []string{"transformer.", ""}, "h.%d."
	f.Buffers = []string{".attn.bias", ".attn.masked_bias"}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "wte.weight"},
		{Name: "position_embd.weight", Source: "wpe.weight"},
		{Name: "output_norm.weight", Source: "ln_f.weight"},
		{Name: "output_norm.bias", Source: "ln_f.bias"},
	}
	f.Block = biased(
		Tensor{Name: "attn_norm.weight", Source: "ln_1.weight"},
		Tensor{Name: "attn_qkv.weight", Source: "attn.c_attn.weight", Change: Transposed},
		Tensor{Name: "attn_output.weight", Source: "attn.c_proj.weight", Change: Transposed},
		Tensor{Name: "ffn_norm.weight", Source: "ln_2.weight"},
		Tensor{Name: "ffn_up.weight", Source: "mlp.c_fc.weight", Change: Transposed},
		Tensor{Name: "ffn_down.weight", Source: "mlp.c_proj.weight", Change: Transposed})
	f.Read = readGPT2
	return f
}

func readGPT2(c *Config) error {
	c.refuse(c.ScaleByLayer, "scale_attn_by_inverse_layer_idx", "scores divided by the layer's number are not supported")
	c.refuse(c.CrossRead, "add_cross_attention", "attention to another model's output is not supported")
	c.Hidden, c.Layers, c.Heads = cmp.Or(c.OldHidden, c.Hidden), cmp.Or(c.OldLayers, c.Layers), cmp.Or(c.OldHeads, c.Heads)
	c.Context = cmp.Or(c.Positions, c.OldContext, c.Context)
	c.FF = cmp.Or(c.Inner, c.FF, 4*min(c.Hidden, 1<<20))
	c.epsilon("layer_norm_epsilon", c.LayerNormEps, 1e-5)
	c.nonlinearity("activation_function", c.OPTAct, "gelu_new")
	c.TiedHead = or(c.Tied, true)
	return nil
}

// GPT2Keys are GPT-2's keys.
type GPT2Keys struct {
	OldHidden    int  `json:"n_embd"`
	Positions    int  `json:"n_positions"`
	OldContext   int  `json:"n_ctx"`
	Inner        int  `json:"n_inner"`
	ScaleByLayer bool `json:"scale_attn_by_inverse_layer_idx"`
	CrossRead    bool `json:"add_cross_attention"`
}
