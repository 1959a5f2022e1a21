package lineage

import (
	"cmp"
)

// qwen3Next describes Qwen3-Next: three of four layers are gated delta nets, the others gated attention with a quarter
// of each head rotated; all have experts with a shared one. Checkpoints store norms' weights less 1, except those of
// delta nets.
func qwen3Next() Family {
	f := delta()
	f.Name, f.HuggingFace = "qwen3next", []string{"Qwen3NextForCausalLM"}
	f.withDeltaExperts()
	f.Block = append(f.Block,
		Tensor{Name: "attn_qkv.weight", Source: deltaPrefix + "in_proj_qkvz.weight", Change: GroupedMixed},
		Tensor{Name: "attn_gate.weight", Source: deltaPrefix + "in_proj_qkvz.weight", Change: GroupedGates},
		Tensor{Name: "ssm_ba.weight", Source: deltaPrefix + "in_proj_ba.weight"})
	return f
}

// qwen35 describes the text part of the dense models of Qwen3.5, which are built as Qwen3-Next is. Its files have the
// heads of delta nets in another order than checkpoints.
func qwen35() Family {
	f := delta()
	f.Name, f.HuggingFace = "qwen35", []string{"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"}
	f.Sections, f.Tiled, f.Root, f.Read = true, true, textRoots(), readQwen35
	f.Block = append(f.Block,
		Tensor{Name: "attn_qkv.weight", Source: deltaPrefix + "in_proj_qkv.weight"},
		Tensor{Name: "attn_gate.weight", Source: deltaPrefix + "in_proj_z.weight"},
		Tensor{Name: "ssm_beta.weight", Source: deltaPrefix + "in_proj_b.weight"},
		Tensor{Name: "ssm_alpha.weight", Source: deltaPrefix + "in_proj_a.weight"})
	return f
}

// qwen35MoE describes the text part of Qwen3.5's models with experts.
func qwen35MoE() Family {
	f := qwen35()
	f.Name, f.HuggingFace = "qwen35moe", []string{"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"}
	f.withDeltaExperts()
	return f
}

// deltaPrefix is a delta net's name on Hugging Face.
const deltaPrefix = "linear_attn."

// delta describes what models with delta nets share.
func delta() Family {
	f := llama()
	f.Rotation, f.PartialRotary, f.FFNNorm = HalvesApart, true, "post_attention_norm"
	f.StateSpace, f.Delta, f.Further = true, true, true
	f.Read = readDelta
	f.Outer = plusOne(f.Outer)
	f.Block = append(without(headNorms(llamaBlock(Same)), "ffn_norm.weight"), Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"})
	f.Block = append(plusOne(f.Block),
		Tensor{Name: "ssm_conv1d.weight", Source: deltaPrefix + "conv1d.weight", Change: Taps},
		Tensor{Name: "ssm_dt.bias", Source: deltaPrefix + "dt_bias"},
		Tensor{Name: "ssm_a", Source: deltaPrefix + "A_log", Change: NegatedExp},
		Tensor{Name: "ssm_norm.weight", Source: deltaPrefix + "norm.weight"},
		Tensor{Name: "ssm_out.weight", Source: deltaPrefix + "out_proj.weight"})
	return f
}

// withDeltaExperts gives each layer experts with a shared one instead of a feed-forward layer. Newer folders store all
// experts of a layer as one tensor.
func (f *Family) withDeltaExperts() {
	f.Experts = &Experts{Normalised: true, MinSum: leastSum, Divided: true, Shared: true}
	f.Block = sharedExpert(withExperts(without(f.Block, insteadOfExperts...), "mlp.gate.weight",
		"mlp.experts.%d.gate_proj.weight mlp.experts.gate_up_proj", "mlp.experts.%d.up_proj.weight mlp.experts.gate_up_proj",
		"mlp.experts.%d.down_proj.weight mlp.experts.down_proj"), "mlp.shared_expert")
	f.Block = append(required(f.Block, "*_shexp.*"), Tensor{Name: "ffn_gate_inp_shexp.weight", Source: "mlp.shared_expert_gate.weight"})
}

// DeltaNet are the keys of models with delta nets.
type DeltaNet struct {
	Taps       int   `json:"linear_conv_kernel_dim"`
	KeyDim     int   `json:"linear_key_head_dim"`
	ValueDim   int   `json:"linear_value_head_dim"`
	KeyHeads   int   `json:"linear_num_key_heads"`
	ValueHeads int   `json:"linear_num_value_heads"`
	Every      int   `json:"full_attention_interval"`
	Gated      *bool `json:"attn_output_gate"`
}

// usualInterval is how far apart layers with attention are in models that do not say it.
const usualInterval = 4

func readDelta(c *Config) error {
	d := &c.DeltaNet
	if !or(d.Gated, true) {
		return c.Errorf("attn_output_gate", "attention without a gate is not supported in %s", c.Architectures[0])
	}
	if c.NumExperts > 0 {
		c.mixture(c.ExpertWidth)
		c.FF = cmp.Or(c.FF, c.ExpertWidth)
		if c.SparseStep > 1 || len(c.DenseLayers) > 0 {
			return c.Errorf("mlp_only_layers", "layers without experts are not supported")
		}
		c.Mixture.Every = 0
	}
	c.rotates(0.25)
	d.Every = cmp.Or(d.Every, usualInterval)
	if d.Every < 1 || d.Every > 1<<10 {
		return c.Errorf("full_attention_interval", "%d is not a number of layers", d.Every)
	}
	for l := range max(0, min(c.Layers, 1<<12)) {
		part, kind := Recurrent, "linear_attention"
		if (l+1)%d.Every == 0 {
			part, kind = Attention, "full_attention"
		}
		if len(c.LayerTypes) == c.Layers && c.LayerTypes[l] != kind {
			return c.Errorf("layer_types", "layer %d is %q, and full_attention_interval makes it %q", l, c.LayerTypes[l], kind)
		}
		c.LayerParts = append(c.LayerParts, part|FeedForward)
	}
	c.StateSpace = StateSpace{Inner: d.ValueHeads * d.ValueDim, StateSize: d.KeyDim, StateHeads: d.ValueHeads, Groups: d.KeyHeads, Taps: d.Taps}
	return readLlama(c)
}

// readQwen35 is readDelta with the sections of a head that configurations may leave out.
func readQwen35(c *Config) error {
	rope := &c.Rope
	if c.RopeScale != nil {
		rope = &c.RopeScale
	}
	if *rope == nil {
		*rope = &RopeScaling{}
	}
	if len((*rope).Sections) == 0 {
		(*rope).Sections = []int{11, 11, 10}
	}
	return readDelta(c)
}
