package lineage

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// nomicBERT describes Nomic's embeddings: rotated heads, q, k and v in one tensor, gates, and no biases but the norms'.
func nomicBERT() Family {
	f := encoder()
	f.Name, f.HuggingFace = "nomic-bert", []string{"NomicBertModel"}
	f.Rotation, f.Gated, f.Activation, f.MaxContext = HalvesApart, true, compute.SiLU, 2048
	f.Layer = "encoder.layers.%d."
	f.Outer = typedEmbedding()
	f.Block = []Tensor{
		{Name: "attn_qkv.weight", Source: "attn.Wqkv.weight"},
		{Name: "attn_output.weight", Source: "attn.out_proj.weight"},
		{Name: "attn_output_norm.weight", Source: "norm1.weight"},
		{Name: "attn_output_norm.bias", Source: "norm1.bias"},
		{Name: "ffn_gate.weight", Source: "mlp.fc12.weight"},
		{Name: "ffn_up.weight", Source: "mlp.fc11.weight"},
		{Name: "ffn_down.weight", Source: "mlp.fc2.weight"},
		{Name: "layer_output_norm.weight", Source: "norm2.weight"},
		{Name: "layer_output_norm.bias", Source: "norm2.bias"},
	}
	f.Really = func(c *Config) string {
		if c.ExpertsEvery > 0 {
			return "nomic-bert-moe"
		}
		return ""
	}
	f.Read = readNomic
	return f
}

// nomicBERTMoE describes version 2: biases, no gates, and in every second layer experts, which a softmax over all of
// them weighs. A bias that all experts of a layer share is left out, as GGUF files have none.
func nomicBERTMoE() Family {
	f := nomicBERT()
	f.Name, f.HuggingFace, f.Really = "nomic-bert-moe", nil, nil
	f.Gated, f.Activation = false, compute.GELU
	f.Experts, f.Buffers = &Experts{MinSum: leastSum}, append(slices.Clone(f.Buffers), "mlp.experts.bias")
	const experts = "mlp.experts.mlp."
	f.Block = append(without(f.Block, "ffn_*"),
		Tensor{Name: "attn_qkv.bias", Source: "attn.Wqkv.bias", Optional: true},
		Tensor{Name: "attn_output.bias", Source: "attn.out_proj.bias", Optional: true},
		Tensor{Name: "ffn_up.weight", Source: "mlp.fc1.weight"},
		Tensor{Name: "ffn_up.bias", Source: "mlp.fc1.bias", Optional: true},
		Tensor{Name: "ffn_down.weight", Source: "mlp.fc2.weight"},
		Tensor{Name: "ffn_down.bias", Source: "mlp.fc2.bias", Optional: true},
		Tensor{Name: "ffn_gate_inp.weight", Source: "mlp.router.layer.weight"},
		Tensor{Name: "ffn_up_exps.weight", Source: experts + "w1", Change: Joined},
		Tensor{Name: "ffn_down_exps.weight", Source: experts + "w2", Change: JoinedColumns})
	return f
}

// Training sizes of Nomic's version 2: its configuration has more positions, and GGUF files take every second layer for
// one with experts.
const (
	nomicMixedContext = 512
	nomicMixedEvery   = 2
)

func readNomic(c *Config) error {
	mixed, act := c.ExpertsEvery > 0, "swiglu"
	if mixed {
		act = "gelu"
	}
	switch {
	case mixed && c.ExpertsEvery != nomicMixedEvery:
		return c.Errorf("moe_every_n_layers", "%d is not supported in Nomic's embeddings; %d is", c.ExpertsEvery, nomicMixedEvery)
	case mixed && c.NormalisedMoE:
		return c.Errorf("moe_normalize_expert_weights", "weights of experts that are divided by their norm are not supported in Nomic's embeddings")
	case c.OPTAct != act:
		return c.Errorf("activation_function", "%q is not supported in these embeddings of Nomic's; %s is", c.OPTAct, act)
	case c.PreNorm || c.TurnNeighbours:
		return c.Errorf("prenorm", "prenorm and rotary_emb_interleaved must be false in Nomic's embeddings")
	case !mixed && (c.QKVBias || c.FirstBias || c.SecondBias):
		return c.Errorf("qkv_proj_bias", "qkv_proj_bias, mlp_fc1_bias and mlp_fc2_bias must be false in Nomic's embeddings without experts")
	case c.RotaryFraction != 0 && c.RotaryFraction != 1:
		return c.Errorf("rotary_emb_fraction", "%g is not supported in Nomic's embeddings; 1 is", c.RotaryFraction)
	}
	c.Hidden, c.Layers, c.Heads, c.FF = c.OldHidden, c.OldLayers, c.OldHeads, c.Inner
	if c.Context = c.Positions; c.Trained > 0 {
		c.Context = min(c.Context, c.Trained)
	}
	c.RopeTheta, c.OldLayerNormEps = c.RotaryBase, c.LayerNormEps
	if err := readEncoder(c); err != nil {
		return err
	}
	if !mixed {
		c.nonlinearity("activation_function", "silu", "")
		return nil
	}
	c.nonlinearity("activation_function", act, "")
	c.Context = min(c.Context, nomicMixedContext)
	c.Mixture = Mixture{Count: c.NumExperts, Used: c.NomicUsed, Width: c.FF, Every: nomicMixedEvery}
	return nil
}

// NomicKeys are the keys of Nomic's embeddings.
type NomicKeys struct {
	RotaryFraction float64 `json:"rotary_emb_fraction"`
	TurnNeighbours bool    `json:"rotary_emb_interleaved"`
	QKVBias        bool    `json:"qkv_proj_bias"`
	FirstBias      bool    `json:"mlp_fc1_bias"`
	SecondBias     bool    `json:"mlp_fc2_bias"`
	PreNorm        bool    `json:"prenorm"`
	Trained        int     `json:"max_trained_positions"`
	ExpertsEvery   int     `json:"moe_every_n_layers"`
	NomicUsed      int     `json:"moe_top_k"`
	NormalisedMoE  bool    `json:"moe_normalize_expert_weights"`
}
