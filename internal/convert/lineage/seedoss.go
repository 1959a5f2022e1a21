package lineage

// seedOSS describes Seed-OSS: qwen2 with post_attention_norm as the name of the norm before the feed-forward layer.
func seedOSS() Family {
	f := llama()
	f.Name, f.HuggingFace = "seed_oss", []string{"SeedOssForCausalLM"}
	f.Rotation, f.FFNNorm = HalvesApart, "post_attention_norm"
	f.Block = replaced(llamaBlock(Same), "ffn_norm.weight", Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"})
	return f
}
