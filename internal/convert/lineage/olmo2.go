package lineage

import "cmp"

// olmo3FullEvery is the period of OLMo 3's layers that see all positions.
const olmo3FullEvery = 4

// olmo2 describes OLMo 2 and 3: norms after attention and the feed-forward layer instead of before them, and norms of q
// and k over all heads together. OLMo 3 has sliding windows in three of four layers, which do not scale RoPE.
func olmo2() Family {
	f := llama()
	f.Name, f.HuggingFace = "olmo2", []string{"Olmo2ForCausalLM", "Olmo3ForCausalLM"}
	f.Rotation = HalvesApart
	f.Window, f.FullEvery = true, olmo3FullEvery
	f.Block = replaced(headNorms(llamaBlock(Same)), "attn_norm.weight")
	f.Block = replaced(f.Block, "attn_output.weight",
		Tensor{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
		Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"})
	f.Block = replaced(f.Block, "ffn_norm.weight")
	f.Block = append(f.Block, Tensor{Name: "post_ffw_norm.weight", Source: "post_feedforward_layernorm.weight"})
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		c.ropeByKind()
		return readLlama(c)
	}
	return f
}
