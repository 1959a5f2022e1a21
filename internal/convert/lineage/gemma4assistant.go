package lineage

import "slices"

// gemma4Assistant describes the draft models of Gemma 4: its blocks without keys and values, between projections from
// the width of the model that they draft for, and to it. The small models' are published with groups of tokens among
// which their head chooses first, which files leave out.
func gemma4Assistant() Family {
	f := gemma4()
	f.Name, f.HuggingFace = "gemma4-assistant", []string{"Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM"}
	f.Drafts, f.LayerInputs, f.Experts, f.AlwaysTied = true, false, nil, true
	f.Buffers = []string{"masked_embedding.centroids.weight", "masked_embedding.token_ordering"}
	f.Outer = append(llamaOuter(),
		Tensor{Name: "nextn.pre_projection.weight", Source: "pre_projection.weight", Rootless: true},
		Tensor{Name: "nextn.post_projection.weight", Source: "post_projection.weight", Rootless: true})
	f.Block = slices.DeleteFunc(headNorms(bothNorms(llamaBlock(Same))), func(t Tensor) bool {
		return slices.Contains([]string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}, t.Name)
	})
	f.Block = append(f.Block, Tensor{Name: "layer_output_scale.weight", Source: "layer_scalar"})
	f.Read = readGemma4Assistant
	return f
}

func readGemma4Assistant(c *Config) error {
	switch {
	case c.Target <= 0:
		return c.Errorf("backbone_hidden_size", "it is missing")
	case c.Experts, c.Wider, c.Input != 0:
		return c.Errorf("text_config", "draft models of Gemma 4 with experts, wider layers or embeddings for each layer are not supported")
	case c.Shares() != 0 && c.Shares() != c.Layers:
		return c.Errorf("num_kv_shared_layers", "%d of %d layers read keys and values of others; all of a draft model's do", c.Shares(), c.Layers)
	}
	c.SharedKV, c.LogitCap = &c.Layers, nil
	return readGemma4(c)
}

// AssistantKeys are the keys of Gemma 4's draft models.
type AssistantKeys struct {
	Target int `json:"backbone_hidden_size"` // width of the target
}
