package lineage

import "cmp"

// ernie describes ERNIE 4.5's models without experts: llama with rotated pairs that are neighbours in the checkpoint.
func ernie() Family {
	f := llama()
	f.Name, f.HuggingFace, f.Block = "ernie4_5", []string{"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"}, llamaBlock(Same)
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		if err := readLlama(c); err != nil {
			return err
		}
		c.TiedHead = or(c.Tied, true)
		return nil
	}
	return f
}

// ernieMoE describes ERNIE 4.5's models with experts, with a bias that counts for the choice only, and shared ones; the
// first layers have none. Its checkpoints hold the pairs that are rotated side by side.
func ernieMoE() Family {
	f := llama()
	f.Name, f.HuggingFace = "ernie4_5-moe", []string{"Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"}
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.Block = append(sharedExpert(mlpExperts(llamaBlock(Same)), "mlp.shared_experts"),
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.moe_statics.e_score_correction_bias", Optional: true})
	f.Read = func(c *Config) error {
		c.Mixture = Mixture{
			Count: c.ErnieExperts, Used: c.ErnieUsed, Width: c.ExpertWidth, Shared: c.ErnieShared * c.ExpertWidth,
			First: c.ErnieFirst, Every: max(1, c.ErnieEvery),
		}
		if c.ErnieLast > 0 && c.ErnieLast < c.Layers-1 {
			return c.Errorf("moe_layer_end_index", "layers without experts behind those with some are not supported")
		}
		return readLlama(c)
	}
	return f
}
