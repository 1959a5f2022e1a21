package lineage

// bailingMoE3 describes Ling 3: Kimi delta attention in most layers, latent attention with a gate of each head in the
// others, and experts in groups after the first layers. Its decays have a bound.
func bailingMoE3() Family {
	const prefix = "attention."
	f := deltaAttention(prefix, prefix+"o_proj.weight "+prefix+"dense.weight",
		Tensor{Name: "ssm_f_a.weight", Source: prefix + "f_proj.weight"},
		Tensor{Name: "ssm_g_a.weight", Source: prefix + "g_proj.weight"},
		Tensor{Name: "attn_gate.weight", Source: prefix + "g_proj.weight"},
		Tensor{Name: "attn_q_a.weight", Source: prefix + "q_a_proj.weight", Optional: true},
		Tensor{Name: "attn_q_a_norm.weight", Source: prefix + "q_a_layernorm.weight", Optional: true},
		Tensor{Name: "attn_q_b.weight", Source: prefix + "q_b_proj.weight", Optional: true},
		Tensor{Name: "attn_q.weight", Source: prefix + "q_proj.weight", Optional: true})
	f.Name, f.HuggingFace = "bailingmoe3", []string{"BailingMoeV3ForCausalLM"}
	f.Block = append(sharedExpert(mlpExperts(changed(f.Block, Exp, "ssm_a")), "mlp.shared_experts"), Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.expert_bias"})
	f.Outer[0].Source = "word_embeddings.weight"
	f.Further, f.HeadGate, f.Experts.Normalised = true, true, false
	f.Read = readBailing3
	return f
}

func readBailing3(c *Config) error {
	c.refuse(!c.LowRankless, "no_kda_lora", "decays and gates that follow from a narrower vector are not supported in %s", c.Architectures[0])
	switch {
	case !c.SafeGate || !(c.LowerBound < 0):
		return c.Errorf("kda_lower_bound", "decays without a bound are not supported in %s", c.Architectures[0])
	case c.GateOf != "head_wise":
		return c.Errorf("gated_attention_proj_granularity_type", "%q is not supported; head_wise is", c.GateOf)
	case c.LayerGroup < 1:
		return c.Errorf("layer_group_size", "%d is not a number of layers", c.LayerGroup)
	}
	dim := c.HeadDim
	c.RoutedExperts, c.SharedExperts = c.NumExperts, c.sharedCount(0)
	err := c.readDeltaAttention(dim, c.ShortTaps, func(l int) bool {
		return (l+1)%c.LayerGroup == 0 || l >= c.Layers/c.LayerGroup*c.LayerGroup
	})
	if c.SharedFF > 0 {
		c.Mixture.Shared = c.SharedFF
	}
	return err
}
