package lineage

import (
	"cmp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// lfm2 describes LFM2 and LFM2.5: most layers are short convolutions with gates, the others have attention with normed
// queries and keys.
func lfm2() Family {
	f := llama()
	f.Name, f.HuggingFace = "lfm2", []string{"Lfm2ForCausalLM", "LFM2ForCausalLM", "Lfm2VlForConditionalGeneration"}
	f.Rotation, f.StateSpace, f.ShortConv, f.MaxContext = HalvesApart, true, true, 128000
	f.Root = textRoots()
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embed_tokens.weight"},
		{Name: "token_embd_norm.weight", Source: "embedding_norm.weight"},
	}
	const attention, mlp, conv = "self_attn.", "feed_forward.", "conv."
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "operator_norm.weight"},
		{Name: "attn_q.weight", Source: attention + "q_proj.weight"},
		{Name: "attn_k.weight", Source: attention + "k_proj.weight"},
		{Name: "attn_v.weight", Source: attention + "v_proj.weight"},
		{Name: "attn_q_norm.weight", Source: attention + "q_layernorm.weight"},
		{Name: "attn_k_norm.weight", Source: attention + "k_layernorm.weight"},
		{Name: "attn_output.weight", Source: attention + "out_proj.weight"},
		{Name: "shortconv.in_proj.weight", Source: conv + "in_proj.weight"},
		{Name: "shortconv.conv.weight", Source: conv + "conv.weight", Change: Taps},
		{Name: "shortconv.out_proj.weight", Source: conv + "out_proj.weight"},
		{Name: "ffn_norm.weight", Source: "ffn_norm.weight"},
		{Name: "ffn_gate.weight", Source: mlp + "w1.weight"},
		{Name: "ffn_up.weight", Source: mlp + "w3.weight"},
		{Name: "ffn_down.weight", Source: mlp + "w2.weight"},
	}
	f.Read = readLFM2
	return f
}

// lfm2MoE describes LFM2's models with experts, which a sigmoid weighs and a bias helps to choose; the first layers
// have none.
func lfm2MoE() Family {
	f := lfm2()
	f.Name, f.HuggingFace = "lfm2moe", []string{"Lfm2MoeForCausalLM"}
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum}
	const mlp, expert = "feed_forward.", "feed_forward.experts.%d."
	f.Block = append(withExperts(f.Block, mlp+"gate.weight", expert+"w1.weight", expert+"w3.weight", expert+"w2.weight"),
		Tensor{Name: "exp_probs_b.bias", Source: mlp + "expert_bias"})
	f.Read = func(c *Config) error {
		c.LFM2.Adjusted = new(bool) // dense layers are as wide as the configuration says
		if err := readLFM2(c); err != nil {
			return err
		}
		c.mixture(c.ExpertWidth)
		c.Mixture.First, c.Mixture.Scale = c.LFM2.Dense, c.ExpertScale
		if or(c.LFM2.Biased, true) {
			return nil
		}
		return c.Errorf("use_expert_bias", "experts chosen without a bias are not supported, as llama.cpp reads no such file")
	}
	return f
}

// LFM2 are the keys of that family's configuration which others do not have.
type LFM2 struct {
	Taps       int      `json:"conv_L_cache"`
	ConvBias   bool     `json:"conv_bias"`
	Width      int      `json:"block_ff_dim"` // in place of intermediate_size
	Adjusted   *bool    `json:"block_auto_adjust_ff_dim"`
	Multiplier *float64 `json:"block_ffn_dim_multiplier"`
	Multiple   int      `json:"block_multiple_of"`
	Attention  []int    `json:"full_attn_idxs"` // in older folders: the layers with attention
	TiedOld    *bool    `json:"tie_embedding"`
	Dense      int      `json:"num_dense_layers"` // in models with experts: the first layers without them
	Biased     *bool    `json:"use_expert_bias"`
}

func readLFM2(c *Config) error {
	o := &c.LFM2
	c.refuse(o.ConvBias, "conv_bias", "biases of convolutions are not supported, as GGUF files have none")
	kinds := c.LayerTypes
	if kinds == nil {
		for l := range min(c.Layers, 1<<12) {
			kind := "conv"
			if o.Attention == nil || slices.Contains(o.Attention, l) {
				kind = "full_attention"
			}
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) != c.Layers {
		return c.Errorf("layer_types", "it names %d layers of %d", len(kinds), c.Layers)
	}
	for l, kind := range kinds {
		switch kind {
		case "conv":
			c.LayerParts = append(c.LayerParts, Recurrent|FeedForward)
		case "full_attention":
			c.LayerParts = append(c.LayerParts, Attention|FeedForward)
		default:
			return c.Errorf("layer_types", "layer %d of the kind %q is not supported; conv and full_attention are", l, kind)
		}
	}
	c.LayerTypes = nil
	c.StateSpace = StateSpace{Inner: c.Hidden, Taps: cmp.Or(o.Taps, 3)}
	c.FF, c.Widths = o.neurons(cmp.Or(o.Width, c.FF)), nil
	if c.Rope == nil {
		c.RopeTheta = cmp.Or(c.RopeTheta, 1e6)
	}
	c.epsilon("norm_eps", c.NormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, or(o.TiedOld, true))
	return nil
}

// neurons returns the width of feed-forward layers: if the configuration says so, two thirds of its width, rounded to a
// multiple of Multiple.
func (o *LFM2) neurons(n int) int {
	if !or(o.Adjusted, true) {
		return n
	}
	n = int(or(o.Multiplier, 1) * float64(2*n/3))
	multiple := max(1, cmp.Or(o.Multiple, 256))
	return (n + multiple - 1) / multiple * multiple
}
