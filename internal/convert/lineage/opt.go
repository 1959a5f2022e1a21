package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// opt describes OPT: learned positions, LayerNorm, biases everywhere, a tied head.
func opt() Family {
	var f Family
	f.Name, f.HuggingFace = "opt", []string{"OPTForCausalLM"}
	f.Rotation, f.LearnedOffset, f.LayerNorm, f.Activation = NotRotated, 2, true, compute.ReLU
	f.HeadsFillWidth, f.AlwaysTied, f.MaxContext = true, true, 2048
	f.Root, f.Layer = []string{"model.decoder.", "decoder."}, "layers.%d." // older checkpoints leave out the outer "model."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embed_tokens.weight"},
		{Name: "position_embd.weight", Source: "embed_positions.weight"},
		{Name: "output_norm.weight", Source: "final_layer_norm.weight"},
		{Name: "output_norm.bias", Source: "final_layer_norm.bias"},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "self_attn_layer_norm.weight"},
		{Name: "attn_norm.bias", Source: "self_attn_layer_norm.bias"},
		{Name: "attn_q.weight", Source: "self_attn.q_proj.weight"},
		{Name: "attn_k.weight", Source: "self_attn.k_proj.weight"},
		{Name: "attn_v.weight", Source: "self_attn.v_proj.weight"},
		{Name: "attn_q.bias", Source: "self_attn.q_proj.bias"},
		{Name: "attn_k.bias", Source: "self_attn.k_proj.bias"},
		{Name: "attn_v.bias", Source: "self_attn.v_proj.bias"},
		{Name: "attn_output.weight", Source: "self_attn.out_proj.weight"},
		{Name: "attn_output.bias", Source: "self_attn.out_proj.bias"},
		{Name: "ffn_norm.weight", Source: "final_layer_norm.weight"},
		{Name: "ffn_norm.bias", Source: "final_layer_norm.bias"},
		{Name: "ffn_up.weight", Source: "fc1.weight"},
		{Name: "ffn_up.bias", Source: "fc1.bias"},
		{Name: "ffn_down.weight", Source: "fc2.weight"},
		{Name: "ffn_down.bias", Source: "fc2.bias"},
	}
	f.Read = readOPT
	return f
}

func readOPT(c *Config) error {
	c.FF = cmp.Or(c.OPTFF, c.FF)
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	switch {
	case c.Projection != 0 && c.Projection != c.Hidden:
		return c.Errorf("word_embed_proj_dim", "embeddings narrower than the model (%d of %d) are not supported", c.Projection, c.Hidden)
	case !or(c.NormFirst, true):
		return c.Errorf("do_layer_norm_before", "norms after attention and feed-forward layer are not supported")
	case !or(c.EnableBias, true) || !or(c.NormAffine, true):
		return c.Errorf("enable_bias", "OPT without biases is not supported")
	case c.KVHeads != c.Heads:
		return c.Errorf("num_attention_heads", "OPT's heads have keys and values of their own, and %d of %d do", c.KVHeads, c.Heads)
	}
	c.epsilon("layer_norm_eps", 0, 1e-5) // PyTorch's default, which no configuration states
	c.nonlinearity("activation_function", c.OPTAct, "relu")
	c.TiedHead = or(c.Tied, true)
	return nil
}

// OPTKeys are OPT's keys.
type OPTKeys struct {
	OPTAct     string `json:"activation_function"`
	OPTFF      int    `json:"ffn_dim"`
	Projection int    `json:"word_embed_proj_dim"`
	NormFirst  *bool  `json:"do_layer_norm_before"`
	EnableBias *bool  `json:"enable_bias"`
	NormAffine *bool  `json:"layer_norm_elementwise_affine"`
}
