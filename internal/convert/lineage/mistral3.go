package lineage

// mistral3 describes the text part of Mistral Small 3.1 and 3.2 and of Ministral 3, which is Llama's, and in Ministral
// 3 has queries that grow with their position.
func mistral3() Family {
	f := llama()
	f.Name, f.HuggingFace = "mistral3", []string{"Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"}
	f.Tempered, f.Root = true, textRoots()
	f.MaxContext = 8192
	f.Really = func(c *Config) string {
		if c.Kind == "mistral4" {
			return c.Kind
		}
		return ""
	}
	return f
}
