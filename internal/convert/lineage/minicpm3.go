package lineage

// minicpm3 describes MiniCPM 3: keys, values and queries that follow from latent vectors, and factors that its GGUF
// files do not tell.
func minicpm3() Family {
	f := llama()
	f.Name, f.HuggingFace = "minicpm3", []string{"MiniCPM3ForCausalLM"}
	f.Rotation, f.PartialRotary, f.Latent, f.Multipliers = HalvesApart, true, true, true
	f.Outer = append(f.Outer,
		Tensor{Name: "rope_factors_long.weight", Optional: true, Change: Computed},
		Tensor{Name: "rope_factors_short.weight", Optional: true, Change: Computed})
	f.Block = latentBlock(latentQueries(false)...)
	f.Factors, f.Read = factorsOfMiniCPM, readMiniCPM3
	return f
}

func readMiniCPM3(c *Config) error {
	if err := readLatent(c); err != nil {
		return err
	}
	if c.QueryLatent == 0 {
		return c.Errorf("q_lora_rank", "it is missing")
	}
	c.readFactorsOfMiniCPM()
	c.TiedHead = or(c.Tied, true)
	return nil
}
