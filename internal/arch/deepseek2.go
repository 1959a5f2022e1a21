package arch

import "slices"

// deepseek2 describes DeepSeek V2 and V3 and models of their form, so far without experts: keys and values, and in the larger models queries, that follow
// from latent vectors. Newer files hold the matrices of keys and values by head, older ones as one.
func deepseek2() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Original = "deepseek2", []string{"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "YoutuForCausalLM"}, ""
	f.PartialRotary, f.Latent, f.YarnScores = true, true, true
	queries := append(latentQueries(true), Tensor{Name: "attn_q.weight", Source: "self_attn.q_proj.weight", Optional: true})
	f.Block = latentBlock(queries...)
	i := slices.IndexFunc(f.Block, func(t Tensor) bool { return t.Name == "attn_kv_b.weight" })
	const both = "self_attn.kv_b_proj.weight"
	f.Block = slices.Replace(f.Block, i, i+1,
		Tensor{Name: "attn_k_b.weight", Source: both, Change: LatentKeys},
		Tensor{Name: "attn_v_b.weight", Source: both, Change: LatentValues})
	f.Read = func(c *Config) error {
		if err := readLatent(c); err != nil {
			return err
		}
		return readLlama(c)
	}
	return f
}
