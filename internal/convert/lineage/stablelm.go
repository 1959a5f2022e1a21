package lineage

import "cmp"

// stablelm describes StableLM 3B, 2 1.6B and Zephyr: llama with LayerNorms and a quarter of each head rotated. In
// StableLM 2 12B attention is parallel to the feed-forward layer, and queries and keys are normed.
func stablelm() Family {
	f := llama()
	f.Name, f.HuggingFace = "stablelm", []string{"StableLmForCausalLM", "StableLMEpochForCausalLM"}
	f.Rotation, f.PartialRotary, f.LayerNorm = HalvesApart, true, true
	f.Outer = append(f.Outer, Tensor{Name: "output_norm.bias", Source: "norm.bias"})
	f.Block = replaced(normBiases(llamaBlock(Same), Same), "attn_output.bias",
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.q_layernorm.norms.%d.weight", Optional: true, Change: Stacked},
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_layernorm.norms.%d.weight", Optional: true, Change: Stacked})
	f.PerhapsBeside = true
	f.Read = readStableLM
	return f
}

func readStableLM(c *Config) error {
	c.epsilon("layer_norm_eps", cmp.Or(c.OldLayerNormEps, c.NormEps), 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, false)
	c.rotates(c.OldRotary, 0.25)
	return nil
}

// StableLMKeys are StableLM's keys.
type StableLMKeys struct {
	OldLayerNormEps float64 `json:"layer_norm_eps"`
	OldRotary       float64 `json:"rope_pct"` // share of a head that is rotated
	ParallelParts   *bool   `json:"use_parallel_residual"`
	HeadNorm        bool    `json:"qk_layernorm"`
}
