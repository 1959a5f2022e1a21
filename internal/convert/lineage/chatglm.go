package lineage

import "cmp"

// chatglm describes ChatGLM 2 and 3 and GLM 4 9B of 2024, in both of their forms on Hugging Face: llama with half of
// each head rotated, gates and ups in one tensor, biases of q, k and v.
func chatglm() Family {
	f := llama()
	f.Name, f.HuggingFace = "chatglm", []string{"ChatGLMModel", "ChatGLMForConditionalGeneration", "GlmForCausalLM"}
	f.PartialRotary, f.FusedGate, f.MaxContext = true, true, 8192
	f.Root, f.Layer = []string{"transformer.", "model."}, "encoder.layers.%d. layers.%d."
	f.Head, f.QKV, f.Buffers = "transformer.output_layer lm_head", "self_attention.query_key_value", []string{".rotary_pos_emb.inv_freq"}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embedding.word_embeddings.weight embed_tokens.weight"},
		{Name: "output_norm.weight", Source: "encoder.final_layernorm.weight norm.weight"},
	}
	f.Block = []Tensor{ // q and k are stored as neighbours already
		{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		{Name: "attn_q.weight", Source: "self_attention.query_key_value.weight self_attn.q_proj.weight"},
		{Name: "attn_k.weight", Source: "self_attention.query_key_value.weight self_attn.k_proj.weight"},
		{Name: "attn_v.weight", Source: "self_attention.query_key_value.weight self_attn.v_proj.weight"},
		{Name: "attn_q.bias", Source: "self_attention.query_key_value.bias self_attn.q_proj.bias", Optional: true},
		{Name: "attn_k.bias", Source: "self_attention.query_key_value.bias self_attn.k_proj.bias", Optional: true},
		{Name: "attn_v.bias", Source: "self_attention.query_key_value.bias self_attn.v_proj.bias", Optional: true},
		{Name: "attn_output.weight", Source: "self_attention.dense.weight self_attn.o_proj.weight"},
		{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
		{Name: "ffn_up.weight", Source: "mlp.dense_h_to_4h.weight mlp.gate_up_proj.weight"},
		{Name: "ffn_down.weight", Source: "mlp.dense_4h_to_h.weight mlp.down_proj.weight"},
	}
	f.Read = readChatGLM
	return f
}

func readChatGLM(c *Config) error {
	c.refuse(c.LinearBias, "add_bias_linear", "biases of all matrices are not supported; those of queries, keys and values are")
	c.refuse(c.ResidualNorm, "apply_residual_connection_post_layernorm", "a residual behind the norm is not supported")
	c.Layers = cmp.Or(c.NumLayers, c.Layers)
	c.Vocab = cmp.Or(c.PaddedVocab, c.Vocab)
	c.Context = cmp.Or(c.SeqLength, c.Context)
	c.FF = cmp.Or(c.FalconFF, c.FF)
	c.HeadDim = cmp.Or(c.KVChannels, c.HeadDim)
	if c.Grouped {
		c.KVHeads = c.Groups
	}
	c.epsilon("layernorm_epsilon", cmp.Or(c.NormEpsGLM, c.RMSEps), 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, false)
	if c.RopeRatio > 0 {
		c.RopeTheta = 10000 * c.RopeRatio
	}
	c.rotates(0.5)
	return nil
}

// ChatGLMKeys are ChatGLM's keys.
type ChatGLMKeys struct {
	NumLayers    int     `json:"num_layers"`
	PaddedVocab  int     `json:"padded_vocab_size"`
	SeqLength    int     `json:"seq_length"`
	KVChannels   int     `json:"kv_channels"` // elements of a head
	Groups       int     `json:"multi_query_group_num"`
	Grouped      bool    `json:"multi_query_attention"`
	NormEpsGLM   float64 `json:"layernorm_epsilon"`
	RopeRatio    float64 `json:"rope_ratio"` // by which RoPE's base is multiplied
	LinearBias   bool    `json:"add_bias_linear"`
	ResidualNorm bool    `json:"apply_residual_connection_post_layernorm"`
}
