package lineage

import "cmp"

// plamo3 describes PLaMo 3: norms before and after attention and SwiGLU, stored as the weight less 1 or less other
// constants in checkpoints, a norm of each head of q and k, and a sliding window in all but every eighth layer.
func plamo3() Family {
	f := llama()
	f.Name, f.HuggingFace = "plamo3", []string{"Plamo3ForCausalLM"}
	f.Rotation, f.FusedGate, f.Window, f.FullEvery, f.WindowBase = HalvesApart, true, true, 8, 10000
	f.Layer = "layers.layers.%d."
	f.Outer = []Tensor{{Name: "token_embd.weight", Source: "embed_tokens.weight"}, {Name: "output_norm.weight", Source: "norm.weight", Change: PlusOne}}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "pre_mixer_norm.weight", Change: PlusOne},
		{Name: "attn_qkv.weight", Source: "mixer.qkv_proj.weight"},
		{Name: "attn_q_norm.weight", Source: "mixer.q_norm.weight", Change: PlusOne},
		{Name: "attn_k_norm.weight", Source: "mixer.k_norm.weight", Change: PlusOne},
		{Name: "attn_output.weight", Source: "mixer.o_proj.weight"},
		{Name: "post_attention_norm", Source: "post_mixer_norm.weight", Change: PlusFifth},
		{Name: "ffn_norm.weight", Source: "pre_mlp_norm.weight", Change: PlusOne},
		{Name: "ffn_up.weight", Source: "mlp.gate_up_proj.weight"},
		{Name: "ffn_down.weight", Source: "mlp.down_proj.weight"},
		{Name: "post_ffw_norm", Source: "post_mlp_norm.weight", Change: PlusEleventh},
	}
	f.Read = func(c *Config) error {
		c.Window = cmp.Or(c.PLaMoWindow, c.Window)
		c.WindowTheta = cmp.Or(c.RopeLocalTheta, c.WindowTheta, 10000)
		return readLlama(c)
	}
	return f
}

// PLaMo3Keys are PLaMo 3's keys.
type PLaMo3Keys struct {
	PLaMoWindow    int     `json:"window_size"`
	RopeLocalTheta float64 `json:"rope_local_theta"`
}
