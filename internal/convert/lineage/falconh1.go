package lineage

import "cmp"

// falconH1 describes Falcon-H1: in each layer attention and a selective state space read the same norm, and both are
// added to the residual. Its configuration has factors of nearly all products, which conversion multiplies weights by.
func falconH1() Family {
	f := llama()
	f.Name, f.HuggingFace = "falcon-h1", []string{"FalconH1ForCausalLM"}
	f.Rotation = HalvesApart
	f.StateSpace, f.AllLayers = true, Recurrent|Attention|FeedForward
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embed_tokens.weight"},
		{Name: "output_norm.weight", Source: "final_layernorm.weight"},
		{Name: "rope_freqs.weight", Optional: true, Change: Computed},
	}
	f.Block = replaced(llamaBlock(Same), "ffn_norm.weight", Tensor{Name: "ffn_norm", Source: "pre_ff_layernorm.weight"}) // files leave ".weight" out
	f.Block = with(f.Block, gatedLayer("feed_forward.")...)
	f.Block = append(f.Block, optional(stateSpaceBlock("mamba."), "ssm_norm.weight")...)
	f.Read, f.Multiplied = readFalconH1, multipliersOfFalconH1
	return f
}

// FalconH1 are the keys of that family's configuration which others do not have.
type FalconH1 struct {
	Inner        int       `json:"mamba_d_ssm"`
	Normed       *bool     `json:"mamba_rms_norm"`
	NormedBefore *bool     `json:"mamba_norm_before_gate"`
	MLPBiases    bool      `json:"projectors_bias"`
	Head         *float64  `json:"lm_head_multiplier"`
	Keys         *float64  `json:"key_multiplier"`
	AttentionIn  *float64  `json:"attention_in_multiplier"`
	AttentionOut *float64  `json:"attention_out_multiplier"`
	StateIn      *float64  `json:"ssm_in_multiplier"`
	StateOut     *float64  `json:"ssm_out_multiplier"`
	Neurons      []float64 `json:"mlp_multipliers"` // factors of the gates, and of the down projection's output
	States       []float64 `json:"ssm_multipliers"` // factors of gates, x, B, C and steps
	Embedding    float64   `json:"-"`
}

// statesMultiplied is the number of FalconH1.States.
const statesMultiplied = 5

func readFalconH1(c *Config) error {
	h, m := &c.FalconH1, &c.Mamba
	c.refuse(m.Bias, "mamba_proj_bias", "biases of recurrent layers' products are not supported")
	c.refuse(c.MLPBias || h.MLPBiases, "mlp_bias", "biases of feed-forward layers are not supported")
	switch {
	case or(h.Normed, false) && or(h.NormedBefore, true):
		return c.Errorf("mamba_norm_before_gate", "a norm before the gate is not supported")
	case c.NemotronH.limited():
		return c.Errorf("time_step_limit", "limits of steps are not supported")
	case len(h.Neurons) != 0 && len(h.Neurons) != 2:
		return c.Errorf("mlp_multipliers", "%d factors instead of two", len(h.Neurons))
	case len(h.States) != 0 && len(h.States) != statesMultiplied:
		return c.Errorf("ssm_multipliers", "%d factors instead of %d", len(h.States), statesMultiplied)
	}
	c.StateSpace = StateSpace{Inner: m.Heads * m.HeadSize, StateSize: m.State, StateHeads: m.Heads, Groups: m.Groups, Taps: m.Taps}
	if h.Inner > 0 && h.Inner != c.StateSpace.Inner {
		return c.Errorf("mamba_d_ssm", "%d heads of %d elements do not make up %d", m.Heads, m.HeadSize, h.Inner)
	}
	if err := readLlama(c); err != nil {
		return err
	}
	h.Embedding, c.EmbeddingScale = cmp.Or(c.EmbeddingScale, 1), 0 // which no key of files says
	c.SplitHead = c.TiedHead && or(h.Head, 1) != h.Embedding
	return nil
}

// multipliersOfFalconH1 returns the factors of the rows of a tensor, in blocks of rows from the first on. name is its
// name in GGUF, in blocks after "blk.N.".
func multipliersOfFalconH1(c *Config, _ int, name string) []Multiplied {
	h, s := &c.FalconH1, c.StateSpace
	all := func(factors ...*float64) []Multiplied {
		by := 1.0
		for _, f := range factors {
			by *= or(f, 1)
		}
		return []Multiplied{{By: by}}
	}
	at := func(list []float64, i int) *float64 {
		if i < len(list) {
			return &list[i]
		}
		return nil
	}
	switch name {
	case "token_embd.weight":
		return all(&h.Embedding)
	case "output.weight":
		return all(h.Head)
	case "attn_q.weight", "attn_v.weight":
		return all(h.AttentionIn)
	case "attn_k.weight":
		return all(h.AttentionIn, h.Keys)
	case "attn_k.bias":
		return all(h.Keys)
	case "attn_output.weight", "attn_output.bias":
		return all(h.AttentionOut)
	case "ffn_gate.weight":
		return all(at(h.Neurons, 0))
	case "ffn_down.weight":
		return all(at(h.Neurons, 1))
	case "ssm_out.weight":
		return all(h.StateOut)
	case "ssm_in.weight":
		shared, rows := s.Groups*s.StateSize, []Multiplied(nil)
		for i, n := range []int{s.Inner, s.Inner, shared, shared, s.StateHeads} {
			rows = append(rows, Multiplied{Rows: n, By: or(h.StateIn, 1) * or(at(h.States, i), 1)})
		}
		return rows
	}
	return nil
}
