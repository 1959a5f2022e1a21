package lineage

import (
	"cmp"
	"math"
)

// minicpm describes MiniCPM 1, 2 and 4: llama with factors, which GGUF files may leave out, and factors of RoPE for
// long contexts. MiniCPM 4 may attend to chosen blocks of a long context; here it attends to all.
func minicpm() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Multipliers, f.Factors = "minicpm", []string{"MiniCPMForCausalLM"}, true, factorsOfMiniCPM
	f.Outer = append(f.Outer,
		Tensor{Name: "rope_factors_long.weight", Optional: true, Change: Computed},
		Tensor{Name: "rope_factors_short.weight", Optional: true, Change: Computed})
	f.Read = func(c *Config) error {
		if c.NumExperts > 0 {
			return c.Errorf("num_experts", "%d experts are not supported in this family", c.NumExperts)
		}
		c.readFactorsOfMiniCPM()
		c.TiedHead = or(c.Tied, true)
		return nil
	}
	return f
}

// factorsOfMiniCPM returns the factors of files that do not say them.
func factorsOfMiniCPM(layers, embd int) Factors {
	return Factors{Embedding: 12, Residual: 1.4 / math.Sqrt(float64(layers)), Logits: 256 / float64(embd)}
}

// readFactorsOfMiniCPM takes the factors by MiniCPM's names, and what else its configurations share.
func (c *Config) readFactorsOfMiniCPM() {
	c.EmbeddingScale = cmp.Or(c.EmbeddingFactor, 1)
	c.ResidualScale = cmp.Or(c.DepthFactor, 1) / math.Sqrt(float64(max(1, c.Layers)))
	c.LogitScale = float64(c.Hidden) / float64(cmp.Or(max(0, c.BaseWidth), c.Hidden, 1))
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", c.Act, "silu")
}

// MiniCPMKeys are MiniCPM's keys.
type MiniCPMKeys struct {
	EmbeddingFactor float64 `json:"scale_emb"`
	DepthFactor     float64 `json:"scale_depth"`    // parts' outputs are multiplied by it and divided by the root of the number of layers
	BaseWidth       int     `json:"dim_model_base"` // logits are divided by how often it goes into the width
}
