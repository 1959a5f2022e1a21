package convert

import (
	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// maxExperts bounds the experts of a layer.
const maxExperts = 1 << 12

// expertKeys returns what files say of experts.
func (c *config) expertKeys(f arch.Family) (keys []gguf.KV, err error) {
	m := &c.Mixture
	switch {
	case f.Experts == nil:
		return nil, nil
	case m.Count == 0 && f.Experts.Optional:
		return nil, nil
	case m.Count < 1 || m.Count > maxExperts:
		return nil, c.Errorf("num_experts", "%d is not a number of experts from 1 to %d", m.Count, maxExperts)
	case m.Used < 1 || m.Used > m.Count:
		return nil, c.Errorf("num_experts_per_tok", "%d of %d experts cannot be used", m.Used, m.Count)
	case m.Width < 1 || m.Width > maxWidth:
		return nil, c.Errorf("moe_intermediate_size", "%d neurons of an expert are outside 1…%d", m.Width, maxWidth)
	case m.Shared < 0 || m.Shared > maxWidth || m.Shared == 0 && f.Experts.Shared:
		return nil, c.Errorf("shared_expert_intermediate_size", "%d neurons are outside 1…%d", m.Shared, maxWidth)
	}
	add := func(name string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + name, Value: v}) }
	add("expert_count", uint32(m.Count))
	add("expert_used_count", uint32(m.Used))
	add("expert_feed_forward_length", uint32(m.Width))
	if m.Shared > 0 {
		add("expert_shared_feed_forward_length", uint32(m.Shared))
	}
	how := *f.Experts
	if m.Score != nil {
		how.Score = *m.Score
	}
	if g := how.Gating(); g > 1 { // of the first, llama.cpp's files say nothing
		add("expert_gating_func", g)
	}
	if m.First > 0 {
		add("leading_dense_block_count", uint32(m.First))
	}
	if m.Every > 0 {
		add("interleave_moe_layer_step", uint32(m.Every))
	}
	if m.Scale != 0 && m.Scale != 1 {
		if !(m.Scale > 0 && m.Scale <= maxScale) {
			return nil, c.Errorf("routed_scaling_factor", "%g is not a factor from 0 to %g", m.Scale, maxScale)
		}
		add("expert_weights_scale", float32(m.Scale))
	}
	if m.Groups > 0 {
		if m.Groups > m.Count || m.GroupsUsed < 1 || m.GroupsUsed > m.Groups {
			return nil, c.Errorf("topk_group", "%d of %d groups of %d experts cannot be used", m.GroupsUsed, m.Groups, m.Count)
		}
		add("expert_group_count", uint32(m.Groups))
		add("expert_group_used_count", uint32(m.GroupsUsed))
	}
	if n := m.Normalised; n != nil && *n != f.Experts.Normalised {
		add("expert_weights_norm", *n)
	}
	return keys, nil
}
