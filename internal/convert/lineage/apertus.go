package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// apertus describes Apertus: norms of each head of queries and keys, and xIELU without a gate, with its own parameters
// in each layer.
func apertus() Family {
	f := llama()
	f.Name, f.HuggingFace = "apertus", []string{"ApertusForCausalLM"}
	f.Rotation, f.Gated, f.Activation = HalvesApart, false, compute.XIELU
	for _, name := range []string{"alpha_p", "alpha_n", "beta", "eps"} {
		f.Outer = append(f.Outer, Tensor{Name: "xielu." + name, Source: "mlp.act_fn." + name, Change: LayerNumbers})
	}
	f.Block = ungated(headNorms(with(llamaBlock(Same),
		Tensor{Name: "attn_norm.weight", Source: "attention_layernorm.weight input_layernorm.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "feedforward_layernorm.weight post_attention_layernorm.weight"})))
	f.Read = func(c *Config) error {
		c.Act, c.RMSEps = cmp.Or(c.Act, f.Activation.String()), cmp.Or(c.RMSEps, 1e-5)
		if c.Act != f.Activation.String() {
			return c.Errorf("hidden_act", "%q is not supported in Apertus; %s is", c.Act, f.Activation)
		}
		return readLlama(c)
	}
	return f
}

// bitNet describes BitNet b1.58: norms before the last products of attention and of feed-forward layers, and matrices
// of three values. Folders hold the training weights; conversion rounds them.
func bitNet() Family {
	f := llama()
	f.Name, f.HuggingFace = "bitnet", []string{"BitNetForCausalLM", "BitnetForCausalLM"}
	f.Rotation, f.AlwaysTied = HalvesApart, true
	f.Block = with(changed(without(llamaBlock(Same), "*.bias"), Ternary, "attn_[qkvo]*", "ffn_[gud]*"),
		Tensor{Name: "attn_sub_norm.weight", Source: "self_attn.attn_sub_norm.weight self_attn.inner_attn_ln.weight"},
		Tensor{Name: "ffn_sub_norm.weight", Source: "mlp.ffn_sub_norm.weight mlp.ffn_layernorm.weight"})
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		c.Tied = new(true)
		return readLlama(c)
	}
	return f
}
