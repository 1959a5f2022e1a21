package lineage

import "cmp"

// gemma4Window is the small models' window; GGUF files say it.
const gemma4Window = 512

// gemma4 describes the text part of Gemma 4: Gemma 3's block with heads of two sizes, keys that may also be the values,
// and a factor for each layer. The small models have Gemma 3n's embeddings for each layer and shared keys and values.
// The 26B-A4B has experts in parallel to the feed-forward layer.
func gemma4() Family {
	f := gemma3()
	f.Name, f.HuggingFace = "gemma4", []string{"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4UnifiedForConditionalGeneration"}
	f.ScoreScale, f.UsualWindow = 1, gemma4Window
	f.SharedKV, f.LayerInputs, f.WindowHeads = true, true, true
	f.Outer = append(llamaOuter(), layerInputs(true)...)
	f.Block = append(headNorms(bothNorms(llamaBlock(Same))), layerInput(true)...)
	f.Block = append(optional(f.Block, "attn_v.weight"), Tensor{Name: "layer_output_scale.weight", Source: "layer_scalar", Optional: true})
	f.Experts = &Experts{Optional: true, Normalised: true, MinSum: leastSum, Beside: true}
	f.Block = append(f.Block,
		Tensor{Name: "ffn_gate_inp.scale", Source: "router.scale"},
		Tensor{Name: "ffn_gate_inp.weight", Source: "router.proj.weight"},
		Tensor{Name: "pre_ffw_norm_2.weight", Source: "pre_feedforward_layernorm_2.weight"},
		Tensor{Name: "ffn_gate_exps.weight", Source: "experts.gate_up_proj", Change: FirstHalf},
		Tensor{Name: "ffn_up_exps.weight", Source: "experts.gate_up_proj", Change: SecondHalf},
		Tensor{Name: "ffn_down_exps.weight", Source: "experts.down_proj"},
		Tensor{Name: "ffn_down_exps.scale", Source: "router.per_expert_scale"},
		Tensor{Name: "post_ffw_norm_1.weight", Source: "post_feedforward_layernorm_1.weight"},
		Tensor{Name: "post_ffw_norm_2.weight", Source: "post_feedforward_layernorm_2.weight"})
	f.Read = readGemma4
	return f
}

func readGemma4(c *Config) error {
	if c.Experts {
		c.Mixture = Mixture{Count: c.NumExperts, Used: c.TopExperts, Width: c.ExpertWidth}
	}
	if c.GlobalHead == 0 {
		return c.Errorf("global_head_dim", "it is missing")
	}
	c.GlobalKV = cmp.Or(c.GlobalKV, c.KVHeads)
	c.QueryScalar = 0 // scores are not scaled
	return readGemma3(c)
}
