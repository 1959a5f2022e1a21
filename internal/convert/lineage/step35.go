package lineage

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Step holds the keys of Step 3.5's configuration.
type Step struct {
	KVGroups     int       `json:"num_attention_groups"`
	SharedDim    int       `json:"share_expert_dim"`
	RouterFactor float64   `json:"moe_router_scaling_factor"`
	NormWeights  *bool     `json:"norm_expert_weight"`
	ExpertLayers string    `json:"moe_layers_enum"` // their numbers, with commas between them
	Limits       []float64 `json:"swiglu_limits"`   // for each layer's routed experts; 0: none
	LimitsOthers []float64 `json:"swiglu_limits_shared"`
	Rotaries     []float64 `json:"partial_rotary_factors"`
	Slowed       []string  `json:"yarn_only_types"` // kinds of layers that rope_scaling is for
	OtherHeads   *struct { // sliding-window layers'
		Heads    int `json:"num_attention_heads"`
		KVGroups int `json:"num_attention_groups"`
		Head     int `json:"head_dim"`
	} `json:"attention_other_setting"`
}

// step35 describes Step 3.5 Flash and 3.7 Flash: gated attention, sliding windows in three of four layers, with another
// number of heads and another RoPE base there, and experts with a shared one after the first layers. Norms store their
// weights less 1.
func step35() Family {
	f := laguna()
	f.Name, f.HuggingFace = "step35", []string{"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"}
	f.FullFirst, f.UsualWindow, f.WindowList, f.Further, f.Root = false, 0, true, true, textRoots()
	block := gatedBlock(Same, "self_attn.g_proj.weight")
	const experts = "moe.experts.%d."
	block = withExperts(block, "moe.gate.weight", experts+"gate_proj.weight moe.gate_proj.weight", experts+"up_proj.weight moe.up_proj.weight", experts+"down_proj.weight moe.down_proj.weight")
	f.Block = plusOne(append(sharedExpert(block, "share_expert"),
		Tensor{Name: "exp_probs_b.bias", Source: "moe.router_bias", Optional: true}))
	f.Outer, f.Block = plusOne(f.Outer), optional(f.Block, "attn_gate.weight")
	f.Read = readStep35
	return f
}

func readStep35(c *Config) error {
	s := &c.Step
	if c.Layers < 1 || c.Layers > 1<<12 || len(c.LayerTypes) < c.Layers {
		return c.Errorf("layer_types", "%d for %d layers", len(c.LayerTypes), c.Layers)
	}
	if s.OtherHeads == nil {
		return c.Errorf("attention_other_setting", "it is missing")
	}
	if head := s.OtherHeads.Head; head != 0 && head != c.HeadDim {
		return c.Errorf("attention_other_setting", "heads of %d elements beside others of %d are not supported", head, c.HeadDim)
	}
	if len(s.Slowed) > 0 && !slices.Equal(s.Slowed, []string{"full_attention"}) {
		return c.Errorf("yarn_only_types", "%q are not supported; full_attention is", s.Slowed)
	}
	for l, kind := range c.LayerTypes {
		window := kind == "sliding_attention"
		share, heads, kv := 0.5, c.Heads, cmp.Or(s.KVGroups, c.KVHeads)
		if window {
			share, heads, kv = 1, cmp.Or(s.OtherHeads.Heads, c.Heads), cmp.Or(s.OtherHeads.KVGroups, kv)
		}
		if l < len(s.Rotaries) && s.Rotaries[l] != share {
			return c.Errorf("partial_rotary_factors", "%g in layer %d, of %s, is not supported; %g is", s.Rotaries[l], l, kind, share)
		}
		if l < len(c.RopeThetas) && c.RopeThetas[l] != c.thetaOf(window) {
			return c.Errorf("rope_theta", "%g in layer %d is not that of other layers with %s", c.RopeThetas[l], l, kind)
		}
		c.LayerHeads, c.LayerKV = append(c.LayerHeads, heads), append(c.LayerKV, kv)
		if l >= c.Layers {
			c.FurtherWindows = append(c.FurtherWindows, window)
		}
	}
	c.RopeTheta, c.WindowTheta = c.thetaOf(false), c.thetaOf(true)
	c.LayerTypes, c.KVHeads, c.HalfTurned = c.LayerTypes[:c.Layers], cmp.Or(s.KVGroups, c.KVHeads), true
	c.mixture(c.ExpertWidth)
	m := &c.Mixture
	m.Count, m.Used, m.Shared, m.Scale, m.Normalised = c.ErnieExperts, c.NomicUsed, s.SharedDim, s.RouterFactor, s.NormWeights
	with := map[int]bool{}
	for _, number := range strings.Split(s.ExpertLayers, ",") {
		if l, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
			with[l] = true
		}
	}
	for l := range c.Layers {
		if s.ExpertLayers != "" && !with[l] || s.ExpertLayers == "" && l == 0 {
			m.Dense = append(m.Dense, l)
		}
	}
	for m.First < c.Layers && slices.Contains(m.Dense, m.First) {
		m.First++
	}
	c.RouterLimits, c.SharedLimits = s.Limits, s.LimitsOthers
	c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
	return readLlama(c)
}

// thetaOf returns the RoPE base of layers with a window or without: if the configuration lists all layers' bases, the
// first layer's of that kind.
func (c *Config) thetaOf(window bool) float64 {
	for l, kind := range c.LayerTypes {
		if l < len(c.RopeThetas) && (kind == "sliding_attention") == window {
			return c.RopeThetas[l]
		}
	}
	return c.RopeTheta
}
