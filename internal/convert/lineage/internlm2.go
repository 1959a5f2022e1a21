package lineage

// internlm2 describes InternLM 2 and 2.5: llama with q, k and v in groups in one tensor of the checkpoint.
func internlm2() Family {
	f := llama()
	f.Name, f.HuggingFace = "internlm2", []string{"InternLM2ForCausalLM"}
	f.HeadsFillWidth, f.Head, f.QKV, f.Grouped, f.MaxContext = true, "output", "attention.wqkv", true, 32768
	f.Outer = replaced(f.Outer, "token_embd.weight", Tensor{Name: "token_embd.weight", Source: "tok_embeddings.weight"})
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "attention_norm.weight"},
		{Name: "attn_q.weight", Source: "attention.wqkv.weight", Change: Pairs},
		{Name: "attn_k.weight", Source: "attention.wqkv.weight", Change: Pairs},
		{Name: "attn_v.weight", Source: "attention.wqkv.weight"},
		{Name: "attn_output.weight", Source: "attention.wo.weight"},
		{Name: "ffn_norm.weight", Source: "ffn_norm.weight"},
		{Name: "ffn_gate.weight", Source: "feed_forward.w1.weight"},
		{Name: "ffn_up.weight", Source: "feed_forward.w3.weight"},
		{Name: "ffn_down.weight", Source: "feed_forward.w2.weight"},
	}
	f.Read = func(c *Config) error {
		c.refuse(c.Bias, "bias", "InternLM 2 with biases is not supported; llama.cpp has no place for them")
		return readLlama(c)
	}
	return f
}
