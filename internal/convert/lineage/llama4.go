package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// What GGUF files of Llama 4 do not tell.
const (
	llama4FullEvery   = 4    // layers
	llama4Part        = 8192 // positions
	llama4Temperature = 0.1
	llama4Unnormed    = 128 // experts of Maverick, which has no norms of queries and keys
)

// llama4 describes the text part of Llama 4: one expert of many, chosen by a sigmoid that multiplies the expert's
// input, and a shared one, in all layers or every second. Three of four layers have chunked attention, with rotated
// queries and keys, normed without weights. The fourth sees all positions and is not rotated, and its queries grow with
// their position.
func llama4() Family {
	f := llama()
	f.Name, f.HuggingFace = "llama4", []string{"Llama4ForConditionalGeneration", "Llama4ForCausalLM"}
	f.Root, f.MaxContext = textRoots(), 131072
	f.Window, f.FullEvery, f.UsualWindow = true, llama4FullEvery, llama4Part
	f.Experts = &Experts{Score: compute.Sigmoid, Before: true, SharedAsWide: true}
	const ffn = "feed_forward."
	f.Block = append(sharedExpert(with(llamaBlock(Same), gatedLayer(ffn)...), ffn+"shared_expert"),
		Tensor{Name: "ffn_gate_inp.weight", Source: ffn + "router.weight"},
		Tensor{Name: "ffn_gate_exps.weight", Source: ffn + "experts.gate_up_proj", Change: FirstOutputs},
		Tensor{Name: "ffn_up_exps.weight", Source: ffn + "experts.gate_up_proj", Change: SecondOutputs},
		Tensor{Name: "ffn_down_exps.weight", Source: ffn + "experts.down_proj", Change: Outputs})
	f.Read = readLlama4
	return f
}

func readLlama4(c *Config) error {
	width := c.FF
	c.FF, c.Widths = cmp.Or(c.DenseWidth, c.FF), nil
	c.Mixture = Mixture{Count: c.LocalExperts, Used: cmp.Or(c.ExpertsPerToken, 1), Width: width, Shared: width, Every: max(1, c.MixedEvery)}
	for i, l := range c.MixedLayers {
		if l != (i+1)*c.Mixture.Every-1 {
			return c.Errorf("moe_layers", "layer %d: only every %dth layer may have experts, as interleave_moe_layer_step says", l, c.Mixture.Every)
		}
	}
	for l, rotated := range c.NoRope {
		if (rotated == 0) != ((l+1)%llama4FullEvery == 0) {
			return c.Errorf("no_rope_layers", "layer %d: every %dth layer must be without a rotation, and only those, as GGUF files have it", l, llama4FullEvery)
		}
	}
	for l, kind := range c.LayerTypes {
		if (kind == "full_attention") != ((l+1)%llama4FullEvery == 0) {
			return c.Errorf("layer_types", "layer %d: every %dth layer must see all positions, and only those, as GGUF files have it", l, llama4FullEvery)
		}
	}
	c.Window, c.LayerTypes = cmp.Or(c.ChunkSize, llama4Part), nil
	switch v, set := c.Temperatures.(bool); {
	case c.QueryNorm == (c.Mixture.Count == llama4Unnormed):
		return c.Errorf("use_qk_norm", "%v with %d experts is not supported, as GGUF files do not tell it", c.QueryNorm, c.Mixture.Count)
	case set && !v || c.Temperatures == 0.0:
		return c.Errorf("attn_temperature_tuning", "queries that do not grow with their position are not supported, as GGUF files do not tell it")
	case or(c.TempFloor, llama4Part) != llama4Part || or(c.TempScale, llama4Temperature) != llama4Temperature:
		return c.Errorf("floor_scale", "other numbers than %d, and %g of attn_scale, are not supported, as GGUF files do not tell them", llama4Part, llama4Temperature)
	}
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, false)
	return nil
}

// Llama4Keys are Llama 4's keys.
type Llama4Keys struct {
	DenseWidth   int      `json:"intermediate_size_mlp"` // for layers without experts
	ChunkSize    int      `json:"attention_chunk_size"`
	MixedEvery   int      `json:"interleave_moe_layer_step"`
	MixedLayers  []int    `json:"moe_layers"`
	Temperatures any      `json:"attn_temperature_tuning"` // a number or a bool
	TempFloor    *float64 `json:"floor_scale"`
	TempScale    *float64 `json:"attn_scale"`
}
