package lineage

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// phi2 describes Phi 1, 1.5 and 2: attention and the feed-forward layer read the same norm, part of each head is
// rotated, biases everywhere, also of the head.
func phi2() Family {
	var f Family
	f.Name, f.HuggingFace = "phi2", []string{"PhiForCausalLM"}
	f.Rotation, f.PartialRotary, f.LayerNorm, f.Parallel, f.Activation = HalvesApart, true, true, true, compute.GELU
	f.HeadsFillWidth, f.MaxContext = true, 2048
	f.Root, f.Layer = []string{"model."}, "layers.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embed_tokens.weight"},
		{Name: "output_norm.weight", Source: "final_layernorm.weight"},
		{Name: "output_norm.bias", Source: "final_layernorm.bias"},
		{Name: "output.bias", Source: "lm_head.bias", Rootless: true},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		{Name: "attn_norm.bias", Source: "input_layernorm.bias"},
		{Name: "attn_q.weight", Source: "self_attn.q_proj.weight"},
		{Name: "attn_k.weight", Source: "self_attn.k_proj.weight"},
		{Name: "attn_v.weight", Source: "self_attn.v_proj.weight"},
		{Name: "attn_q.bias", Source: "self_attn.q_proj.bias"},
		{Name: "attn_k.bias", Source: "self_attn.k_proj.bias"},
		{Name: "attn_v.bias", Source: "self_attn.v_proj.bias"},
		{Name: "attn_output.weight", Source: "self_attn.dense.weight"},
		{Name: "attn_output.bias", Source: "self_attn.dense.bias"},
		{Name: "ffn_up.weight", Source: "mlp.fc1.weight"},
		{Name: "ffn_up.bias", Source: "mlp.fc1.bias"},
		{Name: "ffn_down.weight", Source: "mlp.fc2.weight"},
		{Name: "ffn_down.bias", Source: "mlp.fc2.bias"},
	}
	f.Read = readPhi2
	return f
}

func readPhi2(c *Config) error {
	c.refuse(c.HeadNorm, "qk_layernorm", "norms of queries and keys are not supported in Phi 2")
	c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu_new")
	if c.TiedHead = or(c.Tied, false); c.TiedHead {
		return c.Errorf("tie_word_embeddings", "a head that is the embedding is not supported in Phi 2")
	}
	c.rotates(0.5)
	return nil
}
