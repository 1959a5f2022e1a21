package arch

import (
	"cmp"
	"math"
)

// minicpm3 describes MiniCPM 3: keys, values and queries that follow from latent vectors, and factors that its GGUF files do not tell.
func minicpm3() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "minicpm3", []string{"MiniCPM3ForCausalLM"}, ""
	f.Rotation, f.PartialRotary, f.Latent, f.Multipliers = HalvesApart, true, true, true
	f.Outer = append(f.Outer,
		Tensor{Name: "rope_factors_long.weight", Optional: true, Change: Computed},
		Tensor{Name: "rope_factors_short.weight", Optional: true, Change: Computed})
	f.Block = latentBlock(latentQueries(false)...)
	f.Factors = func(layers, embd int) Factors {
		return Factors{Embedding: 12, Residual: 1.4 / math.Sqrt(float64(layers)), Logits: 256 / float64(embd)}
	}
	f.Read = readMiniCPM3
	return f
}

func readMiniCPM3(c *Config) error {
	if err := readLatent(c); err != nil {
		return err
	}
	if c.QueryLatent == 0 {
		return c.Errorf("q_lora_rank", "it is missing")
	}
	c.EmbeddingScale = cmp.Or(c.EmbeddingFactor, 1)
	c.ResidualScale = cmp.Or(c.DepthFactor, 1) / math.Sqrt(float64(max(1, c.Layers)))
	c.LogitScale = float64(c.Hidden) / float64(cmp.Or(max(0, c.BaseWidth), c.Hidden, 1))
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, true)
	return nil
}
