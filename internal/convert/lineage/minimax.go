package lineage

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// minimaxM2 describes MiniMax M2: experts scored by a sigmoid, with a bias that counts for the choice only, norms of q
// and k over all heads together, and partly rotated heads.
func minimaxM2() Family {
	f := llama()
	f.Name, f.HuggingFace = "minimax-m2", []string{"MiniMaxM2ForCausalLM"}
	f.Rotation, f.PartialRotary = HalvesApart, true
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum}
	f.Block = append(mixtralExperts(headNorms(llamaBlock(Same))),
		Tensor{Name: "exp_probs_b.bias", Source: "block_sparse_moe.e_score_correction_bias"})
	f.Read = func(c *Config) error {
		c.refuse(c.Scoring != "" && c.Scoring != "sigmoid", "scoring_func", "%q is not supported in MiniMax M2; sigmoid is", c.Scoring)
		c.mixture(c.FF)
		c.rotatesDims()
		return readLlama(c)
	}
	return f
}

// minimax01 describes MiniMax-Text-01 and MiniMax-M1: lightning attention in most layers, softmax attention at regular
// intervals, and experts in all.
func minimax01() Family {
	f := llama()
	f.Name, f.HuggingFace = "minimax-01", []string{"MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"}
	f.Rotation, f.PartialRotary, f.StateSpace = HalvesApart, true, true
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.Block = with(mixtralExperts(without(llamaBlock(Same), insteadOfExperts...)),
		Tensor{Name: "attn_output.weight", Source: "self_attn.o_proj.weight self_attn.out_proj.weight"},
		Tensor{Name: "attn_qkv.weight", Source: "self_attn.qkv_proj.weight"},
		Tensor{Name: "attn_gate.weight", Source: "self_attn.output_gate.weight"},
		Tensor{Name: "attn_norm_2.weight", Source: "self_attn.norm.weight"})
	f.Read = readMiniMax01
	return f
}

// MiniMax01 are the keys of that family's configuration.
type MiniMax01 struct {
	AttnTypes  []int   `json:"attn_type_list"` // 0 of layers with lightning attention
	FullAlpha  float64 `json:"layernorm_full_attention_alpha"`
	LinearAlpa float64 `json:"layernorm_linear_attention_alpha"`
	MLPAlpha   float64 `json:"layernorm_mlp_alpha"`
	FullBeta   float64 `json:"layernorm_full_attention_beta"`
	LinearBeta float64 `json:"layernorm_linear_attention_beta"`
	MLPBeta    float64 `json:"layernorm_mlp_beta"`
	PostNorm   bool    `json:"postnorm"`
}

func readMiniMax01(c *Config) error {
	m := &c.MiniMax01
	one := func(v float64) bool { return v == 0 || v == 1 }
	switch {
	case len(m.AttnTypes) != c.Layers:
		return c.Errorf("attn_type_list", "%d for %d layers", len(m.AttnTypes), c.Layers)
	case !m.PostNorm:
		return c.Errorf("postnorm", "what parts give is added to the residual itself, which is not supported in %s", c.Architectures[0])
	case m.FullAlpha != m.LinearAlpa || m.FullAlpha != m.MLPAlpha || !(m.FullAlpha > 0):
		return c.Errorf("layernorm_full_attention_alpha", "factors that differ between parts are not supported")
	case !one(m.FullBeta) || !one(m.LinearBeta) || !one(m.MLPBeta):
		return c.Errorf("layernorm_full_attention_beta", "factors of what parts give are not supported")
	}
	c.mixture(c.FF)
	for _, t := range m.AttnTypes {
		part := Attention
		if t == 0 {
			part = Recurrent
		}
		c.LayerParts = append(c.LayerParts, part|FeedForward)
	}
	c.rotatesDims()
	if err := readLlama(c); err != nil {
		return err
	}
	c.StateSpace = StateSpace{Inner: c.Heads * c.HeadDim, StateSize: c.HeadDim, StateHeads: c.Heads, Groups: c.Heads}
	return nil
}
