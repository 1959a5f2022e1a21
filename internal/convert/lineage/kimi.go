package lineage

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// kimiLinear describes Kimi Linear: Kimi delta attention in most layers, latent attention without positions in the
// others, and experts after the first layers.
func kimiLinear() Family {
	f := deltaAttention("self_attn.", "self_attn.o_proj.weight",
		Tensor{Name: "ssm_f_a.weight", Source: "self_attn.f_a_proj.weight"},
		Tensor{Name: "ssm_f_b.weight", Source: "self_attn.f_b_proj.weight"},
		Tensor{Name: "ssm_g_a.weight", Source: "self_attn.g_a_proj.weight"},
		Tensor{Name: "ssm_g_b.weight", Source: "self_attn.g_b_proj.weight"},
		Tensor{Name: "attn_q.weight", Source: "self_attn.q_proj.weight"})
	f.Name, f.HuggingFace = "kimi-linear", []string{"KimiLinearForCausalLM", "KimiLinearModel"}
	f.Block = kimiExperts(f.Block)
	f.Read = func(c *Config) error {
		if c.QueryLatent > 0 {
			return c.Errorf("q_lora_rank", "queries that follow from a latent vector are not supported in %s", c.Architectures[0])
		}
		return readKimi(c)
	}
	return f
}

// kimiExperts returns block with experts and shared ones, by Kimi Linear's names.
func kimiExperts(block []Tensor) []Tensor {
	return append(sharedExpert(mixtralExperts(block), "block_sparse_moe.shared_experts"),
		Tensor{Name: "exp_probs_b.bias", Source: "block_sparse_moe.gate.e_score_correction_bias"})
}

// kimiK3 describes the text part of Kimi K3: as Kimi Linear, with a residual that attends to its checkpoints, experts
// that are narrower than the residual, and gates of what latent attention reads.
func kimiK3() Family {
	f := deltaAttention("self_attn.", "self_attn.o_proj.weight", append(latentQueries(false),
		Tensor{Name: "ssm_f_a.weight", Source: "self_attn.f_a_proj.weight"},
		Tensor{Name: "ssm_f_b.weight", Source: "self_attn.f_b_proj.weight"},
		Tensor{Name: "ssm_g.weight", Source: "self_attn.g_proj.weight"},
		Tensor{Name: "attn_gate.weight", Source: "self_attn.g_proj.weight"},
		Tensor{Name: "attn_q.weight", Source: "self_attn.q_proj.weight", Optional: true},
		Tensor{Name: "attn_res_score.weight", Source: "self_attention_res_norm.weight self_attention_res_proj.weight", Change: Product},
		Tensor{Name: "ffn_res_score.weight", Source: "mlp_res_norm.weight mlp_res_proj.weight", Change: Product})...)
	f.Name, f.HuggingFace, f.Activation = "kimi-k3", []string{"KimiK3ForConditionalGeneration"}, compute.SiTU
	f.Block = append(kimiExperts(f.Block),
		Tensor{Name: "ffn_routed_down.weight", Source: "block_sparse_moe.routed_expert_down_proj.weight", Optional: true},
		Tensor{Name: "ffn_routed_up.weight", Source: "block_sparse_moe.routed_expert_up_proj.weight", Optional: true},
		Tensor{Name: "ffn_routed_norm.weight", Source: "block_sparse_moe.routed_expert_norm.weight", Optional: true})
	f.Outer = append(slices.Clone(f.Outer), Tensor{Name: "output_res_score.weight", Source: "output_attn_res_norm.weight output_attn_res_proj.weight", Change: Product})
	f.Root, f.Read, f.Experts.Normalised = textRoots(), readKimiK3, false
	return f
}

// deltaAttention describes what models with Kimi delta attention share; prefix and out are names of token mixers and of
// their last products on Hugging Face. more are the tensors that queries, decays and gates follow from.
func deltaAttention(prefix, out string, more ...Tensor) Family {
	f := llama()
	f.StateSpace, f.Latent, f.PartialRotary = true, true, true
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum, Counted: true}
	f.Block = slices.Concat([]Tensor{
		{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		{Name: "attn_k.weight", Source: prefix + "k_proj.weight"},
		{Name: "attn_v.weight", Source: prefix + "v_proj.weight"},
		{Name: "ssm_conv1d_q.weight", Source: prefix + "q_conv1d.weight", Change: Taps},
		{Name: "ssm_conv1d_k.weight", Source: prefix + "k_conv1d.weight", Change: Taps},
		{Name: "ssm_conv1d_v.weight", Source: prefix + "v_conv1d.weight", Change: Taps},
		{Name: "ssm_a", Source: prefix + "A_log", Change: NegatedExp},
		{Name: "ssm_dt.bias", Source: prefix + "dt_bias"},
		{Name: "ssm_beta.weight", Source: prefix + "b_proj.weight"},
		{Name: "ssm_norm.weight", Source: prefix + "o_norm.weight"},
		{Name: "attn_kv_a_mqa.weight", Source: prefix + "kv_a_proj_with_mqa.weight"},
		{Name: "attn_kv_a_norm.weight", Source: prefix + "kv_a_layernorm.weight"},
		{Name: "attn_k_b.weight", Source: prefix + "kv_b_proj.weight", Change: LatentKeys},
		{Name: "attn_v_b.weight", Source: prefix + "kv_b_proj.weight", Change: LatentValues},
		{Name: "attn_output.weight", Source: out},
		{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
	}, gatedLayer("mlp."), more)
	return f
}

// DeltaAttention reports whether recurrent layers are Kimi delta attention.
func (f *Family) DeltaAttention() bool {
	_, ok := f.InBlock("ssm_f_a.weight")
	return ok
}

// Lightning reports whether recurrent layers are lightning attention.
func (f *Family) Lightning() bool {
	_, norm := f.InBlock("attn_norm_2.weight")
	return norm && f.StateSpace && !f.TimeMixed()
}

// ofMixers returns the parts that have a token mixer's tensor, in families with names that recurrent layers and
// attention share.
func (f *Family) ofMixers(stem string) Part {
	switch {
	case stem == "attn_output", stem == "attn_q" && f.DeltaAttention():
		return Recurrent | Attention
	case f.DeltaAttention() && (stem == "attn_k" || stem == "attn_v"), f.Lightning() && (stem == "attn_qkv" || stem == "attn_gate" || stem == "attn_norm_2"):
		return Recurrent
	}
	return Attention
}

// Kimi are the keys of models with Kimi delta attention.
type Kimi struct {
	Linear *struct {
		Heads int     `json:"num_heads"`
		Dim   int     `json:"head_dim"`
		Taps  int     `json:"short_conv_kernel_size"`
		Full  []int   `json:"full_attn_layers"` // counted from 1
		Bound float64 `json:"gate_lower_bound"`
	} `json:"linear_attn_config"`
	ExpertsPerWord int    `json:"num_experts_per_token"`
	RouterScore    string `json:"moe_router_activation_func"`
	Unturned       *bool  `json:"mla_use_nope"`
	Renormalised   *bool  `json:"moe_renormalize"`

	// Kimi K3.
	RoutedWidth int     `json:"routed_expert_hidden_size"`
	SituGate    float64 `json:"activation_situ_beta"`
	SituUp      float64 `json:"activation_situ_linear_beta"`
	CheckEvery  int     `json:"attn_res_block_size"` // layers from one checkpoint of the residual to the next

	// Ling 3.
	LayerGroup   int       `json:"layer_group_size"`
	ShortTaps    int       `json:"short_conv_kernel_size"`
	LowRankless  bool      `json:"no_kda_lora"`
	SafeGate     bool      `json:"kda_safe_gate"`
	LowerBound   float64   `json:"kda_lower_bound"`
	GateOf       string    `json:"gated_attention_proj_granularity_type"`
	RouterLimits []float64 `json:"expert_swiglu_limit_list"`
	SharedLimits []float64 `json:"share_expert_swiglu_limit_list"`
}

func readKimi(c *Config) error {
	l := c.Linear
	switch {
	case l == nil:
		return c.Errorf("linear_attn_config", "it is missing")
	case l.Heads != c.Heads:
		return c.Errorf("linear_attn_config", "%d heads of delta attention beside %d of latent attention are not supported", l.Heads, c.Heads)
	}
	c.refuse(!or(c.Unturned, true), "mla_use_nope", "latent attention whose keys are rotated is not supported in %s", c.Architectures[0])
	c.refuse(c.RouterScore != "" && c.RouterScore != "sigmoid", "moe_router_activation_func", "%q is not supported; sigmoid is", c.RouterScore)
	c.ExpertsPerToken, c.RoutedExperts, c.SharedExperts, c.NormTopK = c.ExpertsPerWord, c.NumExperts, c.sharedCount(0), c.Renormalised
	return c.readDeltaAttention(l.Dim, l.Taps, func(layer int) bool { return slices.Contains(l.Full, layer+1) })
}

func readKimiK3(c *Config) error {
	if c.Linear != nil {
		c.LowerBound = c.Linear.Bound
	}
	k := &c.Kimi
	switch {
	case k.CheckEvery < 1 || k.CheckEvery > 1<<12:
		return c.Errorf("attn_res_block_size", "%d is not a number of layers", k.CheckEvery)
	case !(k.SituGate > 0):
		return c.Errorf("activation_situ_beta", "%g is not a limit", k.SituGate)
	case c.LowerBound > 0:
		return c.Errorf("gate_lower_bound", "%g bounds no decay", c.LowerBound)
	}
	err := readKimi(c)
	c.Mixture.Latent = k.RoutedWidth
	return err
}

// readDeltaAttention is readKimi for heads of dim elements and convolutions with that many taps. full says which layers
// have latent attention.
func (c *Config) readDeltaAttention(dim, taps int, full func(layer int) bool) error {
	if dim < 1 || dim > 1<<12 || c.Heads < 1 || c.Heads > 1<<12 {
		return c.Errorf("head_dim", "%d heads of %d elements are not supported in delta attention", c.Heads, dim)
	}
	for l := range max(0, min(c.Layers, 1<<12)) {
		part := Recurrent
		if full(l) {
			part = Attention
		}
		c.LayerParts = append(c.LayerParts, part|FeedForward)
	}
	c.StateSpace = StateSpace{Inner: c.Heads * dim, StateSize: dim, StateHeads: c.Heads, Groups: c.Heads, Taps: taps}
	if err := readLatent(c); err != nil {
		return err
	}
	if err := c.routed(); err != nil {
		return err
	}
	return readLlama(c)
}
