package lineage

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// llama describes Llama 1 to 3, Mistral and their kin, with ProSparse and TurboSparse, but without experts, because
// families derived from this one lack them; mixtral adds them. Folders of embedding models may lack the prefix and the
// head.
func llama() Family {
	var f Family
	f.Name, f.HuggingFace = "llama", []string{"LlamaForCausalLM", "SparseLlamaForCausalLM", "MistralForCausalLM", "InternLM3ForCausalLM", "IQuestCoderForCausalLM", "LlamaModel", "MistralModel"}
	f.Rotation, f.Gated, f.Activation, f.MaxContext = Neighbours, true, compute.SiLU, 4096
	f.Root, f.Layer = []string{"model.", ""}, "layers.%d."
	f.Outer, f.Block, f.Read = llamaOuter(), llamaBlock(Pairs), readLlama
	return f
}

// mixtral describes the family that files call llama: the models of the function llama, and models with experts, such
// as Mixtral and TurboSparse-Mixtral (dReLU).
func mixtral() Family {
	f := llama()
	f.HuggingFace = append(f.HuggingFace, "MixtralForCausalLM", turboSparse)
	f.Really = func(c *Config) string { // some EAGLE-3 heads say that they are of Llama
		if c.DraftVocab > 0 && c.Layers == 1 {
			return "eagle3"
		}
		return ""
	}
	f.Experts = &Experts{Optional: true, Normalised: true, MinSum: leastSum, Predictor: "block_sparse_moe.experts.%d.predictor."}
	f.Block = mixtralExperts(f.Block)
	f.Read = func(c *Config) error {
		c.mixture(c.FF)
		if slices.Contains(c.Architectures, turboSparse) {
			c.refuse(c.Act != "" && c.Act != "relu", "hidden_act", "%q is not supported in TurboSparse-Mixtral; relu is, of gates and of ups", c.Act)
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
	return append([]Tensor{
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
	}, gatedLayer("mlp.")...)
}

// textRoots returns the prefixes of a text model, by itself and as a part of folders with pictures, in older and newer
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

// headNorms returns block with norms of q and k.
func headNorms(block []Tensor) []Tensor {
	return before(block, "attn_output.weight",
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.q_norm.weight"},
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_norm.weight"})
}

// normBiases returns block with a bias after each norm before a part. The norms' weights get that change.
func normBiases(block []Tensor, change Change) []Tensor {
	block = changed(block, change, "attn_norm.weight", "ffn_norm.weight")
	for _, norm := range []string{"attn_norm.weight", "ffn_norm.weight"} {
		i := slices.IndexFunc(block, func(t Tensor) bool { return t.Name == norm })
		block = slices.Insert(block, i+1, biasOf(block[i]))
	}
	return block
}
