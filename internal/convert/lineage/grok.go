package lineage

import (
	"cmp"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Grok are keys of that family's configuration.
type Grok struct {
	InputScale  float64  `json:"embedding_multiplier_scale"`
	OutputScale float64  `json:"output_multiplier_scale"` // factor of logits
	Products    float64  `json:"attn_output_multiplier"`  // factor of the scores q·k
	TurnKind    string   `json:"rope_type"`
	TurnFactor  float64  `json:"scaling_factor"`
	TurnFast    float64  `json:"beta_fast"`
	TurnSlow    float64  `json:"beta_slow"`
	TurnSize    *float64 `json:"attn_factor"`
	TurnShare   *float64 `json:"extrapolation_factor"`
}

// grok describes Grok 2: norms before and after attention and experts, GEGLU experts and one that all tokens use, soft
// caps, and factors of embeddings, scores and logits. GGUF files of Grok 1 lack the expert that all tokens use.
func grok() Family {
	f := llama()
	f.Name, f.HuggingFace = "grok", []string{"Grok1ForCausalLM", "GrokForCausalLM"}
	f.Rotation, f.Activation, f.ScaledLogits = HalvesApart, compute.GELU, true
	f.ProductScale = true
	f.Experts = &Experts{Normalised: true, MinSum: leastSum, Beside: true}
	const experts = "block_sparse_moe.experts.%d."
	f.Block = withExperts([]Tensor{
		{Name: "attn_norm.weight", Source: "pre_attn_norm.weight"},
		{Name: "attn_q.weight", Source: "self_attn.q_proj.weight"},
		{Name: "attn_k.weight", Source: "self_attn.k_proj.weight"},
		{Name: "attn_v.weight", Source: "self_attn.v_proj.weight"},
		{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
		{Name: "attn_output_norm.weight", Source: "post_attn_norm.weight"},
		{Name: "ffn_norm.weight", Source: "pre_moe_norm.weight"},
		{Name: "ffn_gate.weight", Source: "mlp.gate_proj.weight"},
		{Name: "ffn_up.weight", Source: "mlp.up_proj.weight"},
		{Name: "ffn_down.weight", Source: "mlp.down_proj.weight"},
		{Name: "post_ffw_norm.weight", Source: "post_moe_norm.weight"},
	}, "block_sparse_moe.gate.weight", experts+"w1.weight", experts+"w3.weight", experts+"w2.weight")
	f.Read = readGrok
	return f
}

func readGrok(c *Config) error {
	c.mixture(cmp.Or(c.ExpertWidth, c.FF))
	if c.TurnKind == "yarn" || c.TurnKind == "original" { // the latter means the same
		if or(c.TurnSize, 1) != 1 || or(c.TurnShare, 1) != 1 {
			return c.Errorf("attn_factor", "%g, and extrapolation_factor %g, other than 1 are not supported", or(c.TurnSize, 1), or(c.TurnShare, 1))
		}
		c.RopeScale = &RopeScaling{Type: "yarn", Factor: c.TurnFactor, Original: c.Original, BetaFast: cmp.Or(c.TurnFast, 8), BetaSlow: cmp.Or(c.TurnSlow, 1)}
	}
	if c.ScoreCap == nil {
		usual := 30.0
		c.ScoreCap = &usual
	}
	if c.Heads > 0 {
		c.Products = cmp.Or(c.Products, 1/math.Sqrt(float64(cmp.Or(c.HeadDim, c.Hidden/c.Heads))))
	}
	c.LogitFactor = c.OutputScale
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu")
	c.TiedHead = or(c.Tied, false)
	return nil
}
