package lineage

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// deepseek2 describes DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash and models of their form, with experts or without:
// keys and values, and in the larger models queries, that follow from latent vectors. Newer files hold the matrices of
// keys and values by head, older ones as one.
func deepseek2() Family {
	f := llama()
	f.Name, f.HuggingFace = "deepseek2", []string{"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", glm4Lite, "YoutuForCausalLM"}
	f.PartialRotary, f.Latent, f.YarnScores = true, true, true
	f.Experts = &Experts{Optional: true, MinSum: leastSum, Counted: true}
	queries := append(latentQueries(true), Tensor{Name: "attn_q.weight", Source: "self_attn.q_proj.weight", Optional: true})
	const both = "self_attn.kv_b_proj.weight"
	block := replaced(latentBlock(queries...), "attn_kv_b.weight",
		Tensor{Name: "attn_k_b.weight", Source: both, Change: LatentKeys},
		Tensor{Name: "attn_v_b.weight", Source: both, Change: LatentValues})
	f.Block = append(sharedExpert(mlpExperts(block), "mlp.shared_experts"),
		Tensor{Name: "exp_probs_b.bias", Source: "mlp.gate.e_score_correction_bias", Optional: true})
	f.Read, f.Further = readDeepSeek2, true
	return f
}

// glm4Lite is the Hugging Face architecture of GLM 4.7 Flash. Its configuration does not tell the scoring function.
const glm4Lite = "Glm4MoeLiteForCausalLM"

func readDeepSeek2(c *Config) error {
	if err := readLatent(c); err != nil {
		return err
	}
	if err := c.routed(); err != nil {
		return err
	}
	m := &c.Mixture
	score := compute.Softmax
	switch {
	case c.Scoring == "" && slices.Contains(c.Architectures, glm4Lite):
		score = compute.Sigmoid
	case c.Scoring == "sigmoid":
		score = compute.Sigmoid
	case c.Scoring != "" && c.Scoring != "softmax":
		return c.Errorf("scoring_func", "%q is not supported; softmax and sigmoid are", c.Scoring)
	}
	m.Score = &score
	ranking := "group_limited_greedy" // files do not say how groups are ranked: it follows from the scores
	if score == compute.Sigmoid {
		ranking = "noaux_tc"
	}
	if m.Count > 0 && m.Groups > 0 && c.TopKMethod != ranking {
		return c.Errorf("topk_method", "%q is not supported with groups of experts and scoring_func %q; %q is", c.TopKMethod, c.Scoring, ranking)
	}
	return readLlama(c)
}

// DeepSeekKeys are DeepSeek's keys.
type DeepSeekKeys struct {
	RoutedExperts int     `json:"n_routed_experts"`
	SharedExperts int     `json:"n_shared_experts"` // each as wide as a routed one
	FirstDense    int     `json:"first_k_dense_replace"`
	ExpertEvery   Counts  `json:"moe_layer_freq"` // n: every n-th layer has experts; or for each layer whether it has experts
	ExpertScale   float64 `json:"routed_scaling_factor"`
	TopKMethod    string  `json:"topk_method"`
	ExpertGroups  int     `json:"n_group"`
	GroupsUsed    int     `json:"topk_group"`
	Further       int     `json:"num_nextn_predict_layers"` // number of MTP layers
}
