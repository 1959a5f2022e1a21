package lineage

// seedOSS describes Seed-OSS: qwen2 whose norm before the feed-forward layer files call post_attention_norm.
func seedOSS() Family {
	f := llama()
	f.Name, f.HuggingFace = "seed_oss", []string{"SeedOssForCausalLM"}
	f.Rotation, f.FFNNorm = HalvesApart, "post_attention_norm"
	f.Block = replaced(llamaBlock(Same), "ffn_norm.weight", Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"})
	return f
}
