package lineage

// starcoder describes StarCoder, SantaCoder and the first Granite Code models: GPT-2 with one head of keys and values
// for all query heads, and matrices that checkpoints hold by row.
func starcoder() Family {
	f := gpt2()
	f.Name, f.HuggingFace, f.MaxContext = "starcoder", []string{"GPTBigCodeForCausalLM"}, 8192
	f.Block = changed(f.Block, Same, "*")
	f.Read = func(c *Config) error {
		c.refuse(!or(c.MultiQuery, true), "multi_query", "heads with keys and values of their own are not supported in this family")
		c.KVHeads = 1
		return readGPT2(c)
	}
	return f
}
