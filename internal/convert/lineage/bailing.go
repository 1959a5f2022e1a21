package lineage

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Bailing are keys of Ling's configuration.
type Bailing struct {
	NormHead   bool   `json:"norm_head"` // the head's columns are normalised to length 1
	Scores     string `json:"score_function"`
	AnyQKVBias bool   `json:"use_qkv_bias"`
}

// bailingMoE describes Ling Lite and Plus: shared experts, and others that a softmax chooses. Checkpoints hold q, k and
// v in one tensor.
func bailingMoE() Family {
	f := llama()
	f.Name, f.HuggingFace = "bailingmoe", []string{"BailingMoeForCausalLM"}
	f.QKV = "attention.query_key_value"
	f.Experts = &Experts{MinSum: leastSum, Counted: true}
	f.Outer = bailingOuter()
	f.Block = bailingBlock(
		Tensor{Name: "attn_q.weight", Source: f.QKV + ".weight", Change: Pairs},
		Tensor{Name: "attn_k.weight", Source: f.QKV + ".weight", Change: Pairs},
		Tensor{Name: "attn_v.weight", Source: f.QKV + ".weight"})
	f.Read = readBailing
	return f
}

// sarvam is the Hugging Face architecture of Sarvam's models. They rotate whole heads.
const sarvam = "SarvamMoEForCausalLM"

// bailingMoE2 describes Ling and Ring 2.0 and Sarvam: experts scored by a sigmoid, with a bias that counts for the
// choice only, and shared ones; norms of q and k.
func bailingMoE2() Family {
	f := bailingMoE()
	f.Name, f.HuggingFace, f.QKV = "bailingmoe2", []string{"BailingMoeV2ForCausalLM", sarvam}, ""
	f.Rotation, f.PartialRotary = HalvesApart, true
	f.Experts = &Experts{Score: compute.Sigmoid, MinSum: leastSum, Counted: true}
	f.Block = append(bailingBlock(
		Tensor{Name: "attn_qkv.weight", Source: "attention.query_key_value.weight"},
		Tensor{Name: "attn_q_norm.weight", Source: "attention.query_layernorm.weight"},
		Tensor{Name: "attn_k_norm.weight", Source: "attention.key_layernorm.weight"}),
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.expert_bias", Optional: true})
	f.Further = true
	f.Read = func(c *Config) error {
		c.refuse(c.Scores != "" && c.Scores != "sigmoid", "score_function", "%q is not supported; sigmoid is", c.Scores)
		if slices.Contains(c.Architectures, sarvam) {
			c.Rotary = 1
		} else {
			c.rotates(0.5)
		}
		c.NormTopK = new(or(c.NormTopK, true))
		return readBailing(c)
	}
	return f
}

func bailingOuter() []Tensor {
	return []Tensor{{Name: "token_embd.weight", Source: "word_embeddings.weight embed_tokens.weight"}, {Name: "output_norm.weight", Source: "norm.weight"}}
}

// bailingBlock returns the tensors of a block with the given ones of queries, keys and values.
func bailingBlock(qkv ...Tensor) []Tensor {
	block := slices.Concat([]Tensor{{Name: "attn_norm.weight", Source: "input_layernorm.weight"}}, qkv, []Tensor{
		{Name: "attn_output.weight", Source: "attention.dense.weight"},
		{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
	}, gatedLayer("mlp."))
	return sharedExpert(mlpExperts(block), "mlp.shared_experts")
}

func readBailing(c *Config) error {
	c.refuse(c.MambaBias || c.AnyQKVBias, "use_bias", "biases are not supported in this family")
	c.RoutedExperts, c.SharedExperts, c.UnitColumns = c.NumExperts, c.sharedCount(0), c.NormHead
	if err := c.routed(); err != nil {
		return err
	}
	return readLlama(c)
}
