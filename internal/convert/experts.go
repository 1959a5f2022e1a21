package convert

import (
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// maxExperts bounds the experts of a layer.
const maxExperts = 1 << 12

// expertKeys returns the keys that describe a model's experts.
func (c *config) expertKeys(f lineage.Family) (keys []gguf.KV, err error) {
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
	if f.Experts.Counted {
		add("expert_shared_count", uint32(max(c.SharedExperts, m.Shared/m.Width)))
	}
	how := *f.Experts
	if m.Score != nil {
		how.Score = *m.Score
	}
	if g := how.Gating(); g > 1 || how.Score != f.Experts.Score { // llama.cpp's files omit the first function in families that have it
		add("expert_gating_func", g)
	}
	if m.First > 0 {
		add("leading_dense_block_count", uint32(m.First))
	}
	switch {
	case m.Every > 0 && f.Headless:
		add("moe_every_n_layers", uint32(m.Every))
	case m.Every > 0:
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
	if m.Latent > 0 {
		if m.Latent > maxWidth {
			return nil, c.Errorf("moe_latent_size", "%d is outside 1…%d", m.Latent, maxWidth)
		}
		key := "moe_latent_size"
		if f.DeltaAttention() {
			key = "expert_latent_length"
		}
		add(key, uint32(m.Latent))
	}
	if g := m.Grove; g != nil {
		if m.Count%g.Sharing != 0 {
			return nil, c.Errorf("num_experts", "%d experts are not groups of %d", m.Count, g.Sharing)
		}
		add("expert_chunk_feed_forward_length", uint32(g.Width))
		add("experts_per_group", uint32(g.Sharing))
		add("expert_group_scale", g.Scale)
	}
	if n := m.Normalised; n != nil && *n != f.Experts.Normalised {
		add("expert_weights_norm", *n)
	}
	return keys, nil
}

// outputs plans output tensor name of shape dims, [n, rows, cols] or for biases [n, rows], from the outputs that change
// names of the matrices [n, cols, outputs], or biases [n, outputs], in from. Matrices in MXFP4 are [n, outputs, cols].
func (p *plan) outputs(name, from string, dims []int, change lineage.Change) {
	if p.pairs != nil { // adapters of experts are not converted
		return
	}
	step, first := 2, 0
	switch change {
	case lineage.Outputs:
		step = 1
	case lineage.OddOutputs:
		first = 1
	}
	rows := dims[1]
	every := func(r int) int { return r/rows*rows*step + r%rows*step + first }
	switch s := p.source.Tensors[from]; {
	case s != nil && s.Blocks(): // rows are outputs already
		p.from(name, from, dims, []int{dims[0], rows * step, dims[2]}).row = every
	case len(dims) == 2:
		t := p.from(name, from, dims, []int{dims[0], rows * step})
		t.as, t.single, t.row = asFloats, true, every
	default:
		p.from(name, from, dims, []int{dims[0], dims[2], rows * step}).columns = &stride{first, step}
	}
}

// halfOfOutputs plans output tensor name of shape dims, [n, rows, cols], from one half of the columns of the matrices
// [n, cols, 2·rows] in from.
func (p *plan) halfOfOutputs(name, from string, dims []int, change lineage.Change) {
	if p.pairs != nil { // adapters of experts are not converted
		return
	}
	half := &stride{step: 1}
	if change == lineage.SecondOutputs {
		half.first = dims[1]
	}
	p.from(name, from, dims, []int{dims[0], dims[2], 2 * dims[1]}).columns = half
}
