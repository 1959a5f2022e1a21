package lineage

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Mixtures are keys of configurations of models with experts, by the names of single families.
type Mixtures struct {
	HeadsByLayer []int           `json:"num_attention_heads_per_layer"`
	MLPTypes     []string        `json:"mlp_layer_types"` // dense or sparse
	SharedCount  json.RawMessage `json:"num_shared_experts"`
	RouteNorm    *bool           `json:"route_norm"`
	RouteScale   float64         `json:"route_scale"`
	RoutedScale  float64         `json:"moe_routed_scaling_factor"`
	RouterScale  float64         `json:"router_scaling_factor"`
	Gating       json.RawMessage `json:"gating"` // whether attention's gate is by head or by element
	ValueScale   float64         `json:"attention_value_scale"`
	WindowKV     int             `json:"swa_num_key_value_heads"`
	WindowBase   float64         `json:"swa_rope_theta"`
	Hybrid       []int           `json:"hybrid_layer_pattern"` // 1 of layers with windows
	ElementGate  bool            `json:"-"`                    // attention's gate has a number for each element, where the family's has one for each head
	SharedBy     string          `json:"shared_expert_combination_strategy"`
	UsedByLayer  Counts          `json:"moe_topk"`
	QueryFactor  float64         `json:"qk_scale_factor"`
	OutputFactor float64         `json:"output_multiplier"` // factor of logits
	SharedLayers Counts          `json:"num_shared_expert"`
	FurtherTypes []string        `json:"mtp_layer_types"` // layer_types of the MTP layers
}

// sharedCount returns the number of shared experts; def where the configuration does not say it.
func (c *Config) sharedCount(def int) int {
	if n := 0; json.Unmarshal(c.SharedCount, &n) == nil && len(c.SharedCount) > 0 {
		return n
	}
	return def
}

// denseFirst returns how many layers before the first with experts the configuration lists, or def if it lists none.
func (c *Config) denseFirst(def int) int {
	if c.MLPTypes == nil {
		return def
	}
	if i := slices.Index(c.MLPTypes, "sparse"); i >= 0 {
		return i
	}
	return len(c.MLPTypes)
}

// scored describes experts that are scored by a sigmoid, with a bias that counts for the choice only.
func scored() *Experts { return &Experts{Score: compute.Sigmoid, MinSum: leastSum} }

// gatedBlock returns a block with norms of each head of queries and keys, and a gate of the heads' output.
func gatedBlock(change Change, gate string) []Tensor {
	return before(headNorms(llamaBlock(change)), "attn_output.weight", Tensor{Name: "attn_gate.weight", Source: gate})
}

// afmoe describes Trinity: norms before and after parts, gated attention, sliding windows in three of four layers, the
// only ones that are rotated, and experts after the first layers.
func afmoe() Family {
	f := llama()
	f.Name, f.HuggingFace = "afmoe", []string{"AfmoeForCausalLM"}
	f.Rotation, f.Window, f.FullEvery, f.ScaledInput, f.UsualWindow = HalvesApart, true, 4, true, 2048
	f.Experts = scored()
	f.Experts.Counted = true
	block := replaced(gatedBlock(Same, "self_attn.gate_proj.weight"), "ffn_norm.weight",
		Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "pre_mlp_layernorm.weight"})
	block = withExperts(block, "mlp.router.gate.weight", "mlp.experts.%d.gate_proj.weight", "mlp.experts.%d.up_proj.weight", "mlp.experts.%d.down_proj.weight")
	f.Block = append(sharedExpert(wholeExperts(block), "mlp.shared_experts"),
		Tensor{Name: "post_ffw_norm.weight", Source: "post_mlp_layernorm.weight"},
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.expert_bias"})
	f.Read = func(c *Config) error {
		c.mixture(c.ExpertWidth)
		m := &c.Mixture
		m.Shared, m.First, m.Scale, m.Normalised = c.sharedCount(0)*c.ExpertWidth, c.LFM2.Dense, c.RouteScale, new(or(c.RouteNorm, true))
		c.SharedExperts = c.sharedCount(0)
		return readLlama(c)
	}
	return f
}

// museGlimmer describes the text part of Muse Glimmer: Trinity's form without experts. Norms of heads have no weights
// but a factor of queries, which files store as the weights. Layers' norms store their weights less 1.
func museGlimmer() Family {
	f := afmoe()
	f.Name, f.HuggingFace, f.Experts = "muse-glimmer", []string{"MuseGlimmerForConditionalGeneration"}, nil
	f.Rotation, f.ScaledInput, f.ScaledLogits, f.UsualWindow = Neighbours, false, true, 1024
	f.Root = textRoots()
	f.Block = slices.DeleteFunc(f.Block, func(t Tensor) bool { return OfExperts(t.Name) })
	for i := range f.Block {
		t := &f.Block[i]
		switch t.Name {
		case "attn_q.weight", "attn_k.weight":
			t.Change = Pairs
		case "attn_q_norm.weight", "attn_k_norm.weight":
			t.Source, t.Change = "", Computed
		case "attn_norm.weight", "post_attention_norm.weight":
			t.Change = PlusOne
		case "ffn_norm.weight":
			t.Source, t.Change = "pre_feedforward_layernorm.weight "+t.Source, PlusOne
		case "post_ffw_norm.weight":
			t.Source, t.Change = "post_feedforward_layernorm.weight "+t.Source, PlusOne
		}
	}
	f.Read = func(c *Config) error {
		if c.HeadDim < 1 || c.HeadDim > 1<<16 {
			return c.Errorf("head_dim", "heads of %d elements are not supported", c.HeadDim)
		}
		if c.QueryFactor == 0 {
			return c.Errorf("qk_scale_factor", "it is missing")
		}
		c.LogitFactor = c.OutputFactor
		c.Given = map[string][]float32{
			"attn_q_norm.weight": slices.Repeat([]float32{float32(c.QueryFactor)}, c.HeadDim), "attn_k_norm.weight": slices.Repeat([]float32{1}, c.HeadDim),
		}
		return readLlama(c)
	}
	return f
}

// cohere2MoE describes North Mini Code: Command R7B's form with experts after the first layers, and RMSNorms.
func cohere2MoE() Family {
	f := cohere2()
	f.Name, f.HuggingFace = "cohere2moe", []string{"Cohere2MoeForCausalLM"}
	f.FullFirst, f.AlwaysTied, f.Further = true, false, true
	f.Experts = scored()
	f.Experts.Counted = true
	block := without(f.Block, "attn_[qk]_norm.weight")
	f.Block = sharedExpert(wholeExperts(mlpExperts(block)), "mlp.shared_experts")
	f.Read = func(c *Config) error {
		c.refuse(c.SharedBy != "" && c.SharedBy != "average", "shared_expert_combination_strategy", "%q is not supported; average is", c.SharedBy)
		c.mixture(c.FF)
		m := &c.Mixture
		m.Shared, m.First = c.sharedCount(0)*c.FF, c.denseFirst(c.FirstDense)
		c.SharedExperts = c.sharedCount(0)
		c.Window = cmp.Or(c.Window, f.UsualWindow)
		tied := c.Tied
		c.Tied = nil
		if err := readCommandR(c); err != nil {
			return err
		}
		c.TiedHead = or(tied, true)
		return nil
	}
	return f
}

// exaoneMoE describes K-EXAONE: sliding windows in three of four layers, the only ones that are rotated, and experts
// after the first layers.
func exaoneMoE() Family {
	f := llama()
	f.Name, f.HuggingFace = "exaone-moe", []string{"ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"}
	f.Rotation, f.Window, f.FullEvery, f.UsualWindow = HalvesApart, true, 4, 128
	f.Experts, f.Further = scored(), true
	f.Experts.SharedAsWide = true
	f.Block = append(sharedExpert(wholeExperts(mlpExperts(headNorms(llamaBlock(Same)))), "mlp.shared_experts"),
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.e_score_correction_bias mlp.e_score_correction_bias", Optional: true})
	f.Read = func(c *Config) error {
		c.mixture(c.ExpertWidth)
		m := &c.Mixture
		m.Shared, m.First, m.Scale = c.sharedCount(1)*c.ExpertWidth, c.denseFirst(c.FirstDense), c.ExpertScale
		c.grouped()
		for _, kind := range c.FurtherTypes {
			c.FurtherWindows = append(c.FurtherWindows, kind == "sliding_attention")
		}
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		return readLlama(c)
	}
	return f
}

// hunyuanMoE describes Hunyuan A13B: Hunyuan's attention, and experts with a shared one in all layers.
func hunyuanMoE() Family {
	f := hunyuanDense()
	f.Name, f.HuggingFace = "hunyuan-moe", []string{"HunYuanMoEV1ForCausalLM"}
	f.Experts = &Experts{Normalised: true, MinSum: leastSum, SharedAsWide: true}
	block := withExperts(without(f.Block, insteadOfExperts...), "mlp.gate.wg.weight mlp.gate.weight", "mlp.experts.%d.gate_proj.weight", "mlp.experts.%d.up_proj.weight", "mlp.experts.%d.down_proj.weight")
	f.Block = sharedExpert(wholeExperts(block), "mlp.shared_mlp")
	f.Read = func(c *Config) error {
		var widths Counts
		if len(c.ExpertWidths) > 0 {
			widths = c.ExpertWidths
		}
		for key, list := range map[string]Counts{"moe_topk": c.UsedByLayer, "num_shared_expert": c.SharedLayers, "moe_intermediate_size": widths} {
			if slices.ContainsFunc(list, func(n int) bool { return n != list[0] }) {
				return c.Errorf(key, "layers that differ are not supported")
			}
		}
		c.mixture(c.FF)
		m := &c.Mixture
		if len(widths) > 0 && widths[0] != c.FF {
			return c.Errorf("moe_intermediate_size", "experts of %d neurons are not supported where intermediate_size is %d", widths[0], c.FF)
		}
		m.Shared = c.FF
		if len(c.SharedLayers) > 0 {
			m.Shared *= c.SharedLayers[0]
		}
		if len(c.UsedByLayer) > 0 {
			m.Used = c.UsedByLayer[0]
		}
		return readHunyuan(c)
	}
	return f
}

// hyV3 describes Hy3: experts with a shared one after the first layers.
func hyV3() Family {
	f := llama()
	f.Name, f.HuggingFace = "hy_v3", []string{"HYV3ForCausalLM"}
	f.Rotation, f.Further = HalvesApart, true
	f.Experts = scored()
	f.Experts.SharedAsWide = true
	f.Block = append(sharedExpert(wholeExperts(mlpExperts(headNorms(llamaBlock(Same)))), "mlp.shared_experts"),
		Tensor{Name: "exp_probs_b", Source: "mlp.e_score_correction_bias mlp.gate.e_score_correction_bias mlp.expert_bias"})
	f.Read = func(c *Config) error {
		c.mixture(c.ExpertWidth)
		m := &c.Mixture
		m.Shared, m.First, m.Scale = c.sharedCount(1)*c.ExpertWidth, c.denseFirst(1), cmp.Or(c.RouterScale, 2.826)
		m.Normalised = new(or(c.RouteNorm, true))
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		return readLlama(c)
	}
	return f
}

// laguna describes Laguna: gated attention, sliding windows in three of four layers, with another number of heads and
// another rotation there, and experts with a shared one after the first layers.
func laguna() Family {
	f := llama()
	f.Name, f.HuggingFace = "laguna", []string{"LagunaForCausalLM"}
	f.Rotation, f.PartialRotary, f.Window, f.FullEvery, f.FullFirst, f.UsualWindow = HalvesApart, true, true, 4, true, 512
	f.HeadGate, f.Experts = true, scored()
	f.Experts.SharedAsWide = true
	f.Block = append(sharedExpert(wholeExperts(mlpExperts(gatedBlock(Same, "self_attn.g_proj.weight"))), "mlp.shared_experts", "mlp.shared_expert"),
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.e_score_correction_bias mlp.experts.e_score_correction_bias"})
	f.WindowBase = 10000
	f.Read = readLaguna
	return f
}

func readLaguna(c *Config) error {
	c.ropeByKind()
	c.mixture(c.ExpertWidth)
	m := &c.Mixture
	m.First, m.Scale = c.denseFirst(1), c.RoutedScale
	if len(c.HeadsByLayer) > 0 && len(c.HeadsByLayer) != c.Layers {
		return c.Errorf("num_attention_heads_per_layer", "%d numbers for %d layers", len(c.HeadsByLayer), c.Layers)
	}
	c.LayerHeads = c.HeadsByLayer
	m.Normalised = new(true)
	gate := ""
	c.ElementGate = json.Unmarshal(c.Gating, &gate) == nil && gate == "per-element"
	return readLlama(c)
}

// mimo2 describes MiMo-V2-Flash and its kin: values narrower than keys, sliding windows with sinks and their own KV
// heads in most layers, and experts after the first layers.
func mimo2() Family {
	f := llama()
	f.Name, f.HuggingFace = "mimo2", []string{"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"}
	f.Rotation, f.PartialRotary, f.Window, f.WindowList, f.FullEvery = HalvesApart, true, true, true, 6
	f.Experts = scored()
	f.Experts.Normalised, f.WindowBase, f.Further = true, 10000, true
	f.QKV, f.Grouped = "self_attn.qkv_proj", true // V2.5
	block := replaced(llamaBlock(Same), "ffn_norm.weight", Tensor{Name: "ffn_norm.weight", Source: "pre_mlp_layernorm.weight post_attention_layernorm.weight"})
	for i := range block {
		if stem, _, _ := strings.Cut(block[i].Name, "."); stem == "attn_q" || stem == "attn_k" || stem == "attn_v" {
			block[i].Source = f.QKV + strings.TrimPrefix(block[i].Name, stem) + " " + block[i].Source
		}
	}
	f.Block = append(wholeExperts(mlpExperts(block)),
		Tensor{Name: "attn_sinks.weight", Source: "self_attn.sinks self_attn.attention_sink_bias", Optional: true},
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.e_score_correction_bias", Optional: true})
	f.Read = readMiMo2
	return f
}

// readMiMo2 reads the names of older folders, too, which tell layers' kinds by lists of 0 and 1.
func readMiMo2(c *Config) error {
	c.ropeByKind()
	c.mixture(c.ExpertWidth)
	m := &c.Mixture
	m.Count, m.Scale = c.RoutedExperts, c.ExpertScale
	m.First = c.denseFirst(1)
	if i := slices.Index(c.ExpertEvery, 1); len(c.ExpertEvery) == c.Layers && i >= 0 {
		m.First = i
	}
	c.grouped()
	for _, window := range c.Hybrid {
		kind := "full_attention"
		if window == 1 {
			kind = "sliding_attention"
		}
		c.LayerTypes = append(c.LayerTypes, kind)
	}
	if len(c.LayerTypes) != c.Layers {
		return c.Errorf("layer_types", "%d for %d layers", len(c.LayerTypes), c.Layers)
	}
	if c.WindowKV > 0 {
		for _, kind := range c.LayerTypes {
			n := c.KVHeads
			if kind == "sliding_attention" {
				n = c.WindowKV
			}
			c.LayerKV = append(c.LayerKV, n)
		}
		c.LayerKV = append(c.LayerKV, c.WindowKV) // for MTP layers
	}
	c.FurtherWindows = []bool{true}
	c.WindowTheta = cmp.Or(c.WindowTheta, c.WindowBase)
	c.RMSEps = cmp.Or(c.RMSEps, c.NormEpsGLM, 1e-5)
	return readLlama(c)
}
