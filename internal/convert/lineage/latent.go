package lineage

// latentBlock returns the tensors of a block with one matrix that makes keys and values from a latent vector. The
// queries' tensors come first.
func latentBlock(queries ...Tensor) []Tensor {
	block := []Tensor{{Name: "attn_norm.weight", Source: "input_layernorm.weight"}}
	block = append(append(block, queries...),
		Tensor{Name: "attn_kv_a_mqa.weight", Source: "self_attn.kv_a_proj_with_mqa.weight"},
		Tensor{Name: "attn_kv_a_norm.weight", Source: "self_attn.kv_a_layernorm.weight"},
		Tensor{Name: "attn_kv_b.weight", Source: "self_attn.kv_b_proj.weight"},
		Tensor{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"})
	return append(block, gatedLayer("mlp.")...)
}

// latentQueries returns the tensors of queries that follow from a latent vector of their own.
func latentQueries(optional bool) []Tensor {
	return []Tensor{
		{Name: "attn_q_a.weight", Source: "self_attn.q_a_proj.weight", Optional: optional},
		{Name: "attn_q_a_norm.weight", Source: "self_attn.q_a_layernorm.weight", Optional: optional},
		{Name: "attn_q_b.weight", Source: "self_attn.q_b_proj.weight", Optional: optional},
	}
}

// readLatent checks what latent attention takes of config.json.
func readLatent(c *Config) error {
	const most = 1 << 20
	c.HeadDim = c.NotTurned + c.Turned
	switch {
	case c.QueryLatent < 0 || c.QueryLatent > most:
		return c.Errorf("q_lora_rank", "%d is outside 0…%d", c.QueryLatent, most)
	case c.Latent < 1 || c.Latent > most:
		return c.Errorf("kv_lora_rank", "%d is outside 1…%d", c.Latent, most)
	case c.Turned < 2 || c.Turned%2 != 0 || c.NotTurned < 1 || c.Turned > most || c.NotTurned > most:
		return c.Errorf("qk_rope_head_dim", "keys of %d elements and %d rotated ones are not supported", c.NotTurned, c.Turned)
	case c.ValueDim < 1 || c.ValueDim > most:
		return c.Errorf("v_head_dim", "%d is outside 1…%d", c.ValueDim, most)
	case c.KVHeads != 0 && c.KVHeads != c.Heads:
		return c.Errorf("num_key_value_heads", "with a latent vector heads have keys and values of their own, and %d of %d do", c.KVHeads, c.Heads)
	}
	c.refuse(!or(c.Interleaved, true), "rope_interleave", "pairs of elements that are halves apart are not supported with a latent vector")
	c.refuse(c.AttentionBias, "attention_bias", "biases of queries, keys and values are not supported with a latent vector")
	return nil
}

// LatentAttentionKeys are the keys of models with latent attention.
type LatentAttentionKeys struct {
	Latent        int   `json:"kv_lora_rank"`
	QueryLatent   int   `json:"q_lora_rank"`
	NotTurned     int   `json:"qk_nope_head_dim"`
	Turned        int   `json:"qk_rope_head_dim"`
	ValueDim      int   `json:"v_head_dim"`
	AttentionBias bool  `json:"attention_bias"`
	Interleaved   *bool `json:"rope_interleave"` // the pairs that are rotated are neighbours
}
