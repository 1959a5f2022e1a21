package arch

import "github.com/powerinfer-go/powerinfer/internal/compute"

// plm describes PLM: keys and values that follow from a narrow vector, and no gate: squared ReLU leaves neurons at zero.
func plm() Family {
	f := llama()
	f.Name, f.HuggingFace = "plm", []string{"PLMForCausalLM"}
	f.PartialRotary, f.Narrow, f.AlwaysTied, f.Gated, f.Activation, f.Original = true, true, true, false, compute.ReLU2, ""
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		{Name: "attn_q.weight", Source: "self_attn.q_proj.weight"},
		{Name: "attn_kv_a_mqa.weight", Source: "self_attn.kv_a_proj_with_mqa.weight"},
		{Name: "attn_kv_a_norm.weight", Source: "self_attn.kv_a_layernorm.weight"},
		{Name: "attn_kv_b.weight", Source: "self_attn.kv_b_proj.weight"},
		{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
		{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
		{Name: "ffn_up.weight", Source: "mlp.up_proj.weight"},
		{Name: "ffn_down.weight", Source: "mlp.down_proj.weight"},
	}
	f.Read = readPLM
	return f
}

func readPLM(c *Config) error {
	c.HeadDim = c.NotTurned + c.Turned
	switch {
	case c.NarrowQueries != 0:
		return c.Errorf("q_lora_rank", "queries that follow from a narrow vector are not supported")
	case c.NarrowWidth < 1 || c.NarrowWidth > 1<<20:
		return c.Errorf("kv_lora_rank", "%d is outside 1…%d", c.NarrowWidth, 1<<20)
	case c.Turned < 2 || c.Turned%2 != 0 || c.NotTurned < 1 || c.Turned > 1<<20 || c.NotTurned > 1<<20:
		return c.Errorf("qk_rope_head_dim", "keys of %d elements and %d rotated ones are not supported", c.NotTurned, c.Turned)
	case c.ValueDim < 1 || c.ValueDim > 1<<20:
		return c.Errorf("v_head_dim", "%d is outside 1…%d", c.ValueDim, 1<<20)
	case c.KVHeads != 0 && c.KVHeads != c.Heads:
		return c.Errorf("num_key_value_heads", "PLM's heads have keys and values of their own, and %d of %d do", c.KVHeads, c.Heads)
	case c.AttentionBias:
		return c.Errorf("attention_bias", "biases of queries, keys and values are not supported in PLM")
	}
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", c.Act, "relu2")
	if c.TiedHead = or(c.Tied, true); !c.TiedHead {
		return c.Errorf("tie_word_embeddings", "a head of its own is not supported in PLM")
	}
	return nil
}
