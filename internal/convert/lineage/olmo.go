package lineage

import (
	"slices"
	"strings"
)

// olmo describes OLMo 1: llama with LayerNorms that have neither weights nor biases.
func olmo() Family {
	f := llama()
	f.Name, f.HuggingFace = "olmo", []string{"OlmoForCausalLM"}
	f.LayerNorm, f.BareNorms, f.Clamped = true, true, true
	norm := func(t Tensor) bool { return strings.Contains(t.Name, "_norm.") }
	f.Outer, f.Block = slices.DeleteFunc(f.Outer, norm), slices.DeleteFunc(f.Block, norm)
	f.Block = replaced(f.Block, "attn_output.bias")
	f.Read = func(c *Config) error {
		c.epsilon("layer_norm_eps", 0, 1e-5) // which configurations do not tell
		c.nonlinearity("hidden_act", c.Act, "silu")
		c.Clamp = or(c.ClipQKV, 0)
		c.TiedHead = or(c.Tied, false)
		return nil
	}
	return f
}
