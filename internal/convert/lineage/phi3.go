package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// phi3 describes Phi-3, 3.5 and 4: q, k and v are one tensor, gates and ups another; a sliding window; long contexts
// divide frequencies by factors of their own. llama.cpp reads the same files and does not apply the window.
func phi3() Family {
	return Family{
		Name: "phi3", HuggingFace: []string{"Phi3ForCausalLM"},
		Rotation: HalvesApart, PartialRotary: true, Gated: true, FusedGate: true, Window: true, Activation: compute.SiLU, MaxContext: 4096,
		Root: []string{"model."}, Layer: "layers.%d.",
		Outer: []Tensor{
			{Name: "token_embd.weight", Source: "embed_tokens.weight"},
			{Name: "output_norm.weight", Source: "norm.weight"},
			{Name: "rope_factors_long.weight", Optional: true, Change: Computed},
			{Name: "rope_factors_short.weight", Optional: true, Change: Computed},
		},
		Block: []Tensor{
			{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
			{Name: "attn_qkv.weight", Source: "self_attn.qkv_proj.weight"},
			{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
			{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
			{Name: "ffn_up.weight", Source: "mlp.gate_up_proj.weight"},
			{Name: "ffn_down.weight", Source: "mlp.down_proj.weight"},
		},
		Read: readPhi3,
	}
}

func readPhi3(c *Config) error {
	for _, s := range []*RopeScaling{c.RopeScale, c.Rope} {
		if s != nil && s.Original == 0 {
			s.Original = c.Original
		}
	}
	return readLlama(c)
}
