package lineage

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// llama describes Llama 1 to 3, Mistral and their kin, ProSparse and TurboSparse among them, without experts: the
// families that are made from this one do not share those. mixtral adds them. Folders of embeddings may lack the prefix
// and the head.
func llama() Family {
	return Family{
		Name: "llama", HuggingFace: []string{"LlamaForCausalLM", "SparseLlamaForCausalLM", "MistralForCausalLM", "InternLM3ForCausalLM", "LlamaModel", "MistralModel"},
		Rotation: Neighbours, Gated: true, Activation: compute.SiLU, MaxContext: 4096,
		Root: []string{"model.", ""}, Layer: "layers.%d.",
		Outer: llamaOuter(), Block: llamaBlock(Pairs), Read: readLlama,
	}
}

// mixtral describes the family that files call llama: the models of the function llama, and those with experts, such as
// Mixtral and TurboSparse-Mixtral, whose activation is dReLU.
func mixtral() Family {
	f := llama()
	f.HuggingFace = append(f.HuggingFace, "MixtralForCausalLM", turboSparse)
	const experts = "block_sparse_moe.experts.%d."
	f.Experts = &Experts{Optional: true, Normalised: true, MinSum: leastSum, Predictor: experts + "predictor."}
	f.Block = withExperts(f.Block, "block_sparse_moe.gate.weight", experts+"w1.weight", experts+"w3.weight", experts+"w2.weight")
	f.Read = func(c *Config) error {
		c.mixture(c.FF)
		if slices.Contains(c.Architectures, turboSparse) {
			if c.Act != "" && c.Act != "relu" {
				return c.Errorf("hidden_act", "%q is not supported in TurboSparse-Mixtral; relu is, of gates and of ups", c.Act)
			}
			c.Act = compute.DReLU.String()
		}
		return readLlama(c)
	}
	return f
}

// turboSparse is the Hugging Face architecture of TurboSparse-Mixtral.
const turboSparse = "TurboSparseMixtralForCausalLM"

func llamaOuter() []Tensor {
	return []Tensor{
		{Name: "token_embd.weight", Source: "embed_tokens.weight"},
		{Name: "output_norm.weight", Source: "norm.weight"},
		{Name: "rope_freqs.weight", Optional: true, Change: Computed},
	}
}

// llamaBlock returns the tensors of a block; q and k change so that files hold the pairs that the family rotates.
func llamaBlock(change Change) []Tensor {
	return []Tensor{
		{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		{Name: "attn_q.weight", Source: "self_attn.q_proj.weight", Change: change},
		{Name: "attn_k.weight", Source: "self_attn.k_proj.weight", Change: change},
		{Name: "attn_v.weight", Source: "self_attn.v_proj.weight"},
		{Name: "attn_q.bias", Source: "self_attn.q_proj.bias", Optional: true, Change: change},
		{Name: "attn_k.bias", Source: "self_attn.k_proj.bias", Optional: true, Change: change},
		{Name: "attn_v.bias", Source: "self_attn.v_proj.bias", Optional: true},
		{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
		{Name: "attn_output.bias", Source: "self_attn.o_proj.bias", Optional: true},
		{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
		{Name: "ffn_gate.weight", Source: "mlp.gate_proj.weight"},
		{Name: "ffn_up.weight", Source: "mlp.up_proj.weight"},
		{Name: "ffn_down.weight", Source: "mlp.down_proj.weight"},
	}
}

// textRoots returns the prefixes of a text model, alone and as a part of folders with pictures, of older and newer
// form.
func textRoots() []string {
	return []string{"model.", "language_model.model.", "model.language_model."}
}

// readLlama reads the names that Llama's configuration shares with most later ones.
func readLlama(c *Config) error {
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, false)
	return nil
}

// replaced returns block with the tensors by in the place of the named one; without any, block lacks it.
func replaced(block []Tensor, name string, by ...Tensor) []Tensor {
	i := slices.IndexFunc(block, func(t Tensor) bool { return t.Name == name })
	return slices.Concat(block[:i], by, block[i+1:])
}

// headNorms returns block with norms of q and k.
func headNorms(block []Tensor) []Tensor {
	i := slices.IndexFunc(block, func(t Tensor) bool { return t.Name == "attn_output.weight" })
	return slices.Insert(slices.Clone(block), i,
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.q_norm.weight"},
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_norm.weight"})
}

// normBiases returns block with a bias behind each norm before a part, whose weight changes so.
func normBiases(block []Tensor, change Change) []Tensor {
	var out []Tensor
	for _, t := range block {
		if t.Name != "attn_norm.weight" && t.Name != "ffn_norm.weight" {
			out = append(out, t)
			continue
		}
		t.Change = change
		bias := Tensor{Name: strings.TrimSuffix(t.Name, "weight") + "bias", Source: strings.TrimSuffix(t.Source, "weight") + "bias"}
		out = append(out, t, bias)
	}
	return out
}
