package lineage

import "cmp"

// cohere2FullEvery is the period of Command R7B's and A's layers that see all positions.
const cohere2FullEvery = 4

// commandR describes Command R, Command R+, Aya 23 and Aya Expanse: LayerNorms without biases, attention parallel to
// the feed-forward layer, a head tied to the embedding, and scaled logits.
func commandR() Family {
	f := llama()
	f.Name, f.HuggingFace = "command-r", []string{"CohereForCausalLM"}
	f.LayerNorm, f.Parallel, f.ScaledLogits, f.AlwaysTied = true, true, true, true
	f.MaxContext = 8192
	f.Block = replaced(llamaBlock(Same), "ffn_norm.weight",
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.q_norm.weight", Optional: true}, // Command R+'s
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_norm.weight", Optional: true})
	f.Read = readCommandR
	return f
}

// cohere2 describes Command R7B and Command A: windows in three of four layers; the others are not rotated.
func cohere2() Family {
	f := commandR()
	f.Name, f.HuggingFace = "cohere2", []string{"Cohere2ForCausalLM"}
	f.Window, f.UsualWindow, f.FullEvery = true, 4096, cohere2FullEvery
	f.Read = func(c *Config) error {
		c.Window = cmp.Or(c.Window, f.UsualWindow)
		return readCommandR(c)
	}
	return f
}

func readCommandR(c *Config) error {
	c.refuse(!or(c.Tied, true), "tie_word_embeddings", "a head that is not the embedding is not supported in this family")
	c.Context = max(c.Context, c.LongContext)
	c.LogitFactor = cmp.Or(c.LogitFactor, 0.0625)
	c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = true
	return nil
}

// CommandRKeys are Command R's keys.
type CommandRKeys struct {
	LogitFactor float64 `json:"logit_scale"`      // logits are multiplied by it
	LongContext int     `json:"model_max_length"` // where max_position_embeddings is less than the model was trained for
	QueryNorm   bool    `json:"use_qk_norm"`
}
