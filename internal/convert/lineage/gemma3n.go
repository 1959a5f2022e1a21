package lineage

import (
	"cmp"
	"encoding/json"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Gemma 3n's defaults, which GGUF files need not say.
const (
	gemma3nFullEvery = 5 // layers
	gemma3nKV        = 20
	gemma3nWindow    = 512
	gemma3nInput     = 256
	gemma3nRank      = 64
)

// gemma3n describes the text part of Gemma 3n: Gemma 3's block with a residual of four streams (AltUp), a low-rank path
// parallel to attention (LAuReL), an embedding of each token for each layer, keys and values that the last layers
// share, and gates in the first layers that are exactly zero except for the largest.
func gemma3n() Family {
	f := gemma3()
	f.Name, f.HuggingFace = "gemma3n", []string{"Gemma3nForConditionalGeneration", "Gemma3nForCausalLM"}
	f.FullEvery, f.ScoreScale = gemma3nFullEvery, 1
	f.UsualWindow = gemma3nWindow
	f.SharedKV, f.LayerInputs, f.AltUp, f.TopK = true, true, true, true
	f.Outer = append(llamaOuter(), layerInputs(false)...)
	f.Outer = append(f.Outer,
		Tensor{Name: "altup_proj.weight", Source: "altup_projections.%d.weight", Change: Stacked},
		Tensor{Name: "altup_unembd_proj.weight", Source: "altup_unembed_projections.%d.weight", Change: Stacked})
	f.Block = append(headNorms(bothNorms(llamaBlock(Same))), layerInput(false)...)
	f.Block = append(f.Block,
		Tensor{Name: "altup_router_norm.weight", Source: "altup.router_norm.weight"},
		Tensor{Name: "altup_router.weight", Source: "altup.modality_router.weight"},
		Tensor{Name: "altup_predict_coef.weight", Source: "altup.prediction_coefs.weight"},
		Tensor{Name: "altup_correct_coef.weight", Source: "altup.correction_coefs.weight"},
		Tensor{Name: "altup_correct_scale.weight", Source: "altup.correct_output_scale"},
		Tensor{Name: "laurel_l.weight", Source: "laurel.linear_left.weight"},
		Tensor{Name: "laurel_r.weight", Source: "laurel.linear_right.weight"},
		Tensor{Name: "laurel_post_norm.weight", Source: "laurel.post_laurel_norm.weight"})
	f.Read = readGemma3n
	return f
}

// layerInputs returns the tensors from which every layer's own embeddings follow.
func layerInputs(optional bool) []Tensor {
	return []Tensor{
		{Name: "per_layer_token_embd.weight", Source: "embed_tokens_per_layer.weight", Optional: optional},
		{Name: "per_layer_model_proj.weight", Source: "per_layer_model_projection.weight", Optional: optional},
		{Name: "per_layer_proj_norm.weight", Source: "per_layer_projection_norm.weight", Optional: optional},
	}
}

// layerInput returns the tensors of a block that reads its own embeddings.
func layerInput(optional bool) []Tensor {
	return []Tensor{
		{Name: "inp_gate.weight", Source: "per_layer_input_gate.weight", Optional: optional},
		{Name: "proj.weight", Source: "per_layer_projection.weight", Optional: optional},
		{Name: "post_norm.weight", Source: "post_per_layer_input_norm.weight", Optional: optional},
	}
}

func readGemma3n(c *Config) error {
	c.Window, c.Input, c.LowRank = cmp.Or(c.Window, gemma3nWindow), cmp.Or(c.Input, gemma3nInput), cmp.Or(c.LowRank, gemma3nRank)
	if n := cmp.Or(c.Streams, compute.AltUpStreams); n != compute.AltUpStreams {
		return c.Errorf("altup_num_inputs", "%d streams of the residual are not supported; %d are", n, compute.AltUpStreams)
	}
	c.Streams = compute.AltUpStreams
	if c.ActiveStream < 0 || c.ActiveStream >= compute.AltUpStreams {
		return c.Errorf("altup_active_idx", "%d is none of %d streams", c.ActiveStream, compute.AltUpStreams)
	}
	if !or(c.ScaledCorrection, true) {
		return c.Errorf("altup_correct_scale", "corrections that are not scaled are not supported")
	}
	shared := c.SharedKV // 0 is what it says
	if shared == nil {
		n := 15
		shared = &n
	}
	c.SharedKV = shared
	c.QueryScalar = 0 // scores are not scaled
	return readGemma3(c)
}

// Gemma3nKeys are the keys of Gemma 3n and 4.
type Gemma3nKeys struct {
	Widths           Counts          `json:"intermediate_size"` // for each layer, or for all; FF is the largest
	Streams          int             `json:"altup_num_inputs"`
	ActiveStream     int             `json:"altup_active_idx"`
	ScaledCorrection *bool           `json:"altup_correct_scale"`
	LowRank          int             `json:"laurel_rank"`
	Input            int             `json:"hidden_size_per_layer_input"`
	InputVocab       int             `json:"vocab_size_per_layer_input"` // rows of the table of layers' embeddings, if fewer than the vocabulary
	SharedKV         *int            `json:"num_kv_shared_layers"`
	GateSparsity     json.RawMessage `json:"activation_sparsity_pattern"` // share of gates that are zero: a number, or one for each layer
	GlobalHead       int             `json:"global_head_dim"`             // for layers without a window
	GlobalKV         int             `json:"num_global_key_value_heads"`
	Wider            bool            `json:"use_double_wide_mlp"` // layers that share keys and values have twice as many neurons
	Experts          bool            `json:"enable_moe_block"`
	TopExperts       int             `json:"top_k_experts"` // that a token uses
}
