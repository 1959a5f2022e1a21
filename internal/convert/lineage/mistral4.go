package lineage

// mistral4 describes Mistral Small 4: DeepSeek V2's form with queries that grow with their position.
func mistral4() Family {
	f := deepseek2()
	f.Name, f.HuggingFace, f.Root, f.Tempered = "mistral4", []string{"Mistral4ForCausalLM"}, textRoots(), true
	f.Block = wholeExperts(f.Block)
	f.Read, f.Further = readMistral4, false
	return f
}

func readMistral4(c *Config) error {
	if c.ExpertGroups > 1 {
		return c.Errorf("n_group", "groups of experts are not supported in Mistral 4")
	}
	c.NormTopK = new(or(c.NormTopK, true))
	return readDeepSeek2(c)
}
