package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// nemotronH describes Nemotron-H and Nemotron Nano 2: each layer is one part. Most are recurrent (Mamba-2) or
// feed-forward with squared ReLU, and a few are attention without positions.
func nemotronH() Family {
	const mixer = "mixer."
	block := append([]Tensor{{Name: "attn_norm.weight", Source: "norm.weight"}}, stateSpaceBlock(mixer)...)
	var f Family
	f.Name, f.HuggingFace = "nemotron_h", []string{"NemotronHForCausalLM"}
	f.Activation, f.MaxContext, f.StateSpace, f.OnePart = compute.ReLU2, 4096, true, true
	f.Root, f.Layer = []string{"backbone.", "model."}, "layers.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.weight embed_tokens.weight"},
		{Name: "output_norm.weight", Source: "norm_f.weight norm.weight"},
	}
	f.Block = append(block,
		Tensor{Name: "attn_q.weight", Source: mixer + "q_proj.weight"},
		Tensor{Name: "attn_k.weight", Source: mixer + "k_proj.weight"},
		Tensor{Name: "attn_v.weight", Source: mixer + "v_proj.weight"},
		Tensor{Name: "attn_output.weight", Source: mixer + "o_proj.weight"},
		Tensor{Name: "attn_output.bias", Source: mixer + "o_proj.bias", Optional: true},
		Tensor{Name: "ffn_up.weight", Source: mixer + "up_proj.weight"},
		Tensor{Name: "ffn_up.bias", Source: mixer + "up_proj.bias", Optional: true},
		Tensor{Name: "ffn_down.weight", Source: mixer + "down_proj.weight"},
		Tensor{Name: "ffn_down.bias", Source: mixer + "down_proj.bias", Optional: true},
	)
	f.Read = readNemotronH
	f.Really = func(c *Config) string {
		if c.RoutedExperts > 0 {
			return "nemotron_h_moe"
		}
		return ""
	}
	return f
}

// nemotronHMoE describes Nemotron 3: Nemotron-H with experts of squared ReLU, which in the larger models read and write
// latent vectors.
func nemotronHMoE() Family {
	f := nemotronH()
	f.Name, f.HuggingFace, f.Really = "nemotron_h_moe", nil, nil
	f.Experts = &Experts{Score: compute.Sigmoid, MinSum: leastSum, Counted: true, Latent: true}
	const mixer = "mixer."
	f.Block = append(without(f.Block, insteadOfExperts...),
		Tensor{Name: "ffn_gate_inp.weight", Source: mixer + "gate.weight"},
		Tensor{Name: "exp_probs_b.bias", Source: mixer + "gate.e_score_correction_bias"},
		Tensor{Name: "ffn_latent_down.weight", Source: mixer + "fc1_latent_proj.weight", Optional: true},
		Tensor{Name: "ffn_latent_up.weight", Source: mixer + "fc2_latent_proj.weight", Optional: true},
		Tensor{Name: "ffn_up_exps.weight", Source: mixer + "experts.%d.up_proj.weight", Change: Stacked},
		Tensor{Name: "ffn_down_exps.weight", Source: mixer + "experts.%d.down_proj.weight", Change: Stacked},
		Tensor{Name: "ffn_up_shexp.weight", Source: mixer + "shared_experts.up_proj.weight"},
		Tensor{Name: "ffn_down_shexp.weight", Source: mixer + "shared_experts.down_proj.weight"})
	return f
}

// NemotronH are the keys of that family's configuration.
type NemotronH struct {
	Pattern   string     `json:"hybrid_override_pattern"` // a letter for each layer: M recurrent, * attention, - feed-forward, E experts
	Kinds     []string   `json:"layers_block_type"`       // newer folders: mamba, attention, mlp, moe
	HeadSize  int        `json:"attention_head_dim"`
	MambaAct  string     `json:"mamba_hidden_act"`
	MLPAct    string     `json:"mlp_hidden_act"`
	MambaBias bool       `json:"use_bias"`
	MambaHead int        `json:"mamba_head_dim"`
	Mambas    int        `json:"mamba_num_heads"`
	Groups    int        `json:"n_groups"`
	State     int        `json:"ssm_state_size"`
	Taps      int        `json:"conv_kernel"`
	SharedFF  int        `json:"moe_shared_expert_intermediate_size"`
	LatentFF  int        `json:"moe_latent_size"`
	StepLimit []*float64 `json:"time_step_limit"` // the least and the largest; a missing one is infinite
}

func readNemotronH(c *Config) error {
	n := &c.NemotronH
	c.epsilon("layer_norm_epsilon", cmp.Or(c.LayerNormEps, c.RMSEps), 1e-5)
	c.nonlinearity("mlp_hidden_act", n.MLPAct, "relu2")
	c.TiedHead = or(c.Tied, false)
	c.HeadDim = cmp.Or(n.HeadSize, c.HeadDim)
	c.refuse(cmp.Or(n.MambaAct, "silu") != "silu", "mamba_hidden_act", "%q is not supported; silu is", n.MambaAct)
	c.refuse(n.MambaBias, "use_bias", "biases of recurrent layers' products are not supported")
	if n.limited() {
		return c.Errorf("time_step_limit", "limits of steps are not supported")
	}
	c.StateSpace = StateSpace{Inner: n.Mambas * n.MambaHead, StateSize: n.State, StateHeads: n.Mambas, Groups: n.Groups, Taps: n.Taps}
	if err := c.readParts(); err != nil || c.RoutedExperts == 0 {
		return err
	}
	if err := c.routed(); err != nil {
		return err
	}
	c.Mixture.Normalised, c.Mixture.Shared, c.Mixture.Latent = new(or(c.NormTopK, true)), n.SharedFF, n.LatentFF
	for l, part := range c.LayerParts {
		if part != FeedForward {
			c.Mixture.Dense = append(c.Mixture.Dense, l)
		}
	}
	return nil
}

// readParts fills in which part each layer is.
func (c *Config) readParts() error {
	names := map[string]Part{"M": Recurrent, "*": Attention, "-": FeedForward, "E": FeedForward, "mamba": Recurrent, "attention": Attention, "mlp": FeedForward, "moe": FeedForward}
	key, kinds := "layers_block_type", c.NemotronH.Kinds
	if kinds == nil {
		key = "hybrid_override_pattern"
		for _, letter := range c.NemotronH.Pattern {
			kinds = append(kinds, string(letter))
		}
	}
	if c.Layers == 0 {
		c.Layers = len(kinds)
	}
	if len(kinds) != c.Layers {
		return c.Errorf(key, "it names %d layers of %d", len(kinds), c.Layers)
	}
	for _, kind := range kinds {
		part, ok := names[kind]
		if !ok {
			return c.Errorf(key, "a layer of the kind %q is not supported", kind)
		}
		c.LayerParts = append(c.LayerParts, part)
	}
	return nil
}
